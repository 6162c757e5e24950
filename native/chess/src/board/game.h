// A position with its history: repetitions, the end of the game, and what the encoder looks back at.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "board/position.h"

namespace ludus::chess {

enum class Ending { kCheckmate, kStalemate, kInsufficientMaterial, kFiftyMoves, kThreefold };

struct Outcome {
  int white = 0;  // +1, 0, -1
  Ending ending = Ending::kStalemate;
};

class Game {
 public:
  struct Entry {
    Position position;
    std::uint64_t key = 0;
    int repetitions = 0;
  };

  explicit Game(const Position& start) { add(start); }

  const Position& position() const { return entries_.back().position; }
  int repetitions() const { return entries_.back().repetitions; }
  int size() const { return static_cast<int>(entries_.size()); }
  const Entry& at(int index) const { return entries_[index]; }
  const Entry& back(int plies_ago) const { return entries_[entries_.size() - 1 - plies_ago]; }

  void push(Move legal);
  void pop() { entries_.pop_back(); }
  std::optional<Outcome> outcome() const;

 private:
  void add(const Position& position);

  std::vector<Entry> entries_;
};

const char* ending_name(Ending ending);
const char* result_name(int white);

}  // namespace ludus::chess
