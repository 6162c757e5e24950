// A decoded game in a compact form, without loss: about 280 bytes a position instead of 8356.
//
// The history of a position is what its predecessors were, seen from the other side. So a position keeps its own 13
// bitboards; its history is built from the positions before it wherever that gives exactly what the record says, and
// kept wherever it does not (formats that turn or cut it).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "loader/validation/record.h"
#include "loader/validation/validation.h"

namespace ludus::chess::loader {

inline constexpr size_t kValues = 17;  // The six rows of (q, d, m), but for the last m, which is unknown.

struct Facts {  // What a position has beside its boards and moves.
  uint16_t legal = 0;
  uint16_t visited = 0;
  uint8_t format = 0;
  std::array<uint8_t, 7> bytes{};  // Castling (4), side or en passant, rule50, invariance: as in the record.
  std::array<float, kValues> values{};
};

struct Position : Facts {
  uint32_t boards = 0;         // Where its bitboards begin.
  uint32_t moves = 0;          // Where its move indices begin: visited ones first.
  uint32_t probabilities = 0;  // Where the probabilities of the visited ones begin.
  uint8_t kept_steps = 0;      // History steps that are kept, with the position itself.
  uint8_t derived_steps = 0;   // Steps behind these that the positions before it give; what is left is empty.
};

class Game {
 public:
  // `follows`: the record before it was added, too. The first call must pass false.
  void add(const Record& record, const Numbers& numbers, const LegalMoves& moves, bool follows);
  void finish();  // Gives back spare memory.

  size_t size() const { return positions_.size(); }
  size_t bytes() const;
  const Position& position(size_t index) const { return positions_[index]; }
  void planes(size_t index, Planes& into) const;
  const uint16_t* moves(const Position& position) const { return moves_.data() + position.moves; }
  const float* probabilities(const Position& position) const { return probabilities_.data() + position.probabilities; }

  std::vector<float> weights;  // Of the positions, where sampling asks for them.
  uint64_t content = 0;        // A hash of the records: the same game twice is used once.

 private:
  void add_planes(const Record& record, bool follows, Position& position);

  std::vector<Position> positions_;
  std::vector<uint64_t> boards_;
  std::vector<uint16_t> moves_;
  std::vector<float> probabilities_;
  std::unique_ptr<Planes> last_;  // Of the record that was added last; only while the game is being read.
};

}  // namespace ludus::chess::loader
