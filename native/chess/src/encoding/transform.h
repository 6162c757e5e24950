// Symmetries of the canonical input formats. Bit set: flip files, then mirror ranks, then transpose about the a8-h1 diagonal.
#pragma once

#include "board/position.h"

namespace ludus::chess {

enum Transform : int { kNoTransform = 0, kFlip = 1, kMirror = 2, kTranspose = 4 };

constexpr Bitboard reverse_bits_in_bytes(Bitboard v) {
  v = ((v >> 1) & 0x5555555555555555ULL) | ((v & 0x5555555555555555ULL) << 1);
  v = ((v >> 2) & 0x3333333333333333ULL) | ((v & 0x3333333333333333ULL) << 2);
  return ((v >> 4) & 0x0F0F0F0F0F0F0F0FULL) | ((v & 0x0F0F0F0F0F0F0F0FULL) << 4);
}

constexpr Square transform_square(Square s, int transform) {
  int file = file_of(s), rank = rank_of(s);
  if (transform & kFlip) file = 7 - file;
  if (transform & kMirror) rank = 7 - rank;
  if (transform & kTranspose) return square(7 - rank, 7 - file);
  return square(file, rank);
}

constexpr Bitboard transform_bits(Bitboard v, int transform) {
  if (transform & kFlip) v = reverse_bits_in_bytes(v);
  if (transform & kMirror) v = flip_ranks(v);
  if (transform & kTranspose) {
    Bitboard out = 0;
    while (v) out |= bit(transform_square(pop_lowest(v), kTranspose));
    v = out;
  }
  return v;
}

// The transform that puts the mover's king into the canonical region, for formats from 3 on.
int canonical_transform(const Position& position);

}  // namespace ludus::chess
