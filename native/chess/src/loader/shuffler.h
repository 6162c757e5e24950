// Decides which positions come next: pool, sampling and reservoir in one logical order. Knows no threads.
//
// Everything that decides is here and is saved, so the same files, seed and state give the same batches, whatever the
// workers' timing: they only compute what has been decided.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "loader/chunk_pool/chunk_pool.h"
#include "loader/config.h"
#include "loader/game_store.h"
#include "loader/refill.h"
#include "loader/reservoir/reservoir.h"

namespace ludus::chess::loader {

// Where the shuffler gets games from.
class Games {
 public:
  virtual ~Games() = default;
  virtual void expect(ChunkUse use) = 0;             // It will be asked for soon.
  virtual std::optional<Use> use(ChunkUse use) = 0;  // Nothing: refused.
  virtual void refuse_duplicate(ChunkId chunk) = 0;
  virtual GameStore& store() = 0;
};

class Shuffler {
 public:
  // The state behind a number of batches, but for the sources themselves.
  struct Saved {
    Random random;
    std::vector<ChunkUse> pending;
    std::vector<PositionRef> incoming;
    uint64_t used_chunks = 0;
    bool is_warm = false;
    size_t sources = 0;
    ChunkPool::Saved pool;
    std::vector<PositionRef> reservoir;
  };

  explicit Shuffler(const LoaderConfig& config);

  ChunkPool& pool() { return pool_; }
  const ChunkPool& pool() const { return pool_; }
  const Reservoir& reservoir() const { return reservoir_; }

  // Adds positions to `batch` until it is full. False: the pool is empty; admit chunks and call again.
  bool compose(Games& games, std::vector<Drawn>& batch);

  void list_missing(Refill& refill) const;          // Positions of the reservoir that have no copy.
  void put_copies(std::vector<Refill::Copied> copies);  // Where the position is still there.

  void mark();                       // A batch is complete.
  void forget_before(uint64_t batch);  // States before this number of batches are not asked for any more.
  Saved saved_at(uint64_t batch) const;
  void restore(std::vector<std::shared_ptr<const ChunkSource>> sources, Saved saved, uint64_t batch);
  uint64_t batches() const { return first_mark_ + marks_.size() - 1; }

  std::atomic<uint64_t> uses{0};     // Chunks that gave positions.
  std::atomic<uint64_t> sampled{0};  // Positions that they gave.
  std::atomic<uint64_t> offered{0};  // Positions that they had.

 private:
  struct Mark {
    Random random;
    std::vector<ChunkUse> pending;
    std::vector<PositionRef> incoming;
    uint64_t used_chunks = 0;
    bool is_warm = false;
    ChunkPool::Marks pool;
    uint64_t reservoir = 0;
  };

  bool next_position(Games& games, Drawn& position);
  bool open_next_chunk(Games& games);
  void copy_what_is_known(GameStore& store);

  const LoaderConfig& config_;
  ChunkPool pool_;
  Reservoir reservoir_;
  Random random_;
  std::deque<ChunkUse> pending_;
  std::vector<Drawn> incoming_;
  size_t incoming_at_ = 0;
  uint64_t used_chunks_ = 0;
  bool is_warm_ = false;
  bool has_copied_ = false;
  std::deque<Mark> marks_;
  uint64_t first_mark_ = 0;
};

}  // namespace ludus::chess::loader
