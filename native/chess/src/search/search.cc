#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "encoding/policy.h"

namespace ludus::chess {

Search::Search(std::vector<Game> games, const SearchOptions& options) : options_(options) {
  options_.check();
  for (Game& game : games) trees_.emplace_back(std::move(game), options_, streams_++);
  waiting_.resize(trees_.size());
}

namespace {

// Visits of one tree in one collect() that end in what is proven and so need no network. A tree whose root is proven would
// take all its visits in one call, which nobody could stop.
constexpr int kMostBackUps = 4096;

}  // namespace

// Whether this tree can still give something.
bool Search::step(int index, int visits, int leaves_per_tree) {
  Tree& tree = trees_[index];
  if (tree.is_over() || waiting_[index] >= leaves_per_tree || tree.root().visits + tree.root().in_flight >= visits) return false;
  Leaf leaf{index, 0};
  Input input;
  switch (tree.descend(leaf.node, input)) {
    case Tree::Step::kCollision: return false;
    case Tree::Step::kBackedUp: return ++backed_up_[index] < kMostBackUps;
    case Tree::Step::kLeaf: break;
  }
  leaves_.push_back(leaf);
  inputs_.push_back(input);
  ++waiting_[index];
  return true;
}

int Search::collect(int max_leaves, int visits, int leaves_per_tree) {
  if (!leaves_.empty()) throw std::invalid_argument("the leaves collected before wait for apply()");
  if (max_leaves < 1 || leaves_per_tree < 1) throw std::invalid_argument("max_leaves and leaves_per_tree must be 1 or more");
  backed_up_.assign(trees_.size(), 0);
  int idle = 0;  // trees in a row that gave nothing
  std::vector<char> blocked(trees_.size(), 0);
  while (idle < size() && pending() < max_leaves) {
    const int index = cursor_;
    cursor_ = (cursor_ + 1) % size();
    if (!blocked[index] && step(index, visits, leaves_per_tree)) {
      idle = 0;
    } else {
      blocked[index] = 1;
      ++idle;
    }
  }
  return pending();
}

void Search::apply(std::span<const float> logits, std::span<const Evaluation> evaluations) {
  if (logits.size() != leaves_.size() * kPolicySize || evaluations.size() != leaves_.size())
    throw std::invalid_argument("apply() needs logits and values of " + std::to_string(leaves_.size()) + " leaves");
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto row = logits.subspan(i * kPolicySize, kPolicySize);
    const Evaluation& e = evaluations[i];
    // A network may mask moves with -inf.
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool bad = std::any_of(row.begin(), row.end(), [](float v) { return std::isnan(v) || v == kInfinity; });
    if (bad || !std::isfinite(e.q) || !std::isfinite(e.d) || !std::isfinite(e.m))
      throw std::invalid_argument("the network's answer for leaf " + std::to_string(i) + " is not finite");
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    trees_[leaves_[i].tree].evaluate(leaves_[i].node, inputs_[i].transform, logits.subspan(i * kPolicySize, kPolicySize), evaluations[i]);
    --waiting_[leaves_[i].tree];
  }
  leaves_.clear();
  inputs_.clear();
}

void Search::push(int tree, Move legal) {
  if (waiting_[tree] > 0) throw std::invalid_argument("the tree's leaves wait for apply()");
  trees_[tree].push(legal);
}

void Search::reset(int tree, Game game) {
  if (waiting_[tree] > 0) throw std::invalid_argument("the tree's leaves wait for apply()");
  trees_[tree] = Tree(std::move(game), options_, streams_++);
}

}  // namespace ludus::chess
