#include "board/position.h"

namespace ludus::chess {
namespace {

struct Zobrist {
  std::array<std::array<std::array<std::uint64_t, 64>, 6>, 2> piece{};
  std::array<std::array<std::array<std::uint64_t, 8>, 2>, 2> castling{};
  std::array<std::uint64_t, 8> en_passant{};
  std::uint64_t black = 0;
};

constexpr std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

constexpr Zobrist make_zobrist() {
  Zobrist z;
  std::uint64_t state = 0x6C75647573ULL;
  for (auto& color : z.piece)
    for (auto& piece : color)
      for (auto& value : piece) value = splitmix(state);
  for (auto& color : z.castling)
    for (auto& side : color)
      for (auto& value : side) value = splitmix(state);
  for (auto& value : z.en_passant) value = splitmix(state);
  z.black = splitmix(state);
  return z;
}

constexpr Zobrist kZobrist = make_zobrist();
constexpr Bitboard kDarkSquares = 0xAA55AA55AA55AA55ULL;

}  // namespace

Piece Position::piece_at(Square s) const {
  for (int piece = kPawn; piece <= kKing; ++piece)
    if (pieces[piece] & bit(s)) return static_cast<Piece>(piece);
  return kNoPiece;
}

Bitboard Position::attackers(Square s, Color by, Bitboard occ) const {
  const Bitboard sliders_straight = pieces[kRook] | pieces[kQueen];
  const Bitboard sliders_diagonal = pieces[kBishop] | pieces[kQueen];
  const Bitboard all = (pawn_attacks(1 - by, s) & pieces[kPawn]) | (knight_attacks(s) & pieces[kKnight]) |
                       (king_attacks(s) & pieces[kKing]) | (rook_attacks(s, occ) & sliders_straight) |
                       (bishop_attacks(s, occ) & sliders_diagonal);
  return all & colors[by];
}

bool Position::is_check() const { return attackers(king(to_move), static_cast<Color>(1 - to_move), occupied()) != 0; }

bool Position::has_castling_rights() const {
  return castling[0][0] >= 0 || castling[0][1] >= 0 || castling[1][0] >= 0 || castling[1][1] >= 0;
}

Square castling_king_to(Move castling) {
  return square(castling.to() > castling.from() ? 6 : 2, rank_of(castling.from()));
}

void Position::apply(Move move) {
  const Color us = to_move;
  const Color them = static_cast<Color>(1 - us);
  const Square from = move.from();
  const Square to = move.to();
  ++rule50;
  const int old_en_passant = en_passant;
  en_passant = -1;
  if (move.is_castling()) {
    const Square king_to = castling_king_to(move);
    const Square rook_to = king_to + (to > from ? -1 : 1);
    colors[us] = (colors[us] & ~(bit(from) | bit(to))) | bit(king_to) | bit(rook_to);
    pieces[kKing] = (pieces[kKing] & ~bit(from)) | bit(king_to);
    pieces[kRook] = (pieces[kRook] & ~bit(to)) | bit(rook_to);
    castling[us] = {-1, -1};
  } else {
    const Piece piece = piece_at(from);
    const Piece taken = piece_at(to);
    if (taken != kNoPiece) {
      pieces[taken] &= ~bit(to);
      colors[them] &= ~bit(to);
      rule50 = 0;
      if (taken == kRook && rank_of(to) == (them == kWhite ? 0 : 7))
        for (auto& file : castling[them])
          if (file == file_of(to)) file = -1;
    }
    pieces[piece] &= ~bit(from);
    pieces[move.promotion() == kPawn ? piece : move.promotion()] |= bit(to);
    colors[us] = (colors[us] & ~bit(from)) | bit(to);
    if (piece == kKing) castling[us] = {-1, -1};
    if (piece == kRook && rank_of(from) == (us == kWhite ? 0 : 7))
      for (auto& file : castling[us])
        if (file == file_of(from)) file = -1;
    if (piece == kPawn) {
      rule50 = 0;
      if (to == old_en_passant) {
        const Square captured = to + (us == kWhite ? -8 : 8);
        pieces[kPawn] &= ~bit(captured);
        colors[them] &= ~bit(captured);
      } else if ((to - from) * (to - from) == 256) {
        const Square behind = (from + to) / 2;
        if (pawn_attacks(us, behind) & of(them, kPawn)) en_passant = static_cast<std::int8_t>(behind);
      }
    }
  }
  ++ply;
  to_move = them;
}

std::uint64_t Position::key() const {
  std::uint64_t out = to_move == kBlack ? kZobrist.black : 0;
  for (int color = 0; color < 2; ++color) {
    for (int piece = kPawn; piece <= kKing; ++piece) {
      Bitboard left = of(static_cast<Color>(color), static_cast<Piece>(piece));
      while (left) out ^= kZobrist.piece[color][piece][pop_lowest(left)];
    }
    for (int side = 0; side < 2; ++side)
      if (castling[color][side] >= 0) out ^= kZobrist.castling[color][side][castling[color][side]];
  }
  if (has_legal_en_passant()) out ^= kZobrist.en_passant[file_of(en_passant)];
  return out;
}

bool Position::is_insufficient_material() const {
  if (pieces[kPawn] | pieces[kRook] | pieces[kQueen]) return false;
  const Bitboard minors = pieces[kKnight] | pieces[kBishop];
  if (std::popcount(minors) <= 1) return true;
  if (pieces[kKnight]) return false;
  return (pieces[kBishop] & kDarkSquares) == 0 || (pieces[kBishop] & ~kDarkSquares) == 0;
}

}  // namespace ludus::chess
