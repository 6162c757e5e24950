#include "loader/sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "loader/random.h"

namespace ludus::chess::loader {
namespace {

std::vector<uint16_t> shuffled(size_t positions, Random& random) {
  std::vector<uint16_t> order(positions);
  std::iota(order.begin(), order.end(), uint16_t{0});
  for (size_t i = positions; i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  return order;
}

// Position i comes round once in 1/p uses; where in that cycle is a random permutation, so that uses are of one size.
void sample_by_rate(double rate, uint64_t chunk_seed, uint32_t use, size_t positions, const std::vector<float>& weights,
                    std::vector<uint16_t>& chosen) {
  if (rate == 1.0 && weights.empty()) {
    chosen.resize(positions);
    std::iota(chosen.begin(), chosen.end(), uint16_t{0});
    return;
  }
  Random random(chunk_seed);
  const std::vector<uint16_t> phases = shuffled(positions, random);
  const double start = random.unit();
  for (size_t i = 0; i < positions; ++i) {
    const double own = weights.empty() ? rate : std::min(1.0, rate * weights[i]);
    const double phase = (phases[i] + start) / static_cast<double>(positions);
    if (std::floor(phase + own * (use + 1.0)) > std::floor(phase + own * use)) {
      chosen.push_back(static_cast<uint16_t>(i));
    }
  }
}

std::vector<uint16_t> draw_order(uint64_t chunk_seed, uint64_t round, size_t positions,
                                 const std::vector<float>& weights) {
  Random random(mix(chunk_seed + round));
  if (weights.empty()) return shuffled(positions, random);
  // Keys of exponential clocks: sorted, they are a weighted draw without replacement.
  std::vector<std::pair<double, uint16_t>> keys(positions);
  for (size_t i = 0; i < positions; ++i) {
    const double weight = std::max(static_cast<double>(weights[i]), 1e-9);
    keys[i] = {-std::log(1.0 - random.unit()) / weight, static_cast<uint16_t>(i)};
  }
  std::sort(keys.begin(), keys.end());
  std::vector<uint16_t> order(positions);
  std::transform(keys.begin(), keys.end(), order.begin(), [](const auto& key) { return key.second; });
  return order;
}

void sample_by_count(size_t count, uint64_t chunk_seed, uint32_t use, size_t positions,
                     const std::vector<float>& weights, std::vector<uint16_t>& chosen) {
  uint64_t at = static_cast<uint64_t>(use) * count;
  const size_t wanted = std::min(count, positions);
  uint64_t round = at / positions;
  std::vector<uint16_t> order = draw_order(chunk_seed, round, positions, weights);
  while (chosen.size() < wanted) {
    if (at / positions != round) order = draw_order(chunk_seed, round = at / positions, positions, weights);
    const uint16_t next = order[at++ % positions];
    if (std::find(chosen.begin(), chosen.end(), next) == chosen.end()) chosen.push_back(next);
  }
}

}  // namespace

float focus_weight(const Focus& focus, const Numbers& n) {
  if (!focus.is_on()) return 1;
  if (std::isnan(n.orig_q) || std::isnan(n.best_q) || std::isnan(n.policy_kld)) {
    return static_cast<float>(focus.default_weight);
  }
  const double surprise = (focus.q_weight * std::abs(static_cast<double>(n.best_q) - n.orig_q) + n.policy_kld) /
                          (focus.q_weight + focus.pol_scale);
  const double base = std::max(0.0, focus.alpha * surprise + focus.beta);
  const double weight = std::min(std::pow(base, focus.gamma), focus.tau);
  return static_cast<float>(std::isfinite(weight) ? weight : focus.tau);
}

void sample_positions(const Sampling& sampling, uint64_t chunk_seed, uint32_t use, size_t positions,
                      const std::vector<float>& weights, std::vector<uint16_t>& chosen) {
  chosen.clear();
  if (positions == 0) return;
  if (sampling.count == 0) {
    sample_by_rate(sampling.rate, chunk_seed, use, positions, weights, chosen);
  } else {
    sample_by_count(sampling.count, chunk_seed, use, positions, weights, chosen);
  }
}

}  // namespace ludus::chess::loader
