#include "loader/targets/targets.h"

#include <algorithm>
#include <cmath>

namespace ludus::chess::loader {

void add_short_term_values(std::span<Numbers> game, double theta) {
  bool has_begun = false;
  double q = 0;
  double d = 0;
  for (size_t i = game.size(); i-- > 0;) {
    Numbers& n = game[i];
    const double sign = i % 2 == 0 ? 1 : -1;
    if (!std::isnan(n.root_q) && !std::isnan(n.root_d)) {
      const double signed_q = sign * n.root_q;
      q = has_begun ? theta * q + (1 - theta) * signed_q : signed_q;
      d = has_begun ? theta * d + (1 - theta) * n.root_d : n.root_d;
      has_begun = true;
    }
    if (!has_begun) continue;
    n.q_st = static_cast<float>(sign * q);
    n.d_st = static_cast<float>(std::max(0.0, d));
  }
}

void add_plies_left(std::span<Numbers> game) {
  for (size_t i = 0; i < game.size(); ++i) {
    if (std::isnan(game[i].plies_left)) game[i].plies_left = static_cast<float>(game.size() - i);
  }
}

}  // namespace ludus::chess::loader
