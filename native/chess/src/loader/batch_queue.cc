#include "loader/batch_queue.h"

#include "loader/loader.h"

namespace ludus::chess::loader {

std::shared_ptr<Batch> BatchQueue::take(std::chrono::duration<double> most) {
  std::unique_lock lock(mutex_);
  const auto is_there = [this] { return is_stopped_ || failure_ || finished_.contains(taken_); };
  if (!changed_.wait_for(lock, most, is_there)) return nullptr;
  if (is_stopped_) throw LoaderStopped();
  if (failure_) throw std::runtime_error(*failure_);
  auto next = finished_.extract(taken_);
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  return std::move(next.mapped());
}

}  // namespace ludus::chess::loader
