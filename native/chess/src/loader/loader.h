// The whole loader: a thread that watches the directory, one that decides about batches, and workers that make them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "loader/admissions.h"
#include "loader/batch_queue.h"
#include "loader/config.h"
#include "loader/directory_watch/directory_watch.h"
#include "loader/game_store.h"
#include "loader/refill.h"
#include "loader/shuffler.h"
#include "loader/state.h"
#include "loader/stats.h"
#include "loader/tensors/batch.h"
#include "loader/workers.h"

namespace ludus::chess::loader {

struct LoaderStopped : std::runtime_error {
  LoaderStopped() : std::runtime_error("the loader is stopped") {}
};

class Loader : private Games {
 public:
  // Begins to load at once. With a state it continues with the batch that would have come next.
  explicit Loader(LoaderConfig config, std::span<const uint8_t> state = {});
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Null after `most`. Throws LoaderStopped when the loader is stopped, also while it waits.
  std::shared_ptr<Batch> next_batch(std::chrono::duration<double> most);
  void stop();  // From any thread, any number of times.

  std::vector<uint8_t> state() const;  // Behind the batch that was taken last.
  void set_anchor(const std::string& key) { admissions_.set_anchor(key); }
  uint64_t reset_anchor(std::optional<uint64_t> chunks);
  LoaderStats stats();
  std::vector<Refusal> take_refusals() { return refusals_.take(); }
  const LoaderConfig& config() const { return config_; }

 private:
  struct Work;  // A batch that is being made.
  struct ShufflerCounts {
    uint64_t alive = 0, passes = 0, left_in_pass = 0, reservoir = 0;
  };

  void restore(LoaderState state);
  void watch();
  void shuffle();
  void shuffle_one(uint64_t number);
  void admit(const std::vector<Source>& sources);
  void note_counts();  // For stats(), which must not wait for the shuffler.
  void make(uint64_t number, std::vector<Drawn> positions);
  void make_rows(Work& work, size_t from, size_t to, Decoder& decoder);
  void finish(Work& work);
  void add_loads(std::vector<StageStats>& stages);
  std::shared_ptr<const Game> decode(ChunkId chunk, Decoder& decoder);
  std::shared_ptr<const Game> game_of(const Drawn& drawn, Decoder& decoder);
  bool refill_one(Decoder& decoder);
  void refill(ChunkId chunk, const Game& game, const std::vector<Refill::Slot>& slots);

  void expect(ChunkUse use) override;
  std::optional<Use> use(ChunkUse use) override;
  void refuse_duplicate(ChunkId chunk) override;
  GameStore& store() override { return store_; }

  const LoaderConfig config_;
  Refusals refusals_;
  Meters meters_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_starved_{false};  // The shuffler waits for chunks. False before it takes any.
  std::mutex stop_mutex_;
  mutable std::mutex shuffle_mutex_;  // Of the shuffler. Taken before any other.
  GameStore store_;                   // Before whatever holds copies: it counts them.
  Refill refill_;
  Shuffler shuffler_;
  Admissions admissions_;
  DirectoryWatch directory_;
  std::shared_ptr<BatchMemory> memory_;
  std::unique_ptr<BatchQueue> queue_;
  std::unique_ptr<Workers> workers_;
  Decoder* shuffling_decoder_ = nullptr;  // While the shuffling thread runs.
  std::thread watching_;
  std::thread shuffling_;

  std::mutex counts_mutex_;
  ShufflerCounts shuffler_counts_;
  std::mutex stats_mutex_;
  std::chrono::steady_clock::time_point stats_at_ = std::chrono::steady_clock::now();
  std::vector<int64_t> busy_then_;
};

}  // namespace ludus::chess::loader
