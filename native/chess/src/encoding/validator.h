// Are these records a game? The values of each record, and that each position follows from the one before it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "encoding/records.h"

namespace ludus::chess {

struct Problem {
  int record = 0;
  std::string reason;
};

// Ranges of one record: known format, q, d, m, castling, rule 50, probabilities, legal best and played moves.
std::optional<std::string> check_values(const V7Record& record);
// The position of a record with White as the mover; throws std::invalid_argument where it is none.
Position position_of(const V7Record& record);
// What is wrong with `next` as the position after `now`: the played move must lead to it (any legal move, where the record
// does not say which was played). Throws std::invalid_argument where one of them is no position.
std::optional<std::string> check_step(const V7Record& now, const V7Record& next);
// All of a game: check_values of each record, and that the played move leads to the next one (any legal move, where a record
// does not say which was played). The first problem, or none.
std::optional<Problem> check_game(std::span<const V7Record> game);

}  // namespace ludus::chess
