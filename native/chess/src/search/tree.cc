#include "search/tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "encoding/policy.h"

namespace ludus::chess {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

void require(bool good, const char* what) {
  if (!good) throw std::invalid_argument(what);
}

}  // namespace

void SearchOptions::check() const {
  require(std::isfinite(cpuct) && cpuct >= 0, "cpuct must be 0 or more");
  require(std::isfinite(cpuct_base) && cpuct_base > 0, "cpuct_base must be more than 0");
  require(std::isfinite(cpuct_factor) && cpuct_factor >= 0, "cpuct_factor must be 0 or more");
  require(std::isfinite(fpu_reduction), "fpu_reduction must be finite");
  require(std::isfinite(policy_temperature) && policy_temperature > 0, "policy_temperature must be more than 0");
  require(noise_epsilon >= 0 && noise_epsilon <= 1, "noise_epsilon must be from 0 to 1");
  require(std::isfinite(noise_alpha) && noise_alpha > 0, "noise_alpha must be more than 0");
  require(std::isfinite(virtual_loss) && virtual_loss >= 0, "virtual_loss must be 0 or more");
  require(is_known_format(input_format), "input_format is none of 1 to 5, 132, 133");
}

Tree::Tree(Game game, const SearchOptions& options, std::uint64_t stream)
    : game_(std::move(game)), options_(options), random_state_(mix(options.seed + 0x9E3779B97F4A7C15ULL * (stream + 1))) {
  add_node(-1);
  nodes_[0].is_terminal = game_.outcome().has_value();
}

int Tree::add_node(int parent) {
  Node node;
  node.parent = parent;
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

double Tree::prior_of(const Edge& edge, int position, bool is_root) const {
  if (!is_root || noise_.empty()) return edge.prior;
  return (1 - options_.noise_epsilon) * edge.prior + options_.noise_epsilon * noise_[position];
}

// The position among the node's edges with the highest Q + U; the first of equals.
int Tree::select(const Node& node, bool is_root) const {
  const auto all = edges(node);
  double visited_prior = 0;
  int total = 0;
  bool all_lose = true;
  for (int i = 0; i < node.edge_count; ++i) {
    const Node* child = all[i].child >= 0 ? &nodes_[all[i].child] : nullptr;
    const int n = child ? child->visits + child->in_flight : 0;
    if (n > 0) visited_prior += prior_of(all[i], i, is_root);
    total += n;
    all_lose &= child != nullptr && child->proven == 1;
  }
  const double parent_q = node.visits > 0 ? node.q_sum / node.visits : 0;
  const double fpu = parent_q - options_.fpu_reduction * std::sqrt(visited_prior);
  const double c = options_.cpuct + options_.cpuct_factor * std::log((total + options_.cpuct_base) / options_.cpuct_base);
  const double exploration = c * std::sqrt(static_cast<double>(std::max(total, 1)));
  int best = -1;
  double best_score = 0;
  for (int i = 0; i < node.edge_count; ++i) {
    const Node* child = all[i].child >= 0 ? &nodes_[all[i].child] : nullptr;
    if (child != nullptr && child->proven == 1 && !all_lose) continue;  // the opponent wins after it
    const int n = child ? child->visits + child->in_flight : 0;
    double q = fpu;
    if (child != nullptr && child->proven != kUnproven) {
      q = -child->proven;
    } else if (n > 0) {
      q = (-child->q_sum - options_.virtual_loss * child->in_flight) / n;
    }
    const double score = q + exploration * prior_of(all[i], i, is_root) / (1 + n);
    if (best < 0 || score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

Tree::Step Tree::descend(int& leaf, Input& input) {
  if (is_over()) return Step::kCollision;
  const int game_size = game_.size();
  const auto rewind = [&] {
    while (game_.size() > game_size) game_.pop();
  };
  int at = 0;
  while (true) {
    const Node& node = nodes_[at];
    if (at != 0 && node.proven != kUnproven) {
      const double m = node.visits > 0 ? node.m_sum / node.visits : 0.0;
      const Evaluation known{static_cast<double>(node.proven), node.proven == 0 ? 1.0 : 0.0, m};
      rewind();
      back_up(at, known, false);
      return Step::kBackedUp;
    }
    if (!node.is_evaluated) {
      if (node.in_flight > 0) {
        rewind();
        return Step::kCollision;
      }
      input = encode_input(game_, options_.input_format, options_.history_fill);
      rewind();
      for (int i = at; i >= 0; i = nodes_[i].parent) ++nodes_[i].in_flight;
      leaf = at;
      return Step::kLeaf;
    }
    const int edge = node.edge_begin + select(node, at == 0);
    game_.push(edges_[edge].move);
    if (edges_[edge].child < 0) {
      const int child = add_node(at);
      edges_[edge].child = child;
      if (const auto outcome = game_.outcome()) {
        nodes_[child].is_terminal = true;
        nodes_[child].proven = static_cast<std::int8_t>(outcome->white == 0 ? 0 : -1);  // a mated side is to move
        prove_upwards(at);
      }
    }
    at = edges_[edge].child;
  }
}

void Tree::evaluate(int leaf, int transform, std::span<const float> logits, const Evaluation& evaluation) {
  // The leaf's position again: moves from the root.
  std::vector<Move> path;
  for (int at = leaf; nodes_[at].parent >= 0; at = nodes_[at].parent)
    for (const Edge& edge : edges(nodes_[nodes_[at].parent]))
      if (edge.child == at) path.push_back(edge.move);
  for (auto move = path.rbegin(); move != path.rend(); ++move) game_.push(*move);
  expand(leaf, transform, logits);
  for (std::size_t i = 0; i < path.size(); ++i) game_.pop();
  nodes_[leaf].raw = evaluation;
  nodes_[leaf].is_evaluated = true;
  if (leaf == 0) draw_noise();
  back_up(leaf, evaluation, true);
}

void Tree::expand(int leaf, int transform, std::span<const float> logits) {
  const Position& position = game_.position();
  std::vector<std::pair<Edge, double>> found;
  double highest = -std::numeric_limits<double>::infinity();
  for (const Move move : position.legal_moves()) {
    const double logit = logits[policy_index(position, move, transform)] / options_.policy_temperature;
    found.emplace_back(Edge{move, static_cast<std::uint16_t>(policy_index(position, move)), 0, -1}, logit);
    highest = std::max(highest, logit);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first.index < b.first.index; });
  if (std::isinf(highest)) {  // every legal move is masked: all alike
    highest = 0;
    for (auto& [edge, logit] : found) logit = 0;
  }
  double sum = 0;
  for (auto& [edge, logit] : found) sum += logit = std::exp(logit - highest);
  nodes_[leaf].edge_begin = static_cast<std::int32_t>(edges_.size());
  nodes_[leaf].edge_count = static_cast<std::int32_t>(found.size());
  for (auto& [edge, weight] : found) {
    edge.prior = static_cast<float>(weight / sum);
    edges_.push_back(edge);
  }
}

void Tree::back_up(int leaf, Evaluation value, bool was_in_flight) {
  for (int at = leaf; at >= 0; at = nodes_[at].parent) {
    Node& node = nodes_[at];
    ++node.visits;
    if (was_in_flight) --node.in_flight;
    node.q_sum += value.q;
    node.d_sum += value.d;
    node.m_sum += value.m;
    value.q = -value.q;
    value.m += 1;
  }
}

int Tree::proof_of(const Node& node) const {
  int best = -1;
  bool all_known = true;
  for (const Edge& edge : edges(node)) {
    const int proven = edge.child >= 0 ? nodes_[edge.child].proven : kUnproven;
    if (proven == -1) return 1;
    if (proven == kUnproven) all_known = false;
    if (proven == 0) best = 0;
  }
  return all_known ? best : kUnproven;
}

void Tree::prove_upwards(int at) {
  for (; at >= 0 && nodes_[at].proven == kUnproven; at = nodes_[at].parent) {
    const int proof = proof_of(nodes_[at]);
    if (proof == kUnproven) return;
    nodes_[at].proven = static_cast<std::int8_t>(proof);
  }
}

void Tree::push(Move legal) {
  int next = -1;
  for (const Edge& edge : edges(root()))
    if (edge.move == legal) next = edge.child;
  game_.push(legal);
  noise_.clear();
  std::vector<Node> nodes;
  std::vector<Edge> kept_edges;
  if (next < 0) {
    nodes.emplace_back();
  } else {
    nodes.push_back(nodes_[next]);
    nodes[0].parent = -1;
    for (std::size_t at = 0; at < nodes.size(); ++at) {  // breadth first: `nodes` grows while it is walked
      const auto old = edges(nodes[at]);
      const auto begin = static_cast<std::int32_t>(kept_edges.size());
      for (Edge edge : old) {
        if (edge.child >= 0) {
          nodes.push_back(nodes_[edge.child]);
          nodes.back().parent = static_cast<std::int32_t>(at);
          edge.child = static_cast<std::int32_t>(nodes.size()) - 1;
        }
        kept_edges.push_back(edge);
      }
      nodes[at].edge_begin = begin;
    }
  }
  nodes_ = std::move(nodes);
  edges_ = std::move(kept_edges);
  nodes_[0].is_terminal = game_.outcome().has_value();
  if (!nodes_[0].is_evaluated) return;
  recount_root();
  draw_noise();
}

// A proven node takes visits that never reach its children; as a root it has only those that did.
void Tree::recount_root() {
  Node& root = nodes_[0];
  root.visits = 1;
  root.q_sum = root.raw.q;
  root.d_sum = root.raw.d;
  root.m_sum = root.raw.m;
  for (const Edge& edge : edges(root)) {
    if (edge.child < 0) continue;
    const Node& child = nodes_[edge.child];
    root.visits += child.visits;
    root.q_sum -= child.q_sum;
    root.d_sum += child.d_sum;
    root.m_sum += child.m_sum + child.visits;
  }
}

std::vector<Move> Tree::principal_variation() const {
  std::vector<Move> line;
  for (int at = 0; at >= 0;) {
    const Edge* best = nullptr;
    std::pair<int, int> best_rank;
    for (const Edge& edge : edges(nodes_[at])) {
      if (edge.child < 0 || nodes_[edge.child].visits == 0) continue;
      const Node& child = nodes_[edge.child];
      const std::pair<int, int> rank(child.proven == kUnproven ? 0 : -child.proven, child.visits);
      if (best != nullptr && rank <= best_rank) continue;
      best = &edge;
      best_rank = rank;
    }
    if (best == nullptr) break;
    line.push_back(best->move);
    at = best->child;
  }
  return line;
}

double Tree::uniform() {
  random_state_ += 0x9E3779B97F4A7C15ULL;
  return (static_cast<double>(mix(random_state_) >> 11) + 0.5) / 9007199254740992.0;
}

// Marsaglia and Tsang; written out, so that a seed gives the same noise with every standard library.
double Tree::gamma(double alpha) {
  const double boost = alpha < 1 ? std::pow(uniform(), 1 / alpha) : 1;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
    const double v = std::pow(1 + c * normal, 3);
    if (v > 0 && std::log(uniform()) < 0.5 * normal * normal + d - d * v + d * std::log(v)) return boost * d * v;
  }
}

void Tree::draw_noise() {
  noise_.clear();
  if (options_.noise_epsilon <= 0) return;
  double sum = 0;
  for (int i = 0; i < root().edge_count; ++i) {
    noise_.push_back(gamma(options_.noise_alpha));
    sum += noise_.back();
  }
  if (sum <= 0) return noise_.clear();
  for (double& value : noise_) value /= sum;
}

}  // namespace ludus::chess
