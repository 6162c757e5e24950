// lc0's acceptance rules, one record at a time. What breaks one is refused with its offset and a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "loader/refusal.h"
#include "loader/validation/record.h"

namespace ludus::chess::loader {

// The moves of a record that are legal (not -1), in order of their index.
struct LegalMoves {
  std::vector<uint16_t> indices;
  std::vector<float> probabilities;

  bool contains(uint16_t index) const;
};

void find_legal_moves(const Record& record, LegalMoves& moves);

// `input_format` 0 = any. The offset of the refusal is left to the caller.
std::optional<Refusal> check_record(const Record& record, const Numbers& numbers, const LegalMoves& moves,
                                    int input_format);

}  // namespace ludus::chess::loader
