// One PUCT tree over one game. Values are for the side to move of the node that has them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "board/game.h"
#include "encoding/planes.h"

namespace ludus::chess {

struct SearchOptions {
  // cpuct + cpuct_factor * ln((N + cpuct_base) / cpuct_base)
  double cpuct = 1.745;
  double cpuct_base = 38739;
  double cpuct_factor = 3.894;
  double fpu_reduction = 0.33;  // unvisited: parent's q - reduction * sqrt(prior of the visited)
  double policy_temperature = 1;
  double noise_epsilon = 0;  // of Dirichlet noise at the root
  double noise_alpha = 0.3;
  double virtual_loss = 1;
  int input_format = 1;
  HistoryFill history_fill = HistoryFill::kNo;
  std::uint64_t seed = 0;

  void check() const;  // throws std::invalid_argument
};

// What a network says of one leaf: q = W - L, draw probability, plies left.
struct Evaluation {
  double q = 0, d = 0, m = 0;
};

class Tree {
 public:
  static constexpr int kUnproven = 2;

  struct Edge {
    Move move;
    std::uint16_t index = 0;  // policy index, mover's view, no transform
    float prior = 0;
    std::int32_t child = -1;
  };

  struct Node {
    std::int32_t parent = -1;
    std::int32_t edge_begin = 0;
    std::int32_t edge_count = 0;
    std::int32_t visits = 0;
    std::int32_t in_flight = 0;
    bool is_evaluated = false;
    bool is_terminal = false;
    std::int8_t proven = kUnproven;  // +1, 0, -1 for the side to move
    double q_sum = 0, d_sum = 0, m_sum = 0;
    Evaluation raw;
  };

  enum class Step { kLeaf, kBackedUp, kCollision };

  Tree(Game game, const SearchOptions& options, std::uint64_t stream);

  // Go down once. kLeaf: `leaf` and `input` are set, and the leaf waits for evaluate().
  Step descend(int& leaf, Input& input);
  // `logits` of the network for all 1858 indices, in the leaf's own frame.
  void evaluate(int leaf, int transform, std::span<const float> logits, const Evaluation& evaluation);
  // Make a move and keep its subtree. Nothing may be in flight.
  void push(Move legal);

  const Game& game() const { return game_; }
  const Node& root() const { return nodes_[0]; }
  const Node& node(int index) const { return nodes_[index]; }
  std::span<const Edge> edges(const Node& node) const {
    return {edges_.data() + node.edge_begin, static_cast<std::size_t>(node.edge_count)};
  }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool is_over() const { return root().is_terminal; }
  // From the root, the edge of a proven win, else the most visited one that is no proven loss, while there are visits.
  std::vector<Move> principal_variation() const;

 private:
  int add_node(int parent);
  int select(const Node& node, bool is_root) const;
  double prior_of(const Edge& edge, int position, bool is_root) const;
  void expand(int leaf, int transform, std::span<const float> logits);
  void back_up(int leaf, Evaluation value, bool was_in_flight);
  void prove_upwards(int node);
  int proof_of(const Node& node) const;
  void recount_root();
  void draw_noise();
  double uniform();
  double gamma(double alpha);

  Game game_;
  SearchOptions options_;
  std::uint64_t random_state_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<double> noise_;  // of the root's edges
};

}  // namespace ludus::chess
