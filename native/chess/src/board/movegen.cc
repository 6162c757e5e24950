// Legal moves without trying them: pins and checks are known before a move is written down.
#include "board/position.h"

namespace ludus::chess {
namespace {

class Generator {
 public:
  Generator(const Position& position, MoveList& moves) : p_(position), moves_(moves) {
    checkers_ = p_.attackers(king_, them_, occupied_);
    pinned_ = find_pinned();
  }

  void all() {
    king();
    if (std::popcount(checkers_) > 1) return;
    targets_ = ~p_.colors[us_];
    if (checkers_) targets_ &= checkers_ | between(king_, lowest(checkers_));
    pieces();
    pawns();
    en_passant();
    if (!checkers_)
      for (int side = 0; side < 2; ++side) castle(side);
  }

  void en_passant() {
    if (p_.en_passant < 0) return;
    const Square to = p_.en_passant;
    const Square captured = to + (us_ == kWhite ? -8 : 8);
    Bitboard from_set = pawn_attacks(them_, to) & p_.of(us_, kPawn);
    while (from_set) {
      const Square from = pop_lowest(from_set);
      const Bitboard after = (occupied_ & ~bit(from) & ~bit(captured)) | bit(to);
      if ((p_.attackers(king_, them_, after) & ~bit(captured)) == 0) moves_.add(Move(from, to));
    }
  }

 private:
  Bitboard find_pinned() const {
    const Bitboard straight = rook_attacks(king_, 0) & (p_.pieces[kRook] | p_.pieces[kQueen]);
    const Bitboard diagonal = bishop_attacks(king_, 0) & (p_.pieces[kBishop] | p_.pieces[kQueen]);
    Bitboard snipers = (straight | diagonal) & p_.colors[them_];
    Bitboard out = 0;
    while (snipers) {
      const Bitboard blockers = between(king_, pop_lowest(snipers)) & occupied_;
      if (std::popcount(blockers) == 1) out |= blockers & p_.colors[us_];
    }
    return out;
  }

  void king() {
    Bitboard to_set = king_attacks(king_) & ~p_.colors[us_];
    const Bitboard without_king = occupied_ & ~bit(king_);
    while (to_set) {
      const Square to = pop_lowest(to_set);
      if (!p_.attackers(to, them_, without_king)) moves_.add(Move(king_, to));
    }
  }

  void pieces() {
    for (const Piece piece : {kKnight, kBishop, kRook, kQueen}) {
      Bitboard from_set = p_.of(us_, piece);
      while (from_set) {
        const Square from = pop_lowest(from_set);
        Bitboard to_set = attacks(piece, from) & targets_;
        if (pinned_ & bit(from)) to_set &= line_through(king_, from);
        while (to_set) moves_.add(Move(from, pop_lowest(to_set)));
      }
    }
  }

  Bitboard attacks(Piece piece, Square from) const {
    switch (piece) {
      case kKnight: return knight_attacks(from);
      case kBishop: return bishop_attacks(from, occupied_);
      case kRook: return rook_attacks(from, occupied_);
      default: return bishop_attacks(from, occupied_) | rook_attacks(from, occupied_);
    }
  }

  void pawns() {
    const int up = us_ == kWhite ? 8 : -8;
    const int start_rank = us_ == kWhite ? 1 : 6;
    Bitboard from_set = p_.of(us_, kPawn);
    while (from_set) {
      const Square from = pop_lowest(from_set);
      Bitboard to_set = pawn_attacks(us_, from) & p_.colors[them_];
      if (!(occupied_ & bit(from + up))) {
        to_set |= bit(from + up);
        if (rank_of(from) == start_rank && !(occupied_ & bit(from + 2 * up))) to_set |= bit(from + 2 * up);
      }
      to_set &= targets_;
      if (pinned_ & bit(from)) to_set &= line_through(king_, from);
      while (to_set) pawn_move(from, pop_lowest(to_set));
    }
  }

  void pawn_move(Square from, Square to) {
    if (rank_of(to) != 0 && rank_of(to) != 7) {
      moves_.add(Move(from, to));
      return;
    }
    for (const Piece piece : {kKnight, kBishop, kRook, kQueen}) moves_.add(Move(from, to, piece));
  }

  void castle(int side) {
    const int file = p_.castling[us_][side];
    if (file < 0) return;
    const Square rook = square(file, us_ == kWhite ? 0 : 7);
    const Move move(king_, rook, kPawn, true);
    const Square king_to = castling_king_to(move);
    const Square rook_to = king_to + (rook > king_ ? -1 : 1);
    const Bitboard others = occupied_ & ~bit(king_) & ~bit(rook);
    const Bitboard king_path = between(king_, king_to) | bit(king_to);
    if (others & (king_path | between(rook, rook_to) | bit(rook_to))) return;
    Bitboard path = king_path;
    while (path)
      if (p_.attackers(pop_lowest(path), them_, occupied_ & ~bit(king_))) return;
    // In Chess960 the rook may have been what shielded the king.
    if (p_.attackers(king_to, them_, others | bit(rook_to))) return;
    moves_.add(move);
  }

  const Position& p_;
  MoveList& moves_;
  const Color us_ = p_.to_move;
  const Color them_ = static_cast<Color>(1 - us_);
  const Bitboard occupied_ = p_.occupied();
  const Square king_ = p_.king(us_);
  Bitboard checkers_ = 0;
  Bitboard pinned_ = 0;
  Bitboard targets_ = 0;
};

}  // namespace

MoveList Position::legal_moves() const {
  MoveList moves;
  Generator(*this, moves).all();
  return moves;
}

bool Position::has_legal_en_passant() const {
  if (en_passant < 0) return false;
  MoveList moves;
  Generator(*this, moves).en_passant();
  return !moves.empty();
}

std::uint64_t perft(const Position& position, int depth) {
  if (depth <= 0) return 1;
  const MoveList moves = position.legal_moves();
  if (depth == 1) return static_cast<std::uint64_t>(moves.size());
  std::uint64_t leaves = 0;
  for (const Move move : moves) {
    Position next = position;
    next.apply(move);
    leaves += perft(next, depth - 1);
  }
  return leaves;
}

}  // namespace ludus::chess
