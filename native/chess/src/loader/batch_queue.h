// Batches that are being made or wait to be taken, in their order, whichever is finished first.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "loader/tensors/batch.h"

namespace ludus::chess::loader {

class BatchQueue {
 public:
  BatchQueue(size_t capacity, uint64_t first) : capacity_(capacity), taken_(first) {}

  // For the maker: waits until batch `number` may be begun. False: stopped.
  bool wait_for_room(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopped_ || number < taken_ + capacity_; });
    return !is_stopped_;
  }

  void put(uint64_t number, std::shared_ptr<Batch> batch) {
    {
      const std::lock_guard lock(mutex_);
      finished_[number] = std::move(batch);
    }
    changed_.notify_all();
  }

  // The next batch, or null after `most`. Throws if the loader is stopped or has failed.
  std::shared_ptr<Batch> take(std::chrono::duration<double> most);

  uint64_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return finished_.size();
  }
  size_t capacity() const { return capacity_; }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
      finished_.clear();
    }
    changed_.notify_all();
  }

  void fail(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = why;
    }
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::shared_ptr<Batch>> finished_;
  uint64_t taken_;
  bool is_stopped_ = false;
  std::optional<std::string> failure_;
};

}  // namespace ludus::chess::loader
