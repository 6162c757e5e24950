#include "loader/game_cache.h"

namespace ludus::chess::loader {

std::shared_ptr<const Game> GameCache::get(ChunkId chunk, Decoder& decoder) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto entry = entries_.find(chunk);
    if (entry != entries_.end()) {
      ++counts_.hits;
      order_.splice(order_.begin(), order_, entry->second.place);
      return entry->second.game;
    }
    if (refused_.contains(chunk)) return nullptr;
    if (in_progress_.insert(chunk).second) break;
    decoded_.wait(lock);  // Whoever decodes it waits for nobody.
  }
  return decode(chunk, decoder, lock);
}

void GameCache::prefetch(ChunkId chunk, Decoder& decoder) {
  std::unique_lock lock(mutex_);
  if (entries_.contains(chunk) || refused_.contains(chunk) || !in_progress_.insert(chunk).second) return;
  decode(chunk, decoder, lock);
}

std::shared_ptr<const Game> GameCache::decode(ChunkId chunk, Decoder& decoder, std::unique_lock<std::mutex>& lock) {
  ++counts_.misses;
  lock.unlock();
  std::shared_ptr<const Game> game = decode_(chunk, decoder);
  lock.lock();
  in_progress_.erase(chunk);
  if (game) {
    keep(chunk, game);
  } else {
    refused_.insert(chunk);
  }
  decoded_.notify_all();
  return game;
}

bool GameCache::contains(ChunkId chunk) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(chunk) || refused_.contains(chunk);
}

void GameCache::keep(ChunkId chunk, const std::shared_ptr<const Game>& game) {
  order_.push_front(chunk);
  entries_[chunk] = {.game = game, .place = order_.begin()};
  counts_.bytes += game->bytes();
  counts_.positions += game->size();
  while (counts_.bytes > capacity_ && order_.size() > 1) {
    const auto oldest = entries_.find(order_.back());
    counts_.bytes -= oldest->second.game->bytes();
    counts_.positions -= oldest->second.game->size();
    ++counts_.evictions;
    entries_.erase(oldest);
    order_.pop_back();
  }
}

GameCache::Counts GameCache::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.games = entries_.size();
  counts.capacity = capacity_;
  return counts;
}

}  // namespace ludus::chess::loader
