#include "loader/chunk_pool/chunk_pool.h"

#include <algorithm>
#include <mutex>

namespace ludus::chess::loader {

void ChunkPool::number(std::shared_ptr<const ChunkSource> source) {
  const std::unique_lock lock(table_);
  first_.push_back(static_cast<ChunkId>(first_.empty() ? 0 : first_.back() + sources_.back()->chunk_count()));
  sources_.push_back(std::move(source));
  alive_in_.push_back(0);
}

void ChunkPool::admit(std::shared_ptr<const ChunkSource> source) {
  number(source);
  const size_t index = sources_.size() - 1;
  for (size_t i = 0; i < source->chunk_count(); ++i) {
    const auto chunk = static_cast<ChunkId>(first_[index] + i);
    const bool is_ours = split_.takes(chunk_key(*source, i));
    alive_.push(is_ours ? 1 : 0);
    uses_.push(0);
    contents_.push(0);
    if (!is_ours) continue;
    remaining_.push(chunk);
    ++alive_in_[index];
    ++alive_count_;
    ++admitted_;
  }
  if (alive_in_[index] > 0) order_[{source->key, source->path}] = index;
  while (alive_count_ > capacity_) evict_oldest();
}

void ChunkPool::evict_oldest() {
  const size_t index = order_.begin()->second;
  ChunkId chunk = first_[index];
  while (!is_alive(chunk)) ++chunk;  // There is one: sources without any are not in the order.
  leave(chunk);
}

void ChunkPool::leave(ChunkId chunk) {
  if (!is_alive(chunk)) return;
  alive_.set(chunk, 0);
  --alive_count_;
  const auto next = std::upper_bound(first_.begin(), first_.end(), chunk);
  const auto index = static_cast<size_t>(next - first_.begin()) - 1;
  if (--alive_in_[index] == 0) order_.erase({sources_[index]->key, sources_[index]->path});
  const auto known = by_content_.find(contents_[chunk]);
  if (known != by_content_.end() && known->second == chunk) by_content_.erase(known);
}

void ChunkPool::drop(ChunkId chunk) { leave(chunk); }

std::optional<ChunkUse> ChunkPool::draw(Random& random) {
  while (alive_count_ > 0) {
    if (remaining_.empty()) {
      ++passes_;
      for (const auto& [name, index] : order_) {
        const size_t end = first_[index] + sources_[index]->chunk_count();
        for (size_t chunk = first_[index]; chunk < end; ++chunk) {
          if (is_alive(static_cast<ChunkId>(chunk))) remaining_.push(static_cast<ChunkId>(chunk));
        }
      }
    }
    const size_t place = random.below(static_cast<uint32_t>(remaining_.size()));
    const ChunkId chunk = remaining_[place];
    const ChunkId last = remaining_.pop();
    if (place < remaining_.size()) remaining_.set(place, last);
    if (!is_alive(chunk)) continue;
    const uint32_t use = uses_[chunk];
    uses_.set(chunk, use + 1);
    return ChunkUse{.chunk = chunk, .use = use};
  }
  return std::nullopt;
}

bool ChunkPool::note_content(ChunkId chunk, uint64_t content) {
  if (contents_[chunk] == content) return true;
  const auto [known, is_new] = by_content_.try_emplace(content, chunk);
  if (!is_new && known->second != chunk) return false;
  contents_.set(chunk, content);
  return true;
}

std::pair<std::shared_ptr<const ChunkSource>, size_t> ChunkPool::locate(ChunkId chunk) const {
  const std::shared_lock lock(table_);
  const auto next = std::upper_bound(first_.begin(), first_.end(), chunk);
  const auto index = static_cast<size_t>(next - first_.begin()) - 1;
  return {sources_[index], chunk - first_[index]};
}

ChunkPool::Marks ChunkPool::marks() const {
  return {.alive = alive_.mark(),
          .uses = uses_.mark(),
          .contents = contents_.mark(),
          .remaining = remaining_.mark(),
          .sources = sources_.size()};
}

void ChunkPool::forget_before(const Marks& marks) {
  alive_.forget_before(marks.alive);
  uses_.forget_before(marks.uses);
  contents_.forget_before(marks.contents);
  remaining_.forget_before(marks.remaining);
}

ChunkPool::Saved ChunkPool::saved_at(const Marks& marks) const {
  return {.alive = alive_.at(marks.alive),
          .uses = uses_.at(marks.uses),
          .contents = contents_.at(marks.contents),
          .remaining = remaining_.at(marks.remaining)};
}

void ChunkPool::restore(std::vector<std::shared_ptr<const ChunkSource>> sources, Saved saved) {
  for (auto& source : sources) number(std::move(source));
  alive_.restore(std::move(saved.alive));
  uses_.restore(std::move(saved.uses));
  contents_.restore(std::move(saved.contents));
  remaining_.restore(std::move(saved.remaining));
  for (size_t index = 0; index < sources_.size(); ++index) {
    for (size_t i = 0; i < sources_[index]->chunk_count(); ++i) {
      const auto chunk = static_cast<ChunkId>(first_[index] + i);
      if (!is_alive(chunk)) continue;
      ++alive_in_[index];
      if (contents_[chunk] != 0) by_content_[contents_[chunk]] = chunk;
    }
    if (alive_in_[index] > 0) order_[{sources_[index]->key, sources_[index]->path}] = index;
    alive_count_ += alive_in_[index];
  }
}

}  // namespace ludus::chess::loader
