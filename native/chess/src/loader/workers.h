// Threads that do what is asked of them in order. Each has a decoder of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/config.h"
#include "loader/decoder.h"

namespace ludus::chess::loader {

class Workers {
 public:
  using Task = std::function<void(Decoder&)>;

  explicit Workers(const LoaderConfig& config);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void add(Task task);
  void when_idle(std::function<bool(Decoder&)> work);  // Until it returns false. Once, from one thread.
  void stop();  // What has not begun is left undone. Waits for what has.
  size_t waiting() const;

 private:
  void run();

  const LoaderConfig& config_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::function<bool(Decoder&)> idle_work_;
  bool has_idle_work_ = false;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ludus::chess::loader
