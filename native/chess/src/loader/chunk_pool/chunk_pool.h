// The newest chunks, drawn without replacement: every chunk once, in random order, then again in another order.
//
// Newest means last by key. A new chunk joins what is left of the current pass; the oldest one leaves when there are
// too many. A chunk keeps its number for ever, also when it has left: the reservoir may still know it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loader/chunk_pool/journaled.h"
#include "loader/chunk_sources/chunk_source.h"
#include "loader/random.h"
#include "loader/split/split.h"

namespace ludus::chess::loader {

using ChunkId = uint32_t;

struct ChunkUse {
  ChunkId chunk = 0;
  uint32_t use = 0;  // How often it was drawn before.
};

class ChunkPool {
 public:
  struct Marks {
    uint64_t alive = 0, uses = 0, contents = 0, remaining = 0;
    size_t sources = 0;
  };
  struct Saved {
    std::vector<uint8_t> alive;
    std::vector<uint32_t> uses;
    std::vector<uint64_t> contents;
    std::vector<ChunkId> remaining;
  };

  ChunkPool(size_t capacity, Split split) : capacity_(capacity), split_(std::move(split)) {}

  void admit(std::shared_ptr<const ChunkSource> source);
  std::optional<ChunkUse> draw(Random& random);
  void drop(ChunkId chunk);
  // Notes what a chunk contains. False: another chunk of the pool has the same content.
  bool note_content(ChunkId chunk, uint64_t content);

  bool is_alive(ChunkId chunk) const { return alive_[chunk] != 0; }
  size_t alive() const { return alive_count_; }
  size_t admitted() const { return admitted_; }
  size_t left_in_pass() const { return remaining_.size(); }
  uint64_t passes() const { return passes_; }
  size_t source_count() const { return sources_.size(); }
  const ChunkSource& source(size_t index) const { return *sources_[index]; }
  // Where a chunk is. The one function that any thread may call.
  std::pair<std::shared_ptr<const ChunkSource>, size_t> locate(ChunkId chunk) const;

  Marks marks() const;
  void forget_before(const Marks& marks);
  Saved saved_at(const Marks& marks) const;
  // Sources in the order of their admission, and what was saved of their chunks.
  void restore(std::vector<std::shared_ptr<const ChunkSource>> sources, Saved saved);

 private:
  void number(std::shared_ptr<const ChunkSource> source);
  void leave(ChunkId chunk);
  void evict_oldest();

  const size_t capacity_;
  const Split split_;
  mutable std::shared_mutex table_;  // Of sources_ and first_, which other threads look into.
  std::vector<std::shared_ptr<const ChunkSource>> sources_;
  std::vector<ChunkId> first_;                                          // The first chunk of each source.
  std::map<std::pair<std::string, std::string>, size_t> order_;        // (key, path) of sources with chunks alive.
  std::vector<uint32_t> alive_in_;                                     // Chunks alive of each source.
  std::unordered_map<uint64_t, ChunkId> by_content_;
  Journaled<uint8_t> alive_;
  Journaled<uint32_t> uses_;
  Journaled<uint64_t> contents_;
  Journaled<ChunkId> remaining_;
  size_t alive_count_ = 0;
  size_t admitted_ = 0;
  uint64_t passes_ = 0;
};

}  // namespace ludus::chess::loader
