// Many trees at once, one network: collect leaves of all of them, evaluate the batch, apply what the network says.
#pragma once

#include <span>
#include <vector>

#include "search/tree.h"

namespace ludus::chess {

class Search {
 public:
  Search(std::vector<Game> games, const SearchOptions& options);

  // Go down the trees in turns until `max_leaves` wait for the network, or no tree has a leaf to give: each has `visits`
  // visits, its game is over, its next leaf waits already, or some thousand visits met only what is proven. `leaves_per_tree` bounds how far virtual loss bends a tree.
  int collect(int max_leaves, int visits, int leaves_per_tree);
  const std::vector<Input>& inputs() const { return inputs_; }
  // `logits` [N][1858] and one evaluation a leaf, in the order of inputs(). Throws std::invalid_argument, changing nothing,
  // where a number is not finite.
  void apply(std::span<const float> logits, std::span<const Evaluation> evaluations);

  int size() const { return static_cast<int>(trees_.size()); }
  int pending() const { return static_cast<int>(leaves_.size()); }
  const Tree& tree(int index) const { return trees_[index]; }
  void push(int tree, Move legal);
  void reset(int tree, Game game);

 private:
  struct Leaf {
    int tree = 0;
    int node = 0;
  };

  bool step(int tree, int visits, int leaves_per_tree);

  SearchOptions options_;
  std::vector<Tree> trees_;
  std::vector<Leaf> leaves_;
  std::vector<Input> inputs_;
  std::vector<int> waiting_;    // leaves in flight of each tree
  std::vector<int> backed_up_;  // visits of each tree in this collect() that needed no network
  int cursor_ = 0;
  std::uint64_t streams_ = 0;
};

}  // namespace ludus::chess
