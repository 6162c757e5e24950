#include "board/notation.h"

#include <cstring>

namespace ludus::chess {
namespace {

constexpr std::string_view kLower = "pnbrqk";
constexpr std::string_view kUpper = "PNBRQK";

[[noreturn]] void refuse(const Position& position, std::string_view text, const char* why) {
  throw std::invalid_argument("move \"" + std::string(text.substr(0, 20)) + "\" " + why + " in " + position.fen());
}

int parse_square(std::string_view text) {
  if (text.size() < 2 || text[0] < 'a' || text[0] > 'h' || text[1] < '1' || text[1] > '8') return -1;
  return square(text[0] - 'a', text[1] - '1');
}

bool contains(const MoveList& moves, Move move) {
  for (const Move m : moves)
    if (m == move) return true;
  return false;
}

// What a pattern like "N", from file b, to d2 leaves open.
struct Pattern {
  Piece piece = kPawn;
  int file = -1, rank = -1;
  Square to = -1;
  Piece promotion = kPawn;
};

bool fits(const Position& position, Move move, const Pattern& p) {
  return !move.is_castling() && move.to() == p.to && move.promotion() == p.promotion &&
         (p.file < 0 || file_of(move.from()) == p.file) && (p.rank < 0 || rank_of(move.from()) == p.rank) &&
         position.piece_at(move.from()) == p.piece;
}

bool read_pattern(std::string_view text, Pattern& p) {
  const auto piece = kUpper.find(text.empty() ? ' ' : text.front());
  if (piece != std::string_view::npos) {
    p.piece = static_cast<Piece>(piece);
    text.remove_prefix(1);
  }
  if (!text.empty() && p.piece == kPawn) {
    const auto promotion = kUpper.find(text.back());
    if (promotion != std::string_view::npos) {
      if (promotion == kPawn || promotion == kKing) return false;
      p.promotion = static_cast<Piece>(promotion);
      text.remove_suffix(1);
      if (!text.empty() && text.back() == '=') text.remove_suffix(1);
    }
  }
  if (text.size() < 2) return false;
  p.to = parse_square(text.substr(text.size() - 2));
  text.remove_suffix(2);
  if (!text.empty() && (text.back() == 'x' || text.back() == '-' || text.back() == ':')) text.remove_suffix(1);
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'h') {
    p.file = text.front() - 'a';
    text.remove_prefix(1);
  }
  if (!text.empty() && text.front() >= '1' && text.front() <= '8') {
    p.rank = text.front() - '1';
    text.remove_prefix(1);
  }
  return p.to >= 0 && text.empty();
}

}  // namespace

std::string to_uci(const Position& position, Move move) {
  const Square to = move.is_castling() && !position.chess960 ? castling_king_to(move) : move.to();
  std::string out = square_name(move.from()) + square_name(to);
  if (move.promotion() != kPawn) out += kLower[move.promotion()];
  return out;
}

Move parse_uci(const Position& position, std::string_view text) {
  const int from = parse_square(text);
  const int to = text.size() >= 4 ? parse_square(text.substr(2)) : -1;
  if (from < 0 || to < 0 || text.size() > 5) refuse(position, text, "is no UCI move");
  Piece promotion = kPawn;
  if (text.size() == 5) {
    const auto at = kLower.find(text[4]);
    if (at == std::string_view::npos || at == kPawn || at == kKing) refuse(position, text, "is no UCI move");
    promotion = static_cast<Piece>(at);
  }
  const MoveList moves = position.legal_moves();
  const Move plain(from, to, promotion);
  if (contains(moves, plain)) return plain;
  for (const Move move : moves) {
    if (!move.is_castling() || move.from() != from || promotion != kPawn) continue;
    if (move.to() == to || castling_king_to(move) == to) return move;
  }
  refuse(position, text, "is not legal");
}

std::string to_san(const Position& position, Move move) {
  std::string out;
  if (move.is_castling()) {
    out = move.to() > move.from() ? "O-O" : "O-O-O";
  } else {
    const Piece piece = position.piece_at(move.from());
    const bool capture = (position.occupied() & bit(move.to())) != 0 || (piece == kPawn && move.to() == position.en_passant);
    if (piece == kPawn) {
      if (capture) out += square_name(move.from())[0];
    } else {
      out += kUpper[piece];
      bool others = false, same_file = false, same_rank = false;
      for (const Move other : position.legal_moves()) {
        if (other.from() == move.from() || !fits(position, other, {piece, -1, -1, move.to(), kPawn})) continue;
        others = true;
        same_file |= file_of(other.from()) == file_of(move.from());
        same_rank |= rank_of(other.from()) == rank_of(move.from());
      }
      const std::string from = square_name(move.from());
      if (others && (!same_file || same_rank)) out += from[0];
      if (same_file) out += from[1];
    }
    if (capture) out += 'x';
    out += square_name(move.to());
    if (move.promotion() != kPawn) (out += '=') += kUpper[move.promotion()];
  }
  Position next = position;
  next.apply(move);
  if (next.is_check()) out += next.legal_moves().empty() ? '#' : '+';
  return out;
}

Move parse_san(const Position& position, std::string_view whole) {
  std::string_view text = whole;
  while (!text.empty() && std::strchr("+#!?", text.back())) text.remove_suffix(1);
  const MoveList moves = position.legal_moves();
  if (text == "O-O" || text == "0-0" || text == "O-O-O" || text == "0-0-0") {
    for (const Move move : moves)
      if (move.is_castling() && (move.to() > move.from()) == (text.size() == 3)) return move;
    refuse(position, whole, "is not legal");
  }
  Pattern pattern;
  if (!read_pattern(text, pattern)) refuse(position, whole, "is no SAN move");
  Move found;
  int count = 0;
  for (const Move move : moves) {
    if (!fits(position, move, pattern)) continue;
    found = move;
    ++count;
  }
  if (count == 0) refuse(position, whole, "is not legal");
  if (count > 1) refuse(position, whole, "is ambiguous");
  return found;
}

}  // namespace ludus::chess
