// Positions of a restored reservoir that have no copy yet, by chunk: a chunk is decoded once for all of them, by a worker
// that has nothing else to do or by the first one that needs it.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loader/reservoir/reservoir.h"

namespace ludus::chess::loader {

class Refill {
 public:
  struct Slot {
    uint32_t slot = 0;
    uint16_t index = 0;
  };
  struct Copied {
    uint32_t slot = 0;
    Drawn drawn;
  };

  void add(PositionRef position, uint32_t slot) {
    const std::lock_guard lock(mutex_);
    missing_[position.chunk].push_back({.slot = slot, .index = position.index});
  }
  // What is missing of this chunk, or of any one; whoever takes it sees to it.
  std::vector<Slot> take(uint32_t chunk) {
    const std::lock_guard lock(mutex_);
    auto taken = missing_.extract(chunk);
    return taken ? std::move(taken.mapped()) : std::vector<Slot>();
  }
  std::optional<std::pair<uint32_t, std::vector<Slot>>> take_any() {
    const std::lock_guard lock(mutex_);
    if (missing_.empty()) return std::nullopt;
    auto taken = missing_.extract(missing_.begin());
    return std::pair(taken.key(), std::move(taken.mapped()));
  }
  void give(Copied copied) {
    const std::lock_guard lock(mutex_);
    copied_.push_back(std::move(copied));
  }
  std::vector<Copied> collect() {
    const std::lock_guard lock(mutex_);
    return std::exchange(copied_, {});
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint32_t, std::vector<Slot>> missing_;
  std::vector<Copied> copied_;
};

}  // namespace ludus::chess::loader
