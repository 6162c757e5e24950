// What a loader is asked for. Every field has a default but the directory; Python's LoaderConfig has the same names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ludus::chess::loader {

// How surprising a position must be to be used ("diff focus"):
// w = min((alpha * (q_weight * |best_q - orig_q| + policy_kld) / (q_weight + pol_scale) + beta) ^ gamma, tau).
struct Focus {
  double q_weight = 0;
  double pol_scale = 0;
  double alpha = 1;
  double beta = 0;
  double gamma = 1;
  double tau = 1;
  double default_weight = 1;  // Where orig_q is unknown.

  bool is_on() const { return q_weight > 0 || pol_scale > 0; }
};

struct LoaderConfig {
  std::string directory;
  uint64_t seed = 0;
  size_t threads = 2;
  size_t batch_size = 1024;
  size_t prefetch_batches = 2;  // Batches that are made before they are asked for.
  size_t pool_chunks = 100'000;
  size_t min_chunks = 1;  // No batch before so many chunks are in the pool.
  size_t reservoir = 100'000;
  size_t memory_mb = 256;  // Of decoded games; tensors come on top.
  double rate = 1.0;       // Share of a game's positions that one use takes.
  size_t count = 0;        // Or how many positions one use takes; 0 = by rate.
  Focus focus;
  std::vector<std::pair<std::string, double>> split;  // Names and weights; empty = everything.
  std::string part;                                   // Which of them this loader gives.
  int input_format = 0;                               // Refuse all others; 0 = any.
  double theta = 5.0 / 6.0;                           // Of the short-term value targets.
  bool check_moves = true;                            // Does each position follow from the one before it?
  size_t max_positions = 4096;                        // A longer chunk is refused.
  double max_ratio = 500;                             // Inflated bytes per byte of a chunk.
  size_t max_members = 1'000'000;                     // Of a tar.
  bool admit_at_anchor = false;                       // New chunks join the pool when the anchor passes them.
  std::string anchor;
  double rescan_s = 10;
  double settle_s = 2;  // A file of unknown writers is ready when it has not changed for so long.
};

// Throws std::invalid_argument with one sentence that names the field.
void check(const LoaderConfig& config);

}  // namespace ludus::chess::loader
