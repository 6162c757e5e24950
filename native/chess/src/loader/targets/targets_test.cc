#include "loader/targets/targets.h"

#include <cmath>
#include <limits>
#include <vector>

#include "testing/testing.h"

using namespace ludus::chess::loader;

namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

Numbers with(float root_q, float root_d) {
  Numbers numbers{};
  numbers.root_q = root_q;
  numbers.root_d = root_d;
  numbers.q_st = numbers.d_st = numbers.plies_left = kUnknown;
  return numbers;
}

bool near(float a, double b) { return std::abs(a - b) < 1e-6; }

}  // namespace

TEST(short_term_values_average_the_rest_of_the_game_from_the_movers_view) {
  std::vector<Numbers> game{with(0.5F, 0.1F), with(-0.4F, 0.2F), with(0.3F, 0.4F)};
  add_short_term_values(game, 0.5);
  CHECK(near(game[2].q_st, 0.3));
  CHECK(near(game[1].q_st, -(0.5 * 0.3 + 0.5 * 0.4)));
  CHECK(near(game[0].q_st, 0.5 * 0.35 + 0.5 * 0.5));
  CHECK(near(game[0].d_st, 0.5 * (0.5 * 0.4 + 0.5 * 0.2) + 0.5 * 0.1));
}

TEST(an_unknown_value_is_passed_over) {
  std::vector<Numbers> game{with(0.5F, 0), with(kUnknown, 0), with(0.5F, 0), with(kUnknown, 0)};
  add_short_term_values(game, 0.5);
  CHECK(near(game[0].q_st, 0.5) && near(game[1].q_st, -0.5));
  CHECK(std::isnan(game[3].q_st));
}

TEST(plies_left_are_counted_where_the_version_has_none) {
  std::vector<Numbers> game{with(0, 0), with(0, 0)};
  game[1].plies_left = 9;
  add_plies_left(game);
  CHECK_EQ(game[0].plies_left, 2.0F);
  CHECK_EQ(game[1].plies_left, 9.0F);
}

TEST_MAIN()
