// What is kept of decoded chunks, within a bound of memory.
//
// While the games that were used fit, whole games are kept. Once they do not, games are given up for good, and copies of
// positions are kept instead: of those in the reservoir, and of those that the next uses of each chunk will take, as many
// uses ahead as the memory gives each chunk of the pool. So a chunk is inflated once in so many passes, at least once in
// one, however large the pool is. What is kept never changes a batch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "loader/chunk_pool/chunk_pool.h"
#include "loader/decoder.h"
#include "loader/tensors/game.h"
#include "loader/tensors/packed.h"

namespace ludus::chess::loader {

inline constexpr size_t kPending = 32;  // Chunks that are drawn, and decoded, ahead. A constant: it is part of the order.

struct Sampled {
  Packed copy;  // Nothing: it is taken from its game when the batch is made.
  uint16_t index = 0;
};

struct Use {  // What one use of a chunk gives.
  uint64_t content = 0;
  size_t game_size = 0;
  std::vector<Sampled> sampled;
};

class GameStore {
 public:
  // Decodes a chunk and reports what was refused. Called without the lock, by any thread.
  using Decode = std::function<std::shared_ptr<const Game>(ChunkId, Decoder&)>;

  struct Counts {
    size_t games = 0, positions = 0, bytes = 0, capacity = 0;
    size_t copies_ahead = 0;
    uint64_t hits = 0, misses = 0, evictions = 0;
    bool is_tight = false;
  };

  GameStore(const LoaderConfig& config, Decode decode)
      : config_(config), capacity_(config.memory_mb << 20), decode_(std::move(decode)) {}

  // For the shuffling thread. Nothing: the chunk is refused. Decodes it in this thread unless another one is at it.
  std::optional<Use> use(ChunkUse wanted, Decoder& decoder);
  void prefetch(ChunkUse wanted, Decoder& decoder);  // The same in advance; waits for nobody.
  bool is_ready(ChunkUse wanted) const;
  void forget(ChunkId chunk);
  void set_pool_size(size_t chunks) { pool_size_ = chunks; }  // Among so many the memory is shared.

  // The game of a position without a copy; null if it is refused.
  std::shared_ptr<const Game> game(ChunkId chunk, Decoder& decoder);

  // Games do not fit any more: copy what is known of them by number only, then give them up.
  bool is_tight() const { return is_tight_; }
  std::shared_ptr<const Game> kept_game(ChunkId chunk) const;
  void give_up(ChunkId chunk);
  void give_up_games();
  Packed copy(const Game& game, size_t index);  // Nothing, where memory is full.

  Counts counts() const;

 private:
  struct Entry {
    std::shared_ptr<const Game> game;  // Or, of the uses from `first_use` on, the last one first:
    std::vector<Sampled> ahead;
    std::vector<uint16_t> sizes;  // How many positions of `ahead` belong to each.
    uint32_t first_use = 0;
    uint64_t content = 0;
    size_t game_size = 0;
    uint64_t drawn_at = 0;
    std::list<ChunkId>::iterator place;

    size_t bytes() const;
  };
  using Entries = std::unordered_map<ChunkId, Entry>;
  using Lock = std::unique_lock<std::mutex>;

  bool has(const Entry& entry, uint32_t use) const;
  Use take(Entry& entry, uint32_t use);
  Use sample(const Game& game, uint32_t use);
  Entry look_ahead(const Game& game, ChunkUse wanted);
  size_t uses_ahead(const Game& game, ChunkUse wanted) const;
  std::shared_ptr<const Game> load(ChunkId chunk, std::optional<ChunkUse> wanted, Decoder& decoder, Lock& lock);
  void keep(ChunkId chunk, Entry entry);
  void touch(Entry& entry);
  void erase(Entries::iterator entry);
  void evict_unused();
  size_t total() const { return bytes_ + copied_bytes_; }

  const LoaderConfig& config_;
  const size_t capacity_;
  const Decode decode_;
  std::atomic<size_t> copied_bytes_{0};
  std::atomic<size_t> pool_size_{1};
  std::atomic<bool> is_tight_{false};
  mutable std::mutex mutex_;
  std::condition_variable decoded_;
  Entries entries_;
  std::list<ChunkId> order_;  // Used last comes first.
  uint64_t draws_ = 0;
  std::atomic<size_t> bytes_{0};  // Of the entries, without copies.
  bool has_given_up_ = false;
  std::unordered_set<ChunkId> in_progress_;
  std::unordered_set<ChunkId> refused_;
  Counts counts_;
};

}  // namespace ludus::chess::loader
