#include "board/game.h"

#include <algorithm>

namespace ludus::chess {

void Game::add(const Position& position) {
  Entry entry{position, position.key(), 0};
  // Only positions since the last capture or pawn move, with the same side to move, can be equal.
  const int reach = std::min(position.rule50, static_cast<int>(entries_.size()));
  for (int ago = 4; ago <= reach; ago += 2) {
    const Entry& earlier = entries_[entries_.size() - ago];
    if (earlier.key != entry.key) continue;
    entry.repetitions = earlier.repetitions + 1;
    break;
  }
  entries_.push_back(entry);
}

void Game::push(Move legal) {
  Position next = position();
  next.apply(legal);
  add(next);
}

std::optional<Outcome> Game::outcome() const {
  const Position& p = position();
  if (p.legal_moves().empty()) {
    if (p.is_check()) return Outcome{p.to_move == kWhite ? -1 : 1, Ending::kCheckmate};
    return Outcome{0, Ending::kStalemate};
  }
  if (p.is_insufficient_material()) return Outcome{0, Ending::kInsufficientMaterial};
  if (p.rule50 >= 100) return Outcome{0, Ending::kFiftyMoves};
  if (repetitions() >= 2) return Outcome{0, Ending::kThreefold};
  return std::nullopt;
}

const char* ending_name(Ending ending) {
  switch (ending) {
    case Ending::kCheckmate: return "checkmate";
    case Ending::kStalemate: return "stalemate";
    case Ending::kInsufficientMaterial: return "insufficient material";
    case Ending::kFiftyMoves: return "fifty moves";
    default: return "threefold repetition";
  }
}

const char* result_name(int white) { return white > 0 ? "1-0" : white < 0 ? "0-1" : "1/2-1/2"; }

}  // namespace ludus::chess
