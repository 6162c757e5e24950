#include "encoding/transform.h"

namespace ludus::chess {
namespace {

constexpr Bitboard above_diagonal() {
  Bitboard out = 0;
  for (Square s = 0; s < 64; ++s)
    if (file_of(s) + rank_of(s) > 7) out |= bit(s);
  return out;
}

constexpr Bitboard on_diagonal() {
  Bitboard out = 0;
  for (Square s = 0; s < 64; ++s)
    if (file_of(s) + rank_of(s) == 7) out |= bit(s);
  return out;
}

}  // namespace

int canonical_transform(const Position& p) {
  if (p.has_castling_rights()) return kNoTransform;
  const auto view = [&](Bitboard b) { return p.to_move == kBlack ? flip_ranks(b) : b; };
  const Bitboard king = view(p.of(p.to_move, kKing));
  int transform = kNoTransform;
  if (file_of(lowest(king)) < 4) transform |= kFlip;
  if (p.pieces[kPawn]) return transform;
  if (rank_of(lowest(king)) > 3) transform |= kMirror;
  const Bitboard placed = transform_bits(king, transform);
  if (placed & above_diagonal()) return transform | kTranspose;
  if (!(placed & on_diagonal())) return transform;
  // The king is on the axis: the smaller of both pictures, compared set by set.
  for (const Bitboard set : {p.occupied(), p.colors[p.to_move], p.pieces[kKing], p.pieces[kQueen], p.pieces[kRook],
                             p.pieces[kKnight], p.pieces[kBishop]}) {
    const Bitboard plain = transform_bits(view(set), transform);
    const Bitboard transposed = transform_bits(plain, kTranspose);
    if (plain != transposed) return plain < transposed ? transform : transform | kTranspose;
  }
  return transform;
}

}  // namespace ludus::chess
