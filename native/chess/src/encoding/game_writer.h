// A played game with its search results as V6 records.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "encoding/records.h"

namespace ludus::chess {

struct Values {
  float q = std::numeric_limits<float>::quiet_NaN();
  float d = std::numeric_limits<float>::quiet_NaN();
  float m = std::numeric_limits<float>::quiet_NaN();
};

struct PlyTargets {
  std::vector<std::pair<int, float>> policy;  // index from the mover's view, before any transform, and probability
  Values root, best, played, orig;
  std::uint32_t visits = 1;
  int best_index = -1;  // -1: the most probable one
  float policy_kld = 0;
  bool best_is_proven = false;
};

struct GameTargets {
  int input_format = 1;
  int result = 0;  // +1: White won
  bool adjudicated = false;
  bool too_long = false;
};

// One record a move. Throws std::invalid_argument with the ply and the reason: an illegal move, a policy for an illegal
// move, probabilities that are not finite, negative, or do not sum to 1.
std::vector<V6Record> encode_game(const std::string& start_fen, const std::vector<std::string>& moves,
                                  const std::vector<PlyTargets>& plies, const GameTargets& game);

}  // namespace ludus::chess
