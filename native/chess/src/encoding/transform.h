// Symmetries of the canonical input formats. Bit set: flip files, then mirror ranks, then transpose about the a8-h1 diagonal.
#pragma once

#include "board/position.h"

namespace ludus::chess {

enum Transform : int { kNoTransform = 0, kFlip = 1, kMirror = 2, kTranspose = 4 };

constexpr Bitboard flip_files(Bitboard board) {  // Files two by two, then pairs of files, then halves.
  for (int width = 1; width < 8; width *= 2) {
    const Bitboard left = ~Bitboard{0} / ((Bitboard{1} << width) + 1);  // Every other group of so many files.
    board = (board & left) << width | (board >> width & left);
  }
  return board;
}

constexpr Square transform_square(Square s, int transform) {
  int file = file_of(s), rank = rank_of(s);
  if (transform & kFlip) file = 7 - file;
  if (transform & kMirror) rank = 7 - rank;
  if (transform & kTranspose) return square(7 - rank, 7 - file);
  return square(file, rank);
}

constexpr Bitboard transform_bits(Bitboard v, int transform) {
  if (transform & kFlip) v = flip_files(v);
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
