// Targets that a game has only as a whole: version 7's short-term values, and the plies that are left.
#pragma once

#include <span>

#include "loader/validation/record.h"

namespace ludus::chess::loader {

// Fills q_st and d_st: averages of root_q and root_d over the rest of the game, weighted by theta^distance, from the
// mover's view. Records without them (version 7 has its own) must follow one another; an unknown root_q is passed over.
void add_short_term_values(std::span<Numbers> game, double theta);

// Plies to the end where the version does not say (3 and 4).
void add_plies_left(std::span<Numbers> game);

}  // namespace ludus::chess::loader
