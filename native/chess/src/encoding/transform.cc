#include "encoding/transform.h"

#include <array>

namespace ludus::chess {
namespace {

// Where the mover's king belongs: on the right half; without pawns, in the triangle of h1, e1 and h4.
bool is_home(Square king, bool has_pawns) {
  return file_of(king) >= 4 && (has_pawns || (rank_of(king) < 4 && file_of(king) + rank_of(king) <= 7));
}

// What decides between two pictures of a board, in this order: the smaller number wins.
std::array<Bitboard, 7> picture(const Position& p, int transform) {
  std::array<Bitboard, 7> sets{p.occupied(),     p.colors[p.to_move], p.pieces[kKing],  p.pieces[kQueen],
                               p.pieces[kRook], p.pieces[kKnight],   p.pieces[kBishop]};
  for (Bitboard& set : sets) set = transform_bits(p.to_move == kBlack ? flip_ranks(set) : set, transform);
  return sets;
}

}  // namespace

// At most two of the eight symmetries bring the king home: two, where it is on the axis of the triangle.
int canonical_transform(const Position& p) {
  if (p.has_castling_rights()) return kNoTransform;
  const bool has_pawns = p.pieces[kPawn] != 0;
  const Square king = p.king(p.to_move) ^ (p.to_move == kBlack ? 56 : 0);
  int found = -1;
  for (int transform = 0; transform < (has_pawns ? kMirror : 2 * kTranspose); ++transform) {
    if (!is_home(transform_square(king, transform), has_pawns)) continue;
    if (found < 0 || picture(p, transform) < picture(p, found)) found = transform;
  }
  return found;
}

}  // namespace ludus::chess
