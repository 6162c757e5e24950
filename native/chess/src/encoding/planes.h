// A position with its history as a network's input: bit masks first, 112 float planes from them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "board/game.h"
#include "encoding/transform.h"

namespace ludus::chess {

inline constexpr int kPlanes = 112;
inline constexpr int kHistoryPlanes = 104;
inline constexpr int kPlanesPerStep = 13;
inline constexpr int kHistorySteps = 8;

constexpr bool is_known_format(int format) { return (format >= 1 && format <= 5) || format == 132 || format == 133; }
// Formats that turn the board so that the mover's king is in one corner, and end the history where play cannot go back.
constexpr bool is_canonical(int format) { return format >= 3; }

// Steps before a game's first position: empty; that position again, unless it is the usual start; or always that
// position. Training records have the first, lc0 plays with the second.
enum class HistoryFill { kNo, kFenOnly, kAlways };
HistoryFill parse_history_fill(std::string_view name);  // "no", "fen_only", "always"; else std::invalid_argument.

// Squares from the mover's view, a1 = bit 0, after the transform. The bytes are those of a training record.
struct Input {
  int format = 1;
  int transform = kNoTransform;
  std::array<Bitboard, kHistoryPlanes> history{};
  std::uint8_t castling_us_ooo = 0, castling_us_oo = 0, castling_them_ooo = 0, castling_them_oo = 0;
  std::uint8_t side_to_move_or_en_passant = 0;
  bool black_to_move = false;
  int rule50 = 0;
};

// Throws std::invalid_argument for an unknown format.
Input encode_input(const Game& game, int format, HistoryFill fill = HistoryFill::kNo);
// [112][64] floats; plane 109 as training feeds it: rule50 / 99, or / 100 in the formats that say so.
void write_planes(const Input& input, float* out);

}  // namespace ludus::chess
