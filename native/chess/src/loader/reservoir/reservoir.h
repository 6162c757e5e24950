// Mixes positions of many games: a random one goes out, the next one takes its place.
//
// A position is two numbers here, not a copy. Output begins before the reservoir is full: with sixteen batches in it, or
// one pass over the pool, whichever is less; from there it takes two positions for each one it gives until it is full.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/chunk_pool/journaled.h"
#include "loader/random.h"

namespace ludus::chess::loader {

struct PositionRef {
  uint32_t chunk = 0;
  uint16_t index = 0;

  bool operator==(const PositionRef&) const = default;
};

class Reservoir {
 public:
  explicit Reservoir(size_t capacity) : capacity_(capacity) {}

  bool is_full() const { return slots_.size() >= capacity_; }
  size_t size() const { return slots_.size(); }
  size_t capacity() const { return capacity_; }
  void add(PositionRef position) { slots_.push(position); }

  PositionRef exchange(PositionRef next, Random& random) {
    const size_t slot = random.below(static_cast<uint32_t>(slots_.size()));
    const PositionRef out = slots_[slot];
    slots_.set(slot, next);
    return out;
  }

  uint64_t mark() const { return slots_.mark(); }
  void forget_before(uint64_t mark) { slots_.forget_before(mark); }
  std::vector<PositionRef> saved_at(uint64_t mark) const { return slots_.at(mark); }
  void restore(std::vector<PositionRef> positions) { slots_.restore(std::move(positions)); }

 private:
  const size_t capacity_;
  Journaled<PositionRef> slots_;
};

}  // namespace ludus::chess::loader
