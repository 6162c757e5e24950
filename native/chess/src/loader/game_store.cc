#include "loader/game_store.h"

#include <algorithm>

#include "loader/random.h"
#include "loader/sampling/sampling.h"

namespace ludus::chess::loader {
namespace {

constexpr size_t kEntryBytes = 192;    // Of an entry, its node in the table and its place in the order, about.
constexpr size_t kCopyOverhead = 100;  // A copy is larger than a position in its game, by about so much.

}  // namespace

size_t GameStore::Entry::bytes() const {
  const size_t own = kEntryBytes + ahead.capacity() * sizeof(Sampled) + sizes.capacity() * sizeof(uint16_t);
  return own + (game ? game->bytes() : 0);
}

std::optional<Use> GameStore::use(ChunkUse wanted, Decoder& decoder) {
  Lock lock(mutex_);
  while (!refused_.contains(wanted.chunk)) {
    const auto found = entries_.find(wanted.chunk);
    if (found != entries_.end() && has(found->second, wanted.use)) {
      ++counts_.hits;
      touch(found->second);
      if (!found->second.game) {
        Use taken = take(found->second, wanted.use);
        if (found->second.sizes.empty()) erase(found);
        return taken;
      }
      const auto game = found->second.game;
      lock.unlock();
      return sample(*game, wanted.use);
    }
    if (in_progress_.insert(wanted.chunk).second) {
      load(wanted.chunk, wanted, decoder, lock);
    } else {
      decoded_.wait(lock);  // Whoever decodes it waits for nobody.
    }
  }
  return std::nullopt;
}

void GameStore::prefetch(ChunkUse wanted, Decoder& decoder) {
  Lock lock(mutex_);
  const auto found = entries_.find(wanted.chunk);
  if (found != entries_.end() && has(found->second, wanted.use)) return;
  if (refused_.contains(wanted.chunk) || !in_progress_.insert(wanted.chunk).second) return;
  load(wanted.chunk, wanted, decoder, lock);
}

bool GameStore::is_ready(ChunkUse wanted) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(wanted.chunk);
  return refused_.contains(wanted.chunk) || (found != entries_.end() && has(found->second, wanted.use));
}

std::shared_ptr<const Game> GameStore::game(ChunkId chunk, Decoder& decoder) {
  Lock lock(mutex_);
  while (!refused_.contains(chunk)) {
    const auto found = entries_.find(chunk);
    if (found != entries_.end() && found->second.game) {
      ++counts_.hits;
      return found->second.game;
    }
    if (in_progress_.insert(chunk).second) return load(chunk, std::nullopt, decoder, lock);
    decoded_.wait(lock);
  }
  return nullptr;
}

// The caller has put the chunk in progress. What was decoded is kept whole, or looked ahead into, or for `game` alone.
std::shared_ptr<const Game> GameStore::load(ChunkId chunk, std::optional<ChunkUse> wanted, Decoder& decoder, Lock& lock) {
  ++counts_.misses;
  lock.unlock();
  std::shared_ptr<const Game> game = decode_(chunk, decoder);
  const bool is_whole = !is_tight_;
  Entry entry;
  if (game && is_whole) entry.game = game;
  if (game && !is_whole && wanted) entry = look_ahead(*game, *wanted);
  lock.lock();
  in_progress_.erase(chunk);
  if (!game) refused_.insert(chunk);
  const bool is_late = is_whole && has_given_up_;  // Games were given up while this one was decoded.
  if (game && !is_late && (is_whole || wanted)) keep(chunk, std::move(entry));
  decoded_.notify_all();
  return game;
}

void GameStore::keep(ChunkId chunk, Entry entry) {
  const auto old = entries_.find(chunk);
  if (old != entries_.end()) erase(old);
  bytes_ += entry.bytes();
  if (entry.game) {
    ++counts_.games;
    counts_.positions += entry.game->size();
  }
  counts_.copies_ahead += entry.ahead.size();
  order_.push_front(chunk);
  entry.place = order_.begin();
  entry.drawn_at = draws_;
  entries_[chunk] = std::move(entry);
  if (total() > capacity_ / 8 * 7) evict_unused();
  // An eighth is left: for what is decoded until the shuffler has copied what it knows by number only.
  if (total() > capacity_ / 8 * 7) is_tight_ = true;
}

// A chunk of the pool is drawn again within two passes. What was not has left the pool.
void GameStore::evict_unused() {
  while (!order_.empty()) {
    const auto oldest = entries_.find(order_.back());
    if (oldest->second.drawn_at + 2 * pool_size_ >= draws_) return;
    erase(oldest);
    ++counts_.evictions;
  }
}

void GameStore::erase(Entries::iterator entry) {
  bytes_ -= entry->second.bytes();
  if (entry->second.game) {
    --counts_.games;
    counts_.positions -= entry->second.game->size();
  }
  counts_.copies_ahead -= entry->second.ahead.size();
  order_.erase(entry->second.place);
  entries_.erase(entry);
}

void GameStore::touch(Entry& entry) {
  entry.drawn_at = ++draws_;
  order_.splice(order_.begin(), order_, entry.place);
}

void GameStore::forget(ChunkId chunk) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(chunk);
  if (found != entries_.end()) erase(found);
}

bool GameStore::has(const Entry& entry, uint32_t use) const {
  return entry.game || (use >= entry.first_use && use - entry.first_use < entry.sizes.size());
}

Use GameStore::take(Entry& entry, uint32_t use) {
  Use taken{.content = entry.content, .game_size = entry.game_size, .sampled = {}};
  while (true) {  // Uses before this one are not asked for any more.
    const auto from = entry.ahead.end() - entry.sizes.back();
    if (entry.first_use == use) taken.sampled.assign(std::move_iterator(from), std::move_iterator(entry.ahead.end()));
    counts_.copies_ahead -= entry.sizes.back();
    entry.ahead.erase(from, entry.ahead.end());
    entry.sizes.pop_back();
    if (entry.first_use++ == use) return taken;
  }
}

Use GameStore::sample(const Game& game, uint32_t use) {
  Use taken{.content = game.content, .game_size = game.size(), .sampled = {}};
  thread_local std::vector<uint16_t> chosen;
  sample_positions({.rate = config_.rate, .count = config_.count}, mix(config_.seed ^ game.content), use, game.size(),
                   game.weights, chosen);
  taken.sampled.reserve(chosen.size());
  for (const uint16_t index : chosen) {
    taken.sampled.push_back({.copy = is_tight_ ? copy(game, index) : Packed(), .index = index});
  }
  return taken;
}

GameStore::Entry GameStore::look_ahead(const Game& game, ChunkUse wanted) {
  std::vector<Use> uses;
  size_t positions = 0;
  const size_t most = uses_ahead(game, wanted);
  while (uses.empty() || (uses.size() < most && total() < capacity_)) {
    uses.push_back(sample(game, wanted.use + static_cast<uint32_t>(uses.size())));
    positions += uses.back().sampled.size();
  }
  Entry entry;
  entry.first_use = wanted.use;
  entry.content = game.content;
  entry.game_size = game.size();
  entry.ahead.reserve(positions);
  entry.sizes.reserve(uses.size());
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    entry.sizes.push_back(static_cast<uint16_t>(use->sampled.size()));
    std::move(use->sampled.begin(), use->sampled.end(), std::back_inserter(entry.ahead));
  }
  return entry;
}

// On average as many as fill this chunk's share of the memory: evenly spread from none to three times as many, which is
// half used up at any time. Spread, so that chunks are not all decoded in one pass.
size_t GameStore::uses_ahead(const Game& game, ChunkUse wanted) const {
  const size_t size = std::max<size_t>(1, game.size());
  const size_t copy_bytes = game.bytes() / size + kCopyOverhead + sizeof(Sampled);
  const double per_use = config_.count > 0 ? static_cast<double>(std::min(config_.count, size))
                                           : std::max(1.0, config_.rate * static_cast<double>(size));
  // What is drawn already comes first: chunks that are pending, the reservoir, batches that are being made.
  const double drawn = static_cast<double>(config_.reservoir + (config_.prefetch_batches + 1) * config_.batch_size) +
                       per_use * static_cast<double>(kPending);
  const double left = static_cast<double>(capacity_) * 0.9 - drawn * static_cast<double>(copy_bytes);
  if (left <= 0) return 1;
  const double share = left / static_cast<double>(std::max<size_t>(1, pool_size_));
  const double fit = share / (per_use * static_cast<double>(copy_bytes));
  Random random((static_cast<uint64_t>(wanted.chunk) << 32 | wanted.use) ^ config_.seed);
  const double all = static_cast<double>(size) / per_use;
  return 1 + static_cast<size_t>(std::min(all, 3 * fit * random.unit()));
}

std::shared_ptr<const Game> GameStore::kept_game(ChunkId chunk) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(chunk);
  return found == entries_.end() ? nullptr : found->second.game;
}

void GameStore::give_up(ChunkId chunk) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(chunk);
  if (found == entries_.end() || !found->second.game) return;
  erase(found);
  ++counts_.evictions;
}

void GameStore::give_up_games() {
  const std::lock_guard lock(mutex_);
  has_given_up_ = true;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->second.game) {
      erase(entry);
      ++counts_.evictions;
    }
    entry = next;
  }
}

Packed GameStore::copy(const Game& game, size_t index) {
  return total() < capacity_ ? Packed(game, index, copied_bytes_) : Packed();
}

GameStore::Counts GameStore::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.bytes = total();
  counts.capacity = capacity_;
  counts.is_tight = is_tight_;
  return counts;
}

}  // namespace ludus::chess::loader
