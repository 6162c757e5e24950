#include "encoding/validator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "encoding/planes.h"

namespace ludus::chess {
namespace {

constexpr float kTolerance = 1e-3F;  // q and d are sums of float32

std::string number(float value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
  return text;
}

bool outside(float value, float low, float high) { return value < low - kTolerance || value > high + kTolerance; }

std::optional<std::string> check_ranges(const V7Record& r) {
  struct Field {
    const char* name;
    float value;
    float low, high;
    bool may_be_nan;
  };
  const bool older = r.visits == 0;  // upgraded from before V6: some values are unknown
  constexpr float kMostPlies = 1e6F;
  const Field fields[] = {
      {"root_q", r.root_q, -1, 1, older},     {"best_q", r.best_q, -1, 1, older},   {"played_q", r.played_q, -1, 1, true},
      {"orig_q", r.orig_q, -1, 1, true},      {"result_q", r.result_q, -1, 1, false}, {"root_d", r.root_d, 0, 1, older},
      {"best_d", r.best_d, 0, 1, older},      {"played_d", r.played_d, 0, 1, true}, {"orig_d", r.orig_d, 0, 1, true},
      {"result_d", r.result_d, 0, 1, false},  {"root_m", r.root_m, 0, kMostPlies, true}, {"best_m", r.best_m, 0, kMostPlies, true},
      {"played_m", r.played_m, 0, kMostPlies, true}, {"orig_m", r.orig_m, 0, kMostPlies, true},
      {"plies_left", r.plies_left, 0, kMostPlies, false},
  };
  for (const Field& f : fields) {
    if (std::isnan(f.value) ? f.may_be_nan : !outside(f.value, f.low, f.high)) continue;
    return std::string(f.name) + " is " + number(f.value);
  }
  return std::nullopt;
}

std::optional<std::string> check_bytes(const V7Record& r) {
  for (const std::uint8_t byte : {r.castling_us_ooo, r.castling_us_oo, r.castling_them_ooo, r.castling_them_oo}) {
    if (r.input_format == 1 ? byte > 1 : std::popcount(byte) > 1) return "castling byte is " + std::to_string(byte);
  }
  const std::uint8_t side = r.side_to_move_or_enpassant;
  if (is_canonical(static_cast<int>(r.input_format)) ? std::popcount(side) > 1 : side > 1)
    return "side to move or en-passant byte is " + std::to_string(side);
  if (r.rule50_count > 100) return "rule50_count is " + std::to_string(r.rule50_count);
  return std::nullopt;
}

std::optional<std::string> check_probabilities(const V7Record& r) {
  float sum = 0;
  for (int i = 0; i < kPolicySize; ++i) {
    const float p = r.probabilities[i];
    if (p == -1 || std::isnan(p)) continue;
    if (!(p >= 0 && p <= 1 + kTolerance)) return "probability " + std::to_string(i) + " is " + number(p);
    sum += p;
  }
  if (!(sum >= 0.99F && sum <= 1.01F)) return "probabilities sum to " + number(sum);
  if (r.visits == 0) return std::nullopt;
  for (const int index : {static_cast<int>(r.best_idx), static_cast<int>(r.played_idx)}) {
    if (index >= kPolicySize || !(r.probabilities[index] >= 0)) return "move index " + std::to_string(index) + " is illegal";
  }
  return std::nullopt;
}

// Squares as the mover sees them, without the transform.
Bitboard mask_of(const V7Record& r, int plane, int transform) {
  Bitboard v = flip_files(r.planes[plane]);
  if (transform & kTranspose) v = transform_bits(v, kTranspose);
  return transform_bits(v, transform & (kFlip | kMirror));
}

int transform_of(const V7Record& r) { return is_canonical(static_cast<int>(r.input_format)) ? r.invariance_info & 7 : 0; }

std::int8_t castling_file(const Position& p, Color color, Side side, std::uint8_t byte, std::uint32_t format) {
  if (byte == 0) return -1;
  const int rank = color == kWhite ? 0 : 7;
  const Square king = p.king(color);
  const Bitboard rooks = p.of(color, kRook) & (kRank1 << (8 * rank));
  int file = -1;
  if (format == 1) {
    for (int f = 0; f < 8; ++f) {
      if (!(rooks & bit(square(f, rank)))) continue;
      if (side == kKingside && f > file_of(king)) file = f;
      if (side == kQueenside && f < file_of(king) && file < 0) file = f;
    }
  } else if (rooks & bit(square(std::countr_zero(byte), rank))) {
    file = std::countr_zero(byte);
  }
  if (rank_of(king) != rank || file < 0) throw std::invalid_argument("a castling right without its king and rook");
  return static_cast<std::int8_t>(file);
}

// The record does not always say where en passant is possible; a pawn's step to an empty square beside a pawn does.
void allow_en_passant(Position& p, const V7Record& r, int transform) {
  p.en_passant = -1;
  if (r.played_idx >= kPolicySize) return;
  Bitboard targets = 0;
  for (Bitboard pawns = p.of(kWhite, kPawn) & (kRank1 << 32); pawns;) targets |= pawn_attacks(kWhite, pop_lowest(pawns));
  targets &= ~p.occupied() & ~(p.occupied() >> 8) & (p.of(kBlack, kPawn) << 8);
  while (targets) {
    const Square to = pop_lowest(targets);
    for (Bitboard from = pawn_attacks(kBlack, to) & p.of(kWhite, kPawn); from;) {
      const Move move(pop_lowest(from), to);
      if (policy_index(p, move, transform) == r.played_idx) p.en_passant = static_cast<std::int8_t>(to);
    }
  }
}

struct Expected {
  std::array<Bitboard, 12> sets{};
  std::array<std::uint8_t, 4> castling{};
  std::uint8_t rule50 = 0;
};

// What the record after this move has, if the move was played from `p`.
Expected after(const Position& p, Move move, std::uint32_t format) {
  Position next = p;
  next.apply(move);
  Expected out;
  for (int piece = kPawn; piece <= kKing; ++piece) {
    out.sets[piece] = flip_ranks(next.of(kBlack, static_cast<Piece>(piece)));
    out.sets[6 + piece] = flip_ranks(next.of(kWhite, static_cast<Piece>(piece)));
  }
  int i = 0;
  for (const Color color : {kBlack, kWhite}) {
    for (const Side side : {kQueenside, kKingside}) {
      const int file = next.castling[color][side];
      out.castling[i++] = static_cast<std::uint8_t>(file < 0 ? 0 : format == 1 ? 1 : 1 << file);
    }
  }
  out.rule50 = static_cast<std::uint8_t>(std::min(next.rule50, 255));
  return out;
}

bool leads_to(const Expected& expected, const V7Record& next) {
  const int transform = transform_of(next);
  for (int plane = 0; plane < 12; ++plane)
    if (mask_of(next, plane, transform) != expected.sets[plane]) return false;
  const std::array<std::uint8_t, 4> castling{next.castling_us_ooo, next.castling_us_oo, next.castling_them_ooo,
                                             next.castling_them_oo};
  return expected.castling == castling && expected.rule50 == next.rule50_count;
}

bool is_black(const V7Record& r) {
  return is_canonical(static_cast<int>(r.input_format)) ? (r.invariance_info & kBlackToMove) != 0 : r.side_to_move_or_enpassant != 0;
}

void allow_any_en_passant(Position& p, const V7Record& next) {
  // Without a played move: a pawn of theirs that vanished from beside ours says it.
  const int transform = transform_of(next);
  const Bitboard lost = p.of(kBlack, kPawn) & ~flip_ranks(mask_of(next, kPawn, transform)) & (kRank1 << 32);
  p.en_passant = -1;
  if (std::popcount(lost) != 1) return;
  const Square to = lowest(lost) + 8;
  if (!(p.occupied() & bit(to)) && (pawn_attacks(kBlack, to) & p.of(kWhite, kPawn))) p.en_passant = static_cast<std::int8_t>(to);
}

}  // namespace

std::optional<std::string> check_values(const V7Record& r) {
  if (r.input_format > 255 || !is_known_format(static_cast<int>(r.input_format)))
    return "input format " + std::to_string(r.input_format) + " is none of 1 to 5, 132, 133";
  if (auto problem = check_bytes(r)) return problem;
  if (auto problem = check_ranges(r)) return problem;
  return check_probabilities(r);
}

Position position_of(const V7Record& r) {
  Position p;
  const int transform = transform_of(r);
  for (int plane = 0; plane < 12; ++plane) {
    const Bitboard set = mask_of(r, plane, transform);
    if (set & p.occupied()) throw std::invalid_argument("two pieces on one square");
    p.pieces[plane % 6] |= set;
    p.colors[plane / 6] |= set;
  }
  for (const Color color : {kWhite, kBlack})
    if (std::popcount(p.of(color, kKing)) != 1) throw std::invalid_argument("a side without exactly one king");
  if (p.pieces[kPawn] & (kRank1 | (kRank1 << 56))) throw std::invalid_argument("a pawn on the first or last rank");
  if (p.attackers(p.king(kBlack), kWhite, p.occupied())) throw std::invalid_argument("the side not to move is in check");
  p.castling[kWhite] = {castling_file(p, kWhite, kQueenside, r.castling_us_ooo, r.input_format),
                        castling_file(p, kWhite, kKingside, r.castling_us_oo, r.input_format)};
  p.castling[kBlack] = {castling_file(p, kBlack, kQueenside, r.castling_them_ooo, r.input_format),
                        castling_file(p, kBlack, kKingside, r.castling_them_oo, r.input_format)};
  p.rule50 = r.rule50_count;
  return p;
}

std::optional<std::string> check_step(const V7Record& now, const V7Record& next) {
  if (now.input_format != next.input_format) return "another input format than the record before it";
  if (is_black(now) == is_black(next)) return "the side to move did not change";
  Position p = position_of(now);
  if (now.visits > 0) {
    const int transform = transform_of(now);
    allow_en_passant(p, now, transform);
    for (const Move move : p.legal_moves()) {
      if (policy_index(p, move, transform) != now.played_idx) continue;
      if (leads_to(after(p, move, now.input_format), next)) return std::nullopt;
      return "the position does not follow from the one before it by index " + std::to_string(now.played_idx);
    }
    return "the move before it, index " + std::to_string(now.played_idx) + ", is not legal there";
  }
  allow_any_en_passant(p, next);
  for (const Move move : p.legal_moves())
    if (leads_to(after(p, move, now.input_format), next)) return std::nullopt;
  return "no legal move leads from the position before it to this one";
}

std::optional<Problem> check_game(std::span<const V7Record> game) {
  for (int i = 0; i < static_cast<int>(game.size()); ++i) {
    if (auto reason = check_values(game[i])) return Problem{i, *reason};
    try {
      if (i == 0) {
        static_cast<void>(position_of(game[0]));
      } else if (auto reason = check_step(game[i - 1], game[i])) {
        return Problem{i, *reason};
      }
    } catch (const std::invalid_argument& error) {
      return Problem{i, error.what()};
    }
  }
  return std::nullopt;
}

}  // namespace ludus::chess
