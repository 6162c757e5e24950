#include "loader/sampling/sampling.h"

#include <cmath>
#include <limits>
#include <vector>

#include "testing/testing.h"

using namespace ludus::chess::loader;

namespace {

std::vector<uint16_t> sample(const Sampling& sampling, uint32_t use, size_t positions, const std::vector<float>& weights = {}) {
  std::vector<uint16_t> chosen;
  sample_positions(sampling, 42, use, positions, weights, chosen);
  return chosen;
}

std::vector<int> counts_of(const Sampling& sampling, uint32_t uses, size_t positions, const std::vector<float>& weights = {}) {
  std::vector<int> counts(positions);
  for (uint32_t use = 0; use < uses; ++use) {
    for (const uint16_t index : sample(sampling, use, positions, weights)) ++counts[index];
  }
  return counts;
}

}  // namespace

TEST(a_rate_uses_every_position_once_in_its_inverse_and_evenly) {
  for (const size_t positions : {size_t{1}, size_t{7}, size_t{80}, size_t{300}}) {
    for (const int count : counts_of({.rate = 0.125}, 8, positions)) CHECK_EQ(count, 1);
    for (uint32_t use = 0; use < 8; ++use) {
      const double size = static_cast<double>(sample({.rate = 0.125}, use, positions).size());
      CHECK(std::abs(size - static_cast<double>(positions) / 8) <= 1);
    }
  }
}

TEST(a_count_goes_through_the_game_before_it_repeats) {
  for (const int count : counts_of({.count = 5}, 16, 80)) CHECK_EQ(count, 1);
  for (const int count : counts_of({.count = 1}, 160, 80)) CHECK_EQ(count, 2);
  CHECK_EQ(sample({.count = 50}, 3, 8).size(), 8U);
}

TEST(weights_scale_the_rate_and_lead_the_order) {
  const std::vector<float> weights{1, 0.5F, 0, 1};
  const auto counts = counts_of({.rate = 0.5}, 8, 4, weights);
  CHECK_EQ(counts[0], 4);
  CHECK_EQ(counts[1], 2);
  CHECK_EQ(counts[2], 0);
  CHECK(sample({.count = 3}, 0, 4, weights)[2] != 2);
}

TEST(focus_is_the_formula_and_never_nan) {
  const Focus focus{.q_weight = 6, .pol_scale = 3.5, .alpha = 1, .beta = 0.1, .gamma = 2, .tau = 0.9, .default_weight = 0.3};
  Numbers numbers{};
  numbers.best_q = 0.5F;
  numbers.orig_q = 0.25F;
  numbers.policy_kld = 0.5F;
  const double wanted = std::pow((6 * 0.25 + 0.5) / 9.5 + 0.1, 2);
  CHECK(std::abs(focus_weight(focus, numbers) - wanted) < 1e-6);
  numbers.policy_kld = 1e30F;
  CHECK_EQ(focus_weight(focus, numbers), 0.9F);
  numbers.orig_q = std::numeric_limits<float>::quiet_NaN();
  CHECK_EQ(focus_weight(focus, numbers), 0.3F);
}

TEST_MAIN()
