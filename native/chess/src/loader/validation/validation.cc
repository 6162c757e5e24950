#include "loader/validation/validation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <string>

#include "encoding/planes.h"

namespace ludus::chess::loader {
namespace {

constexpr float kSlack = 1e-5F;  // Averages of floats end a little beyond their bounds.
constexpr uint32_t kIllegal = 0xBF800000U;  // -1.0F

Refusal refuse(std::string reason, std::string detail) {
  return {.reason = std::move(reason), .detail = std::move(detail), .file = {}, .member = {}, .whole = false};
}

struct Bounded {
  const char* name;
  float value;
  bool may_be_unknown;
};

std::optional<Refusal> outside(std::initializer_list<Bounded> values, float low, float high) {
  for (const auto& [name, value, may_be_unknown] : values) {
    if (std::isnan(value) ? may_be_unknown : value >= low - kSlack && value <= high + kSlack) continue;
    return refuse("value", std::string(name) + " is " + std::to_string(value));
  }
  return std::nullopt;
}

std::optional<Refusal> check_numbers(const Record& record, const Numbers& n) {
  const bool v4 = record.version < 4;
  const bool v5 = record.version < 5;
  const bool v6 = record.version < 6;
  const bool v7 = record.version < 7;
  const float infinite = std::numeric_limits<float>::max();
  if (auto bad = outside({{"root_q", n.root_q, v4}, {"best_q", n.best_q, v4}, {"played_q", n.played_q, v6},
                          {"orig_q", n.orig_q, true}, {"result_q", n.result_q, false}, {"q_st", n.q_st, v7}}, -1, 1)) {
    return bad;
  }
  if (auto bad = outside({{"root_d", n.root_d, v4}, {"best_d", n.best_d, v4}, {"played_d", n.played_d, v6},
                          {"orig_d", n.orig_d, true}, {"result_d", n.result_d, false}, {"d_st", n.d_st, v7}}, 0, 1)) {
    return bad;
  }
  return outside({{"root_m", n.root_m, v5}, {"best_m", n.best_m, v5}, {"plies_left", n.plies_left, v5},
                  {"played_m", n.played_m, v6}, {"orig_m", n.orig_m, true}}, 0, infinite);
}

std::optional<Refusal> check_bytes(const Record& record) {
  const uint32_t format = record.input_format();
  for (size_t offset = 8272; offset < 8276; ++offset) {
    const uint8_t right = record.byte(offset);
    if (format == 1 ? right > 1 : std::popcount(right) > 1) {
      return refuse("castling", "castling byte is " + std::to_string(right));
    }
  }
  const uint8_t side = record.byte(8276);
  if (format <= 2 ? side > 1 : std::popcount(side) > 1) {
    return refuse("side", "side to move or en passant is " + std::to_string(side));
  }
  if (record.byte(8277) > 100) return refuse("rule50", "rule50 is " + std::to_string(record.byte(8277)));
  return std::nullopt;
}

std::optional<Refusal> check_policy(const Record& record, const LegalMoves& moves) {
  double sum = 0;
  for (const float probability : moves.probabilities) {
    if (std::isnan(probability)) continue;
    if (probability < 0 || probability > 1 + kSlack) {
      return refuse("probability", "a probability is " + std::to_string(probability));
    }
    sum += probability;
  }
  if (sum < 0.99 || sum > 1.01) return refuse("policy_sum", "probabilities sum to " + std::to_string(sum));
  if (record.visits() == 0) return std::nullopt;
  for (const uint16_t index : {record.best_idx(), record.played_idx()}) {
    if (!moves.contains(index)) return refuse("illegal_move", "move index " + std::to_string(index) + " is not legal");
  }
  return std::nullopt;
}

}  // namespace

bool LegalMoves::contains(uint16_t index) const { return std::binary_search(indices.begin(), indices.end(), index); }

void find_legal_moves(const Record& record, LegalMoves& moves) {
  moves.indices.clear();
  moves.probabilities.clear();
  const uint8_t* at = record.probabilities();
  const auto take = [&](size_t index) {
    uint32_t bits;
    std::memcpy(&bits, at + index * 4, 4);
    if (bits == kIllegal) return;
    moves.indices.push_back(static_cast<uint16_t>(index));
    moves.probabilities.push_back(std::bit_cast<float>(bits));
  };
  // Nearly all entries are -1: look at eight at once.
  constexpr uint64_t kTwo = uint64_t{kIllegal} << 32 | kIllegal;
  size_t index = 0;
  for (; index + 8 <= kMoves; index += 8) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), at + index * 4, sizeof(words));
    if (((words[0] ^ kTwo) | (words[1] ^ kTwo) | (words[2] ^ kTwo) | (words[3] ^ kTwo)) == 0) continue;
    for (size_t i = index; i < index + 8; ++i) take(i);
  }
  for (; index < kMoves; ++index) take(index);
}

std::optional<Refusal> check_record(const Record& record, const Numbers& numbers, const LegalMoves& moves,
                                    int input_format) {
  if (record.stated_version() != record.version) {
    return refuse("version", "version " + std::to_string(record.stated_version()) + " in a chunk of version " +
                                 std::to_string(record.version));
  }
  const uint32_t format = record.input_format();
  if (format > 255 || !is_known_format(static_cast<int>(format))) return refuse("input_format", "unknown input format " + std::to_string(format));
  if (input_format != 0 && format != static_cast<uint32_t>(input_format)) {
    return refuse("input_format",
                  "input format " + std::to_string(format) + ", asked for " + std::to_string(input_format));
  }
  if (auto bad = check_numbers(record, numbers)) return bad;
  if (auto bad = check_bytes(record)) return bad;
  return check_policy(record, moves);
}

}  // namespace ludus::chess::loader
