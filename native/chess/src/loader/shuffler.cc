#include "loader/shuffler.h"

#include <algorithm>

namespace ludus::chess::loader {
namespace {

constexpr size_t kWarmBatches = 16;  // In the reservoir before the first one comes out.

}  // namespace

Shuffler::Shuffler(const LoaderConfig& config)
    : config_(config),
      pool_(config.pool_chunks, Split(config.split, config.part)),
      reservoir_(config.reservoir),
      random_(config.seed) {
  mark();
}

bool Shuffler::compose(Games& games, std::vector<Drawn>& batch) {
  Drawn position;
  while (batch.size() < config_.batch_size) {
    if (!next_position(games, position)) return false;
    if (!is_warm_) {
      reservoir_.add(std::move(position));
      const bool is_pass_over = used_chunks_ >= pool_.alive() && incoming_at_ == incoming_.size();
      is_warm_ = is_pass_over || reservoir_.size() >= std::min(config_.reservoir, kWarmBatches * config_.batch_size);
      continue;
    }
    if (!reservoir_.is_full()) {
      reservoir_.add(std::move(position));
      if (!next_position(games, position)) return false;
    }
    batch.push_back(reservoir_.exchange(std::move(position), random_));
  }
  return true;
}

bool Shuffler::next_position(Games& games, Drawn& position) {
  while (incoming_at_ == incoming_.size()) {
    if (!open_next_chunk(games)) return false;
  }
  position = std::move(incoming_[incoming_at_++]);
  return true;
}

bool Shuffler::open_next_chunk(Games& games) {
  while (pending_.size() < kPending) {
    const auto drawn = pool_.draw(random_);
    if (!drawn) break;
    games.expect(*drawn);
    pending_.push_back(*drawn);
  }
  if (pending_.empty()) return false;
  if (!has_copied_ && games.store().is_tight()) copy_what_is_known(games.store());
  const ChunkUse next = pending_.front();
  pending_.pop_front();
  if (!pool_.is_alive(next.chunk)) return true;  // It has left since it was drawn.
  auto use = games.use(next);
  if (!use) {
    pool_.drop(next.chunk);
    return true;
  }
  if (!pool_.note_content(next.chunk, use->content)) {
    games.refuse_duplicate(next.chunk);
    pool_.drop(next.chunk);
    return true;
  }
  incoming_.clear();
  incoming_at_ = 0;
  for (Sampled& one : use->sampled) {
    incoming_.push_back({.position = {.chunk = next.chunk, .index = one.index}, .copy = std::move(one.copy)});
  }
  ++used_chunks_;
  ++uses;
  sampled += incoming_.size();
  offered += use->game_size;
  return true;
}

// Games are given up one by one, each when the reservoir has its positions: both together stay within the memory.
void Shuffler::copy_what_is_known(GameStore& store) {
  std::vector<std::pair<ChunkId, uint32_t>> known;
  for (uint32_t slot = 0; slot < reservoir_.size(); ++slot) {
    if (!reservoir_.has_copy(slot)) known.emplace_back(reservoir_.position(slot).chunk, slot);
  }
  std::sort(known.begin(), known.end());
  for (auto at = known.begin(); at != known.end();) {
    const ChunkId chunk = at->first;
    const auto game = store.kept_game(chunk);
    for (; at != known.end() && at->first == chunk; ++at) {
      if (!game) continue;
      reservoir_.set_copy(at->second, store.copy(*game, reservoir_.position(at->second).index));
    }
    store.give_up(chunk);
  }
  store.give_up_games();
  has_copied_ = true;
}

void Shuffler::list_missing(Refill& refill) const {
  for (uint32_t slot = 0; slot < reservoir_.size(); ++slot) {
    if (!reservoir_.has_copy(slot)) refill.add(reservoir_.position(slot), slot);
  }
}

void Shuffler::put_copies(std::vector<Refill::Copied> copies) {
  for (auto& [slot, drawn] : copies) {
    if (reservoir_.position(slot) == drawn.position) reservoir_.set_copy(slot, std::move(drawn.copy));
  }
}

void Shuffler::mark() {
  std::vector<PositionRef> incoming;
  for (size_t i = incoming_at_; i < incoming_.size(); ++i) incoming.push_back(incoming_[i].position);
  marks_.push_back({.random = random_,
                    .pending = {pending_.begin(), pending_.end()},
                    .incoming = std::move(incoming),
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
  incoming_.clear();
  for (const PositionRef& position : saved.incoming) incoming_.push_back({.position = position, .copy = {}});
  incoming_at_ = 0;
  used_chunks_ = saved.used_chunks;
  is_warm_ = saved.is_warm;
  marks_.clear();
  first_mark_ = batch;
  mark();
}

}  // namespace ludus::chess::loader
