// One position: pieces, rights and clocks, without the game that led to it. Castling is "king takes own rook", so that
// Chess960 needs no second rule.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "board/bitboard.h"

namespace ludus::chess {

enum Piece : int { kPawn, kKnight, kBishop, kRook, kQueen, kKing, kNoPiece };
enum Color : int { kWhite, kBlack };
enum Side : int { kQueenside, kKingside };

inline constexpr const char* kStartFen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

class Move {
 public:
  constexpr Move() = default;
  constexpr Move(Square from, Square to, Piece promotion = kPawn, bool castling = false)
      : bits_(static_cast<std::uint16_t>(from | (to << 6) | (promotion << 12) | (castling ? 1 << 15 : 0))) {}

  constexpr Square from() const { return bits_ & 63; }
  constexpr Square to() const { return (bits_ >> 6) & 63; }  // castling: the rook's square
  constexpr Piece promotion() const { return static_cast<Piece>((bits_ >> 12) & 7); }  // kPawn: none
  constexpr bool is_castling() const { return (bits_ >> 15) != 0; }
  constexpr bool operator==(const Move&) const = default;

 private:
  std::uint16_t bits_ = 0;
};

// No position that from_fen accepts has more than 218 legal moves.
class MoveList {
 public:
  void add(Move move) {
    if (size_ < static_cast<int>(moves_.size())) moves_[size_++] = move;
  }
  const Move* begin() const { return moves_.data(); }
  const Move* end() const { return moves_.data() + size_; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Move operator[](int i) const { return moves_[i]; }

 private:
  std::array<Move, 256> moves_;
  int size_ = 0;
};

struct Position {
  std::array<Bitboard, 6> pieces{};  // by kind, both colours
  std::array<Bitboard, 2> colors{};
  std::array<std::array<std::int8_t, 2>, 2> castling{{{-1, -1}, {-1, -1}}};  // [colour][side]: the rook's file, -1: no right
  std::int8_t en_passant = -1;  // the square behind a pawn that just moved two, where an enemy pawn attacks it
  Color to_move = kWhite;
  bool chess960 = false;
  int rule50 = 0;
  int ply = 0;

  static Position from_fen(std::string_view fen);  // throws std::invalid_argument with the reason
  std::string fen() const;

  Bitboard occupied() const { return colors[0] | colors[1]; }
  Bitboard of(Color color, Piece piece) const { return colors[color] & pieces[piece]; }
  Square king(Color color) const { return lowest(of(color, kKing)); }
  Piece piece_at(Square s) const;
  Bitboard attackers(Square s, Color by, Bitboard occupied) const;
  bool is_check() const;
  bool has_castling_rights() const;
  bool same_castling(const Position& other) const { return castling == other.castling; }

  MoveList legal_moves() const;
  bool has_legal_en_passant() const;
  void apply(Move legal);
  std::uint64_t key() const;  // equal for positions that repeat each other under the rules
  bool is_insufficient_material() const;
};

Square castling_king_to(Move castling);
std::uint64_t perft(const Position& position, int depth);

}  // namespace ludus::chess
