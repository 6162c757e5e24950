// lc0's policy indices: 1792 moves with the geometry of a queen or a knight, then 66 promotions to queen, rook and bishop;
// a promotion to a knight is the plain move, castling is king takes rook. Squares are seen from the side to move.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "board/position.h"
#include "encoding/transform.h"

namespace ludus::chess {

inline constexpr int kPolicySize = 1858;

// The policy index of a legal move, in the frame of a symmetry transform (formats from 3 on; 0 otherwise).
int policy_index(const Position& position, Move move, int transform = kNoTransform);
// Throws std::invalid_argument where no legal move has this index.
Move move_of_index(const Position& position, int index, int transform = kNoTransform);
const std::vector<std::string>& policy_moves();

}  // namespace ludus::chess
