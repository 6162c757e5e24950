#include "encoding/policy.h"

namespace ludus::chess {
namespace {

struct Entry {
  std::int8_t from = 0, to = 0;
  std::int8_t promotion = kPawn;
};

struct Map {
  std::array<Entry, kPolicySize> entries{};
  std::array<std::array<std::int16_t, 64>, 64> plain{};
  std::array<std::array<std::array<std::int16_t, 6>, 8>, 8> promotion{};  // [from file][to file][piece]
};

constexpr Map make_map() {
  Map map;
  for (auto& row : map.plain)
    for (auto& value : row) value = -1;
  for (auto& row : map.promotion)
    for (auto& cell : row)
      for (auto& value : cell) value = -1;
  int next = 0;
  for (Square from = 0; from < 64; ++from) {
    const Bitboard reach = knight_attacks(from) | rook_attacks(from, 0) | bishop_attacks(from, 0);
    for (Square to = 0; to < 64; ++to) {
      if (!(reach & bit(to))) continue;
      map.entries[next] = {static_cast<std::int8_t>(from), static_cast<std::int8_t>(to), kPawn};
      map.plain[from][to] = static_cast<std::int16_t>(next++);
    }
  }
  for (int from = 0; from < 8; ++from) {
    for (int to = from - 1; to <= from + 1; ++to) {
      if (to < 0 || to > 7) continue;
      for (const Piece piece : {kQueen, kRook, kBishop}) {
        map.entries[next] = {static_cast<std::int8_t>(square(from, 6)), static_cast<std::int8_t>(square(to, 7)),
                             static_cast<std::int8_t>(piece)};
        map.promotion[from][to][piece] = static_cast<std::int16_t>(next++);
      }
    }
  }
  return map;
}

constexpr Map kMap = make_map();
static_assert(kMap.entries.back().from == square(7, 6) && kMap.entries.back().promotion == kBishop);

}  // namespace

int policy_index(const Position& position, Move move, int transform) {
  const int view = position.to_move == kBlack ? 56 : 0;
  const Square from = transform_square(move.from() ^ view, transform);
  const Square to = transform_square(move.to() ^ view, transform);
  const Piece promotion = move.promotion();
  if (promotion != kPawn && promotion != kKnight) return kMap.promotion[file_of(from)][file_of(to)][promotion];
  return kMap.plain[from][to];
}

Move move_of_index(const Position& position, int index, int transform) {
  for (const Move move : position.legal_moves())
    if (policy_index(position, move, transform) == index) return move;
  const auto& names = policy_moves();
  const std::string name = index >= 0 && index < kPolicySize ? " (" + names[index] + " from the mover's view)" : "";
  throw std::invalid_argument("policy index " + std::to_string(index) + name + " is no legal move in " + position.fen());
}

const std::vector<std::string>& policy_moves() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Entry& entry : kMap.entries) {
      out.push_back(square_name(entry.from) + square_name(entry.to));
      if (entry.promotion != kPawn) out.back() += "pnbrqk"[entry.promotion];
    }
    return out;
  }();
  return names;
}

}  // namespace ludus::chess
