#include "loader/shuffler.h"

#include <algorithm>

namespace ludus::chess::loader {
namespace {

constexpr size_t kPending = 32;      // Chunks that are drawn, and decoded, ahead. A constant: it is part of the order.
constexpr size_t kWarmBatches = 16;  // In the reservoir before the first one comes out.

}  // namespace

Shuffler::Shuffler(const LoaderConfig& config)
    : config_(config),
      pool_(config.pool_chunks, Split(config.split, config.part)),
      reservoir_(config.reservoir),
      random_(config.seed) {
  mark();
}

bool Shuffler::compose(Games& games, std::vector<PositionRef>& batch) {
  PositionRef position;
  while (batch.size() < config_.batch_size) {
    if (!next_position(games, position)) return false;
    if (!is_warm_) {
      reservoir_.add(position);
      const bool is_pass_over = used_chunks_ >= pool_.alive() && incoming_at_ == incoming_.size();
      is_warm_ = is_pass_over || reservoir_.size() >= std::min(config_.reservoir, kWarmBatches * config_.batch_size);
      continue;
    }
    if (!reservoir_.is_full()) {
      reservoir_.add(position);
      if (!next_position(games, position)) return false;
    }
    batch.push_back(reservoir_.exchange(position, random_));
  }
  return true;
}

bool Shuffler::next_position(Games& games, PositionRef& position) {
  while (incoming_at_ == incoming_.size()) {
    if (!open_next_chunk(games)) return false;
  }
  position = incoming_[incoming_at_++];
  return true;
}

bool Shuffler::open_next_chunk(Games& games) {
  while (pending_.size() < kPending) {
    const auto drawn = pool_.draw(random_);
    if (!drawn) break;
    games.expect(drawn->chunk);
    pending_.push_back(*drawn);
  }
  if (pending_.empty()) return false;
  const ChunkUse next = pending_.front();
  pending_.pop_front();
  if (!pool_.is_alive(next.chunk)) return true;  // It has left since it was drawn.
  const auto game = games.get(next.chunk);
  if (!game) {
    pool_.drop(next.chunk);
    return true;
  }
  if (!pool_.note_content(next.chunk, game->content)) {
    games.refuse_duplicate(next.chunk);
    pool_.drop(next.chunk);
    return true;
  }
  const Sampling sampling{.rate = config_.rate, .count = config_.count};
  const uint64_t chunk_seed = mix(config_.seed ^ game->content);
  sample_positions(sampling, chunk_seed, next.use, game->size(), game->weights, chosen_);
  incoming_.clear();
  incoming_at_ = 0;
  for (const uint16_t index : chosen_) incoming_.push_back({.chunk = next.chunk, .index = index});
  ++used_chunks_;
  ++uses;
  sampled += chosen_.size();
  offered += game->size();
  return true;
}

void Shuffler::mark() {
  marks_.push_back({.random = random_,
                    .pending = {pending_.begin(), pending_.end()},
                    .incoming = {incoming_.begin() + static_cast<std::ptrdiff_t>(incoming_at_), incoming_.end()},
                    .used_chunks = used_chunks_,
                    .is_warm = is_warm_,
                    .pool = pool_.marks(),
                    .reservoir = reservoir_.mark()});
}

void Shuffler::forget_before(uint64_t batch) {
  while (first_mark_ < batch && marks_.size() > 1) {
    marks_.pop_front();
    ++first_mark_;
  }
  pool_.forget_before(marks_.front().pool);
  reservoir_.forget_before(marks_.front().reservoir);
}

Shuffler::Saved Shuffler::saved_at(uint64_t batch) const {
  const Mark& mark = marks_.at(batch - first_mark_);
  return {.random = mark.random,
          .pending = mark.pending,
          .incoming = mark.incoming,
          .used_chunks = mark.used_chunks,
          .is_warm = mark.is_warm,
          .sources = mark.pool.sources,
          .pool = pool_.saved_at(mark.pool),
          .reservoir = reservoir_.saved_at(mark.reservoir)};
}

void Shuffler::restore(std::vector<std::shared_ptr<const ChunkSource>> sources, Saved saved, uint64_t batch) {
  pool_.restore(std::move(sources), std::move(saved.pool));
  reservoir_.restore(std::move(saved.reservoir));
  random_ = saved.random;
  pending_.assign(saved.pending.begin(), saved.pending.end());
  incoming_ = std::move(saved.incoming);
  incoming_at_ = 0;
  used_chunks_ = saved.used_chunks;
  is_warm_ = saved.is_warm;
  marks_.clear();
  first_mark_ = batch;
  mark();
}

}  // namespace ludus::chess::loader
