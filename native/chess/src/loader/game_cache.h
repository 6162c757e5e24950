// Decoded games, as many as the memory allows; the one that was used longest ago goes first and is decoded again when
// it is needed. A game is decoded by one thread at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "loader/chunk_pool/chunk_pool.h"
#include "loader/decoder.h"
#include "loader/tensors/game.h"

namespace ludus::chess::loader {

class GameCache {
 public:
  // Decodes a chunk and reports what was refused. Called without the lock, by any thread.
  using Decode = std::function<std::shared_ptr<const Game>(ChunkId, Decoder&)>;

  struct Counts {
    size_t games = 0, positions = 0, bytes = 0, capacity = 0;
    uint64_t hits = 0, misses = 0, evictions = 0;
  };

  GameCache(size_t capacity_bytes, Decode decode) : capacity_(capacity_bytes), decode_(std::move(decode)) {}

  // The game; null if it is refused. Decodes it in this thread unless another one is at it.
  std::shared_ptr<const Game> get(ChunkId chunk, Decoder& decoder);
  void prefetch(ChunkId chunk, Decoder& decoder);  // The same, but waits for nobody.
  bool contains(ChunkId chunk) const;
  Counts counts() const;

 private:
  struct Entry {
    std::shared_ptr<const Game> game;
    std::list<ChunkId>::iterator place;
  };

  std::shared_ptr<const Game> decode(ChunkId chunk, Decoder& decoder, std::unique_lock<std::mutex>& lock);
  void keep(ChunkId chunk, const std::shared_ptr<const Game>& game);

  const size_t capacity_;
  const Decode decode_;
  mutable std::mutex mutex_;
  std::condition_variable decoded_;
  std::unordered_map<ChunkId, Entry> entries_;
  std::list<ChunkId> order_;  // Used last comes first.
  std::unordered_set<ChunkId> in_progress_;
  std::unordered_set<ChunkId> refused_;
  Counts counts_;
};

}  // namespace ludus::chess::loader
