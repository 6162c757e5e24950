#include "loader/workers.h"

namespace ludus::chess::loader {

Workers::Workers(const LoaderConfig& config) : config_(config) {
  for (size_t i = 0; i < config.threads; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Workers::when_idle(std::function<bool(Decoder&)> work) {
  {
    const std::lock_guard lock(mutex_);
    idle_work_ = std::move(work);
    has_idle_work_ = true;
  }
  changed_.notify_all();
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

size_t Workers::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

void Workers::run() {
  Decoder decoder(config_);
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || has_idle_work_ || !tasks_.empty(); });
      if (is_stopping_) return;
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
    }
    if (task) {
      task(decoder);
    } else if (!idle_work_(decoder)) {
      const std::lock_guard lock(mutex_);
      has_idle_work_ = false;
    }
  }
}

}  // namespace ludus::chess::loader
