#include "loader/tensors/game.h"

#include <algorithm>
#include <bit>

namespace ludus::chess::loader {
namespace {

// One history step as the other side sees it: ours and theirs swapped, ranks mirrored; repetition stays.
void turn(const uint64_t* step, uint64_t* into) {
  for (size_t plane = 0; plane < 6; ++plane) {
    into[plane] = __builtin_bswap64(step[plane + 6]);
    into[plane + 6] = __builtin_bswap64(step[plane]);
  }
  into[12] = __builtin_bswap64(step[12]);
}

bool is_empty(const uint64_t* step) {
  return std::all_of(step, step + kStepPlanes, [](uint64_t plane) { return plane == 0; });
}

size_t filled_steps(const Planes& planes) {
  size_t steps = kSteps;
  while (steps > 1 && is_empty(planes.data() + (steps - 1) * kStepPlanes)) --steps;
  return steps;
}

bool is_history(const Planes& planes, const Planes& before, size_t steps) {
  std::array<uint64_t, kStepPlanes> turned;
  for (size_t step = 1; step < steps; ++step) {
    turn(before.data() + (step - 1) * kStepPlanes, turned.data());
    if (!std::equal(turned.begin(), turned.end(), planes.begin() + step * kStepPlanes)) return false;
  }
  return true;
}

}  // namespace

void Game::add(const Record& record, const Numbers& n, const LegalMoves& moves, bool follows) {
  Position position;
  add_planes(record, follows, position);
  position.format = static_cast<uint8_t>(record.input_format());
  for (size_t i = 0; i < position.bytes.size(); ++i) position.bytes[i] = record.byte(8272 + i);
  position.values = {n.result_q, n.result_d, n.plies_left, n.best_q, n.best_d, n.best_m, n.played_q, n.played_d,
                     n.played_m, n.orig_q,   n.orig_d,     n.orig_m, n.root_q, n.root_d, n.root_m,   n.q_st, n.d_st};
  position.moves = static_cast<uint32_t>(moves_.size());
  position.probabilities = static_cast<uint32_t>(probabilities_.size());
  position.legal = static_cast<uint16_t>(moves.indices.size());
  for (size_t i = 0; i < moves.indices.size(); ++i) {
    if (std::bit_cast<uint32_t>(moves.probabilities[i]) == 0) continue;  // Only +0: -0 and NaN are kept as they are.
    moves_.push_back(moves.indices[i]);
    probabilities_.push_back(moves.probabilities[i]);
    ++position.visited;
  }
  for (size_t i = 0; i < moves.indices.size(); ++i) {
    if (std::bit_cast<uint32_t>(moves.probabilities[i]) == 0) moves_.push_back(moves.indices[i]);
  }
  positions_.push_back(position);
}

void Game::add_planes(const Record& record, bool follows, Position& position) {
  Planes planes;
  record.planes(planes);
  const size_t steps = filled_steps(planes);
  const bool derived = follows && last_ && is_history(planes, *last_, steps);
  position.boards = static_cast<uint32_t>(boards_.size());
  position.kept_steps = static_cast<uint8_t>(derived ? 1 : steps);
  position.derived_steps = static_cast<uint8_t>(derived ? steps - 1 : 0);
  boards_.insert(boards_.end(), planes.begin(), planes.begin() + position.kept_steps * kStepPlanes);
  if (!last_) last_ = std::make_unique<Planes>();
  *last_ = planes;
}

void Game::finish() {
  last_.reset();
  positions_.shrink_to_fit();
  boards_.shrink_to_fit();
  moves_.shrink_to_fit();
  probabilities_.shrink_to_fit();
  weights.shrink_to_fit();
}

size_t Game::bytes() const {
  constexpr size_t kHeaders = 6 * 16;  // Of the allocator, about.
  return sizeof(Game) + kHeaders + positions_.capacity() * sizeof(Position) + boards_.capacity() * 8 +
         moves_.capacity() * 2 + probabilities_.capacity() * 4 + weights.capacity() * 4;
}

void Game::planes(size_t index, Planes& into) const {
  size_t last = 0;  // Steps below this one are written.
  size_t most = kSteps;
  bool is_turned = false;
  // Walk back: position `index - distance` gives steps `distance`, `distance + 1`, ... as far as it keeps them.
  for (size_t distance = 0; distance < most; ++distance, is_turned = !is_turned) {
    const Position& source = positions_[index - distance];
    const size_t reach = std::min<size_t>(most, distance + source.kept_steps + source.derived_steps);
    const size_t kept = std::min<size_t>(reach, distance + source.kept_steps);
    for (; last < kept; ++last) {
      const uint64_t* step = boards_.data() + source.boards + (last - distance) * kStepPlanes;
      uint64_t* out = into.data() + last * kStepPlanes;
      if (is_turned) {
        turn(step, out);
      } else {
        std::copy_n(step, kStepPlanes, out);
      }
    }
    most = reach;
    if (last >= most) break;
  }
  std::fill(into.begin() + last * kStepPlanes, into.end(), 0);
}

}  // namespace ludus::chess::loader
