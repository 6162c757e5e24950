#include "loader/tensors/packed.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace ludus::chess::loader {
namespace {

using Mask = uint16_t;  // Of the planes of a step that differ from the step before.

struct Differences {
  std::array<Mask, kSteps> masks{};
  std::array<uint64_t, kPlanes> words{};
  size_t count = 0;
};

void find_differences(const Planes& planes, Differences& found) {
  for (size_t i = 0; i < kPlanes; ++i) {
    const uint64_t differs = planes[i] ^ (i < kStepPlanes ? 0 : planes[i - kStepPlanes]);
    if (differs == 0) continue;
    found.masks[i / kStepPlanes] |= static_cast<Mask>(1U << (i % kStepPlanes));
    found.words[found.count++] = differs;
  }
}

}  // namespace

void CountedDelete::operator()(uint8_t* block) const {
  *total -= reinterpret_cast<const Packed::Head*>(block)->bytes + Packed::kAllocator;
  ::operator delete(block);
}

Packed::Packed(const Game& game, size_t index, std::atomic<size_t>& total) {
  const Position& position = game.position(index);
  Planes planes;
  game.planes(index, planes);
  Differences differences;
  find_differences(planes, differences);
  const size_t policy = position.visited * sizeof(float) + position.legal * sizeof(uint16_t);
  const size_t bytes = sizeof(Head) + policy + sizeof(differences.masks) + differences.count * sizeof(uint64_t);
  block_ = {static_cast<uint8_t*>(::operator new(bytes)), CountedDelete{&total}};
  uint8_t* at = block_.get();
  new (at) Head{.bytes = static_cast<uint32_t>(bytes), .facts = position};
  at += sizeof(Head);
  const auto append = [&at](const void* from, size_t size) {
    if (size > 0) std::memcpy(at, from, size);
    at += size;
  };
  append(game.probabilities(position), position.visited * sizeof(float));
  append(game.moves(position), position.legal * sizeof(uint16_t));
  append(differences.masks.data(), sizeof(differences.masks));
  append(differences.words.data(), differences.count * sizeof(uint64_t));
  total += bytes + kAllocator;
}

void Packed::planes(Planes& into) const {
  const auto* at = reinterpret_cast<const uint8_t*>(moves() + facts().legal);
  std::array<Mask, kSteps> masks;
  std::memcpy(masks.data(), at, sizeof(masks));
  at += sizeof(masks);
  for (size_t step = 0; step < kSteps; ++step) {
    uint64_t* now = into.data() + step * kStepPlanes;
    if (step == 0) {
      std::fill_n(now, kStepPlanes, 0);
    } else {
      std::copy_n(now - kStepPlanes, kStepPlanes, now);
    }
    for (Mask left = masks[step]; left != 0; left = static_cast<Mask>(left & (left - 1))) {
      uint64_t word;
      std::memcpy(&word, at, sizeof(word));
      now[std::countr_zero(left)] ^= word;
      at += sizeof(word);
    }
  }
}

}  // namespace ludus::chess::loader
