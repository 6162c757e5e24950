// Mixes positions of many games: a random one goes out, the next one takes its place.
//
// A position is two numbers, and a copy of its own where its game is not kept in memory; only the numbers are saved.
// Output begins before the reservoir is full: with sixteen batches in it, or one pass over the pool, whichever is less;
// from there it takes two positions for each one it gives until it is full.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "loader/chunk_pool/journaled.h"
#include "loader/random.h"
#include "loader/tensors/packed.h"

namespace ludus::chess::loader {

struct PositionRef {
  uint32_t chunk = 0;
  uint16_t index = 0;

  bool operator==(const PositionRef&) const = default;
};

struct Drawn {
  PositionRef position;
  Packed copy;  // Nothing: it is taken from its game when the batch is made.
};

class Reservoir {
 public:
  explicit Reservoir(size_t capacity) : capacity_(capacity) {}

  bool is_full() const { return slots_.size() >= capacity_; }
  size_t size() const { return slots_.size(); }
  size_t capacity() const { return capacity_; }
  void add(Drawn next) {
    slots_.push(next.position);
    copies_.push_back(std::move(next.copy));
  }

  Drawn exchange(Drawn next, Random& random) {
    const size_t slot = random.below(static_cast<uint32_t>(slots_.size()));
    Drawn out{.position = slots_[slot], .copy = std::exchange(copies_[slot], std::move(next.copy))};
    slots_.set(slot, next.position);
    return out;
  }

  const PositionRef& position(size_t slot) const { return slots_[slot]; }
  bool has_copy(size_t slot) const { return static_cast<bool>(copies_[slot]); }
  void set_copy(size_t slot, Packed copy) { copies_[slot] = std::move(copy); }

  uint64_t mark() const { return slots_.mark(); }
  void forget_before(uint64_t mark) { slots_.forget_before(mark); }
  std::vector<PositionRef> saved_at(uint64_t mark) const { return slots_.at(mark); }
  void restore(std::vector<PositionRef> positions) {
    copies_.clear();
    copies_.resize(positions.size());
    slots_.restore(std::move(positions));
  }

 private:
  const size_t capacity_;
  Journaled<PositionRef> slots_;
  std::vector<Packed> copies_;
};

}  // namespace ludus::chess::loader
