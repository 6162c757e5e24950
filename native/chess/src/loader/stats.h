// What a loader is doing, for dashboards: one row for each stage.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loader/refusal.h"

namespace ludus::chess::loader {

using Nanoseconds = std::chrono::nanoseconds;

struct StageStats {
  std::string name;
  double busy_s = 0;      // Of all threads, since the start.
  double load = 0;        // Threads that were busy with it on average since the last call.
  uint64_t queue = 0;     // What waits in it,
  uint64_t capacity = 0;  // and how much may; 0 = it has no queue.
  std::vector<std::pair<std::string, uint64_t>> counts;
};

struct LoaderStats {
  std::vector<StageStats> stages;
  std::map<std::string, uint64_t> refused;  // By reason: positions, chunks and files.
  uint64_t batches = 0;
  uint64_t positions = 0;
  uint64_t chunks = 0;  // In the pool.
  uint64_t chunks_since_anchor = 0;
  bool is_scanned = false;  // The files that were there at the start are known.
  bool is_starved = false;  // Too few chunks are left for a batch, and none is to join.
  std::string newest_key;
  std::string anchor;
  uint64_t cache_bytes = 0;
};

// Counters that all threads write.
struct Meters {
  std::atomic<int64_t> indexing{0}, inflating{0}, checking{0}, targeting{0}, shuffling{0}, expanding{0};  // ns
  std::atomic<uint64_t> chunks{0}, chunks_refused{0}, gz_bytes{0}, raw_bytes{0};
  std::atomic<uint64_t> positions{0}, positions_refused{0}, lost{0};
};

class Busy {  // Adds the time from here to the end of the block.
 public:
  explicit Busy(std::atomic<int64_t>& into) : into_(into), started_(std::chrono::steady_clock::now()) {}
  ~Busy() { into_ += Nanoseconds(std::chrono::steady_clock::now() - started_).count(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<int64_t>& into_;
  std::chrono::steady_clock::time_point started_;
};

// The last refusals, until someone takes them, and how many there were of each reason.
class Refusals {
 public:
  void add(Refusal refusal) {
    const std::lock_guard lock(mutex_);
    ++counts_[refusal.reason];
    waiting_.push_back(std::move(refusal));
    if (waiting_.size() > kMost) waiting_.pop_front();
  }
  std::vector<Refusal> take() {
    const std::lock_guard lock(mutex_);
    std::vector<Refusal> taken(waiting_.begin(), waiting_.end());
    waiting_.clear();
    return taken;
  }
  std::map<std::string, uint64_t> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  static constexpr size_t kMost = 1000;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;
  std::deque<Refusal> waiting_;
};

}  // namespace ludus::chess::loader
