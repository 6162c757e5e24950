// A vector that can say what it was at a mark in the past: batches are made ahead, and a checkpoint wants the state
// behind the batch that was trained on last. Costs one entry a change, until the past is forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace ludus::chess::loader {

template <typename T>
class Journaled {
 public:
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const T& operator[](size_t index) const { return items_[index]; }

  void set(size_t index, T value) {
    changes_.push_back({Kind::kSet, static_cast<uint32_t>(index), std::exchange(items_[index], value)});
  }

  void push(T value) {
    changes_.push_back({Kind::kPush, 0, T{}});
    items_.push_back(value);
  }

  T pop() {
    T value = items_.back();
    changes_.push_back({Kind::kPop, 0, value});
    items_.pop_back();
    return value;
  }

  uint64_t mark() const { return forgotten_ + changes_.size(); }

  std::vector<T> at(uint64_t mark) const {
    std::vector<T> past = items_;
    for (uint64_t change = this->mark(); change-- > mark;) {
      const Change& last = changes_[change - forgotten_];
      if (last.kind == Kind::kSet) past[last.index] = last.old;
      if (last.kind == Kind::kPush) past.pop_back();
      if (last.kind == Kind::kPop) past.push_back(last.old);
    }
    return past;
  }

  void forget_before(uint64_t mark) {
    while (forgotten_ < mark) {
      changes_.pop_front();
      ++forgotten_;
    }
  }

  void restore(std::vector<T> items) {
    items_ = std::move(items);
    forgotten_ += changes_.size();
    changes_.clear();
  }

 private:
  enum class Kind : uint8_t { kSet, kPush, kPop };
  struct Change {
    Kind kind;
    uint32_t index;
    T old;
  };

  std::vector<T> items_;
  std::deque<Change> changes_;
  uint64_t forgotten_ = 0;
};

}  // namespace ludus::chess::loader
