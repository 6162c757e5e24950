// Which positions of a game one use of it takes. No state: the seed, the chunk and the number of the use decide.
//
// By rate p: every use takes a different subset, so that 1/p uses take every position once. By count k: the game's
// positions in a random order (surprising ones first, with focus), k after k, then in another order.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/config.h"
#include "loader/validation/record.h"

namespace ludus::chess::loader {

float focus_weight(const Focus& focus, const Numbers& numbers);

struct Sampling {
  double rate = 1;
  size_t count = 0;  // 0 = by rate.
};

// `weights` is empty without focus. Indices come in order of the game for a rate, in order of the draw for a count.
void sample_positions(const Sampling& sampling, uint64_t chunk_seed, uint32_t use, size_t positions,
                      const std::vector<float>& weights, std::vector<uint16_t>& chosen);

}  // namespace ludus::chess::loader
