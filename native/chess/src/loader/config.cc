#include "loader/config.h"

#include <cmath>
#include <stdexcept>

namespace ludus::chess::loader {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_split(const LoaderConfig& config) {
  bool found = config.split.empty() && config.part.empty();
  double total = 0;
  for (const auto& [name, weight] : config.split) {
    require(std::isfinite(weight) && weight >= 0, "split: a weight must be a number >= 0");
    total += weight;
    found = found || (name == config.part && weight > 0);
  }
  require(config.split.empty() || total > 0, "split: at least one weight must be above 0");
  require(found, "part: must be the name of a split with a weight above 0");
}

}  // namespace

void check(const LoaderConfig& config) {
  require(!config.directory.empty(), "directory: must be given");
  require(config.threads >= 1 && config.threads <= 256, "threads: must be 1 to 256");
  require(config.batch_size >= 1 && config.batch_size <= 65'536, "batch_size: must be 1 to 65536");
  require(config.prefetch_batches >= 1 && config.prefetch_batches <= 64, "prefetch_batches: must be 1 to 64");
  require(config.pool_chunks >= 1 && config.pool_chunks <= 100'000'000, "pool_chunks: must be 1 to 100000000");
  require(config.min_chunks >= 1 && config.min_chunks <= config.pool_chunks, "min_chunks: must be 1 to pool_chunks");
  require(config.reservoir >= 1 && config.reservoir <= 100'000'000, "reservoir: must be 1 to 100000000");
  require(config.memory_mb >= 1, "memory_mb: must be at least 1");
  require(config.rate > 0 && config.rate <= 1, "rate: must be above 0 and at most 1");
  require(config.count == 0 || config.rate == 1.0, "count: give either a rate or a count");
  require(config.count <= 4096, "count: must be at most 4096");
  require(config.focus.q_weight >= 0 && config.focus.pol_scale >= 0, "focus: q_weight and pol_scale must be >= 0");
  require(config.focus.tau > 0 && config.focus.default_weight >= 0, "focus: tau must be > 0, default_weight >= 0");
  require(config.theta >= 0 && config.theta < 1, "theta: must be at least 0 and below 1");
  require(config.max_positions >= 1 && config.max_positions <= 65'535, "max_positions: must be 1 to 65535");
  require(config.max_ratio >= 1, "max_ratio: must be at least 1");
  require(config.max_members >= 1, "max_members: must be at least 1");
  require(config.rescan_s > 0 && config.settle_s >= 0, "rescan_s must be above 0, settle_s at least 0");
  const int format = config.input_format;
  require(format == 0 || (format >= 1 && format <= 5) || format == 132 || format == 133,
          "input_format: must be 1, 2, 3, 4, 5, 132, 133, or 0 for any");
  check_split(config);
}

}  // namespace ludus::chess::loader
