#include <array>

#include "loader/loader.h"

namespace ludus::chess::loader {

LoaderStats Loader::stats() {
  const Admissions::Counts files = admissions_.counts();
  const GameStore::Counts cache = store_.counts();
  const auto& watch = directory_.counts();
  LoaderStats stats;
  stats.refused = refusals_.counts();
  stats.batches = queue_->taken();
  stats.positions = stats.batches * config_.batch_size;
  stats.chunks_since_anchor = files.since_anchor;
  stats.is_scanned = files.is_scanned;
  stats.is_starved = files.ahead == 0 && is_starved_;  // In this order: what lay ahead may be joining.
  stats.newest_key = files.newest;
  stats.anchor = files.anchor;
  stats.cache_bytes = cache.bytes;
  ShufflerCounts shuffler;
  {
    const std::lock_guard lock(counts_mutex_);
    shuffler = shuffler_counts_;
  }
  stats.chunks = shuffler.alive;
  stats.stages = {
      {.name = "directory_watch",
       .queue = watch.waiting,
       .counts = {{"files", watch.files}, {"skipped", watch.skipped}, {"rescans", watch.rescans}}},
      {.name = "chunk_sources",
       .queue = workers_->waiting(),
       .counts = {{"files", files.files},
                  {"members_skipped", files.skipped_members},
                  {"chunks", meters_.chunks},
                  {"refused", meters_.chunks_refused},
                  {"gz_bytes", meters_.gz_bytes},
                  {"raw_bytes", meters_.raw_bytes}}},
      {.name = "validation", .counts = {{"positions", meters_.positions}, {"refused", meters_.positions_refused}}},
      {.name = "split", .counts = {{"ours", files.chunks}, {"others", files.others}}},
      {.name = "chunk_pool",
       .queue = shuffler.alive,
       .capacity = config_.pool_chunks,
       .counts = {{"passes", shuffler.passes},
                  {"left_in_pass", shuffler.left_in_pass},
                  {"waiting_files", files.waiting},
                  {"games_cached", cache.games},
                  {"positions_cached", cache.positions},
                  {"positions_ahead", cache.copies_ahead},
                  {"cache_hits", cache.hits},
                  {"cache_misses", cache.misses},
                  {"cache_evictions", cache.evictions}}},
      {.name = "targets", .counts = {}},
      {.name = "sampling",
       .counts = {{"uses", shuffler_.uses}, {"offered", shuffler_.offered}, {"sampled", shuffler_.sampled}}},
      {.name = "reservoir", .queue = shuffler.reservoir, .capacity = config_.reservoir, .counts = {}},
      {.name = "tensors",
       .queue = queue_->waiting(),
       .capacity = queue_->capacity(),
       .counts = {{"batches", stats.batches}, {"positions", stats.positions}, {"lost", meters_.lost}}},
  };
  add_loads(stats.stages);
  return stats;
}

void Loader::add_loads(std::vector<StageStats>& stages) {
  const std::array<int64_t, 9> busy{meters_.indexing,  meters_.inflating, meters_.checking, 0, 0, meters_.targeting, 0,
                                    meters_.shuffling, meters_.expanding};
  const std::lock_guard lock(stats_mutex_);
  const auto now = std::chrono::steady_clock::now();
  const double passed = std::max(1e-9, std::chrono::duration<double>(now - stats_at_).count());
  busy_then_.resize(busy.size());
  for (size_t i = 0; i < busy.size(); ++i) {
    stages[i].busy_s = static_cast<double>(busy[i]) * 1e-9;
    stages[i].load = static_cast<double>(busy[i] - busy_then_[i]) * 1e-9 / passed;
    busy_then_[i] = busy[i];
  }
  stats_at_ = now;
}

}  // namespace ludus::chess::loader
