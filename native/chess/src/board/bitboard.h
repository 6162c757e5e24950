// Squares, bitboards and attack sets. a1 = 0, b1 = 1, ... h8 = 63; bit n of a bitboard is square n.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace ludus::chess {

using Square = int;
using Bitboard = std::uint64_t;

constexpr Bitboard kFileA = 0x0101010101010101ULL;
constexpr Bitboard kRank1 = 0xFFULL;

constexpr Square square(int file, int rank) { return rank * 8 + file; }
constexpr int file_of(Square s) { return s & 7; }
constexpr int rank_of(Square s) { return s >> 3; }
constexpr Bitboard bit(Square s) { return 1ULL << s; }
constexpr Square lowest(Bitboard b) { return std::countr_zero(b); }
constexpr Square pop_lowest(Bitboard& b) {
  const Square s = lowest(b);
  b &= b - 1;
  return s;
}
constexpr Bitboard flip_ranks(Bitboard b) { return __builtin_bswap64(b); }

inline std::string square_name(Square s) {
  return {static_cast<char>('a' + file_of(s)), static_cast<char>('1' + rank_of(s))};
}

namespace attack_tables {

constexpr Bitboard ray(Square s, int df, int dr) {
  Bitboard out = 0;
  for (int f = file_of(s) + df, r = rank_of(s) + dr; f >= 0 && f < 8 && r >= 0 && r < 8; f += df, r += dr) out |= bit(square(f, r));
  return out;
}

constexpr Bitboard step(Square s, int df, int dr) {
  const int f = file_of(s) + df, r = rank_of(s) + dr;
  return f >= 0 && f < 8 && r >= 0 && r < 8 ? bit(square(f, r)) : 0;
}

struct Tables {
  std::array<Bitboard, 64> knight{}, king{}, file{}, diagonal{}, antidiagonal{};
  std::array<std::array<Bitboard, 64>, 2> pawn{};
  std::array<std::array<std::uint8_t, 64>, 8> rank{};  // [file][six inner bits of the rank's occupancy]
  std::array<std::array<Bitboard, 64>, 64> between{}, line{};
};

constexpr Tables make_tables() {
  Tables t;
  for (Square s = 0; s < 64; ++s) {
    for (int a : {-2, -1, 1, 2})
      for (int b : {-2, -1, 1, 2})
        if (a * a != b * b) t.knight[s] |= step(s, a, b);
    for (int a : {-1, 0, 1})
      for (int b : {-1, 0, 1})
        if (a != 0 || b != 0) t.king[s] |= step(s, a, b);
    t.pawn[0][s] = step(s, -1, 1) | step(s, 1, 1);
    t.pawn[1][s] = step(s, -1, -1) | step(s, 1, -1);
    t.file[s] = ray(s, 0, 1) | ray(s, 0, -1);
    t.diagonal[s] = ray(s, 1, 1) | ray(s, -1, -1);
    t.antidiagonal[s] = ray(s, 1, -1) | ray(s, -1, 1);
    for (int df : {-1, 0, 1}) {
      for (int dr : {-1, 0, 1}) {
        if (df == 0 && dr == 0) continue;
        const Bitboard whole = ray(s, df, dr) | ray(s, -df, -dr) | bit(s);
        Bitboard passed = 0;
        for (int f = file_of(s) + df, r = rank_of(s) + dr; f >= 0 && f < 8 && r >= 0 && r < 8; f += df, r += dr) {
          const Square to = square(f, r);
          t.between[s][to] = passed;
          t.line[s][to] = whole;
          passed |= bit(to);
        }
      }
    }
  }
  for (int file = 0; file < 8; ++file) {
    for (int inner = 0; inner < 64; ++inner) {
      const int occupied = inner << 1;
      int out = 0;
      for (int f = file + 1; f < 8; ++f) {
        out |= 1 << f;
        if (occupied & (1 << f)) break;
      }
      for (int f = file - 1; f >= 0; --f) {
        out |= 1 << f;
        if (occupied & (1 << f)) break;
      }
      t.rank[file][inner] = static_cast<std::uint8_t>(out);
    }
  }
  return t;
}

inline constexpr Tables kTables = make_tables();

// Attacks along one line of a slider: (o - 2r) from both ends, the line being a file or a diagonal.
constexpr Bitboard line_attacks(Square s, Bitboard occupied, Bitboard mask) {
  Bitboard forward = occupied & mask;
  Bitboard backward = __builtin_bswap64(forward);
  forward -= bit(s);
  backward -= __builtin_bswap64(bit(s));
  return (forward ^ __builtin_bswap64(backward)) & mask;
}

}  // namespace attack_tables

constexpr Bitboard knight_attacks(Square s) { return attack_tables::kTables.knight[s]; }
constexpr Bitboard king_attacks(Square s) { return attack_tables::kTables.king[s]; }
constexpr Bitboard pawn_attacks(int color, Square s) { return attack_tables::kTables.pawn[color][s]; }
constexpr Bitboard bishop_attacks(Square s, Bitboard occupied) {
  using namespace attack_tables;
  return line_attacks(s, occupied, kTables.diagonal[s]) | line_attacks(s, occupied, kTables.antidiagonal[s]);
}
constexpr Bitboard rook_attacks(Square s, Bitboard occupied) {
  using namespace attack_tables;
  const int shift = s & 56;
  const auto inner = (occupied >> (shift + 1)) & 63;
  return line_attacks(s, occupied, kTables.file[s]) | (static_cast<Bitboard>(kTables.rank[file_of(s)][inner]) << shift);
}
// Squares strictly between two squares on one line (0 otherwise), and the whole line through both.
constexpr Bitboard between(Square a, Square b) { return attack_tables::kTables.between[a][b]; }
constexpr Bitboard line_through(Square a, Square b) { return attack_tables::kTables.line[a][b]; }

}  // namespace ludus::chess
