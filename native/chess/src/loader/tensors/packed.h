// One position as a block of bytes of its own, without loss: about 400 of them, whatever becomes of its game.
//
// Each history step is kept as the planes in which it differs from the step after it: one or two for a move.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "loader/tensors/game.h"

namespace ludus::chess::loader {

struct CountedDelete {
  std::atomic<size_t>* total = nullptr;
  void operator()(uint8_t* block) const;
};

class Packed {
 public:
  Packed() = default;  // Nothing: the position is known by its number only.
  // `total`: counts the bytes of all blocks that are there; outlives them.
  Packed(const Game& game, size_t index, std::atomic<size_t>& total);

  explicit operator bool() const { return block_ != nullptr; }
  size_t bytes() const { return head().bytes + kAllocator; }
  const Facts& facts() const { return head().facts; }
  const float* probabilities() const { return reinterpret_cast<const float*>(block_.get() + sizeof(Head)); }
  const uint16_t* moves() const { return reinterpret_cast<const uint16_t*>(probabilities() + facts().visited); }
  void planes(Planes& into) const;

 private:
  friend struct CountedDelete;
  static constexpr size_t kAllocator = 16;  // What the allocator adds to a block, about.
  struct Head {
    uint32_t bytes = 0;
    Facts facts;
  };
  const Head& head() const { return *reinterpret_cast<const Head*>(block_.get()); }

  std::unique_ptr<uint8_t[], CountedDelete> block_;
};

}  // namespace ludus::chess::loader
