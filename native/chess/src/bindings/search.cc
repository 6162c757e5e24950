#include "search/search.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "bindings.h"
#include "board/notation.h"
#include "encoding/policy.h"

namespace py = pybind11;

namespace ludus::chess {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// Values for the side to move at the root; NaN for what was never visited.
struct RootStats {
  std::vector<std::uint16_t> indices;
  std::vector<std::int32_t> visits;
  std::vector<float> q, d, m, priors;
  std::vector<std::int8_t> proven;  // +1, 0, -1; 2: not proven
  std::int32_t root_visits = 0;
  std::array<float, 3> root{kUnknown, kUnknown, kUnknown}, raw{kUnknown, kUnknown, kUnknown};
  int root_proven = Tree::kUnproven;
};

RootStats root_stats(const Tree& tree) {
  RootStats out;
  const Tree::Node& root = tree.root();
  for (const Tree::Edge& edge : tree.edges(root)) {
    out.indices.push_back(edge.index);
    out.priors.push_back(edge.prior);
    const Tree::Node* child = edge.child >= 0 ? &tree.node(edge.child) : nullptr;
    const int n = child ? child->visits : 0;
    out.visits.push_back(n);
    const int proven = child ? child->proven : Tree::kUnproven;
    out.proven.push_back(static_cast<std::int8_t>(proven == Tree::kUnproven ? proven : -proven));
    if (proven != Tree::kUnproven) {
      out.q.push_back(static_cast<float>(-proven));
      out.d.push_back(proven == 0 ? 1.0F : 0.0F);
    } else {
      out.q.push_back(n > 0 ? static_cast<float>(-child->q_sum / n) : kUnknown);
      out.d.push_back(n > 0 ? static_cast<float>(child->d_sum / n) : kUnknown);
    }
    out.m.push_back(n > 0 ? static_cast<float>(child->m_sum / n + 1) : kUnknown);
  }
  out.root_visits = root.visits;
  out.root_proven = root.proven;
  if (root.visits > 0) {
    out.root = {static_cast<float>(root.q_sum / root.visits), static_cast<float>(root.d_sum / root.visits),
                static_cast<float>(root.m_sum / root.visits)};
    out.raw = {static_cast<float>(root.raw.q), static_cast<float>(root.raw.d), static_cast<float>(root.raw.m)};
  }
  return out;
}

// Most visits; a proven win before all, a proven loss after all; then the higher prior.
int best_position(const RootStats& stats) {
  int best = -1;
  const auto key = [&](int i) {
    const int rank = stats.proven[i] == 1 ? 1 : stats.proven[i] == -1 ? -1 : 0;
    return std::tuple(rank, stats.visits[i], stats.priors[i]);
  };
  for (int i = 0; i < static_cast<int>(stats.indices.size()); ++i) {
    if (best < 0 || key(i) > key(best)) best = i;
  }
  if (best < 0) throw std::invalid_argument("the tree has no moves yet");
  return best;
}

template <typename T>
py::array_t<T> array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

int checked(const Search& search, int tree) {
  if (tree < 0 || tree >= search.size()) throw py::index_error("tree " + std::to_string(tree) + " of " + std::to_string(search.size()));
  return tree;
}

const Position& position_of_tree(const Search& search, int tree) { return search.tree(checked(search, tree)).game().position(); }

// The interpreter's lock is held throughout: two threads cannot change one search at the same time.
py::array_t<float> collect(Search& search, int max_leaves, int visits, int leaves_per_tree) {
  const int count = search.collect(max_leaves, visits, leaves_per_tree);
  py::array_t<float> planes({count, kPlanes, 8, 8});
  float* out = planes.mutable_data();
  for (int i = 0; i < count; ++i) write_planes(search.inputs()[i], out + static_cast<std::size_t>(i) * kPlanes * 64);
  return planes;
}

// [N] q, [N, 2] q and d, or [N, 3] win, draw and loss.
std::vector<Evaluation> evaluations(const Floats& values, const std::optional<Floats>& moves_left, int count) {
  const bool is_table = values.ndim() == 2 && (values.shape(1) == 2 || values.shape(1) == 3);
  if ((values.ndim() != 1 && !is_table) || values.shape(0) != count)
    throw std::invalid_argument("values must have the shape [N], [N, 2] or [N, 3] with N = " + std::to_string(count));
  if (moves_left && moves_left->size() != count)
    throw std::invalid_argument("moves_left must have the shape [" + std::to_string(count) + "]");
  std::vector<Evaluation> out(count);
  for (int i = 0; i < count; ++i) {
    if (values.ndim() == 1) {
      out[i].q = values.at(i);
    } else if (values.shape(1) == 2) {
      out[i] = {values.at(i, 0), values.at(i, 1), 0};
    } else {
      out[i] = {static_cast<double>(values.at(i, 0)) - values.at(i, 2), values.at(i, 1), 0};
    }
    if (moves_left) out[i].m = moves_left->data()[i];
  }
  return out;
}

void apply(Search& search, const Floats& logits, const Floats& values, const std::optional<Floats>& moves_left) {
  const int count = search.pending();
  if (logits.ndim() != 2 || logits.shape(0) != count || logits.shape(1) != kPolicySize)
    throw std::invalid_argument("logits must have the shape [" + std::to_string(count) + ", 1858]");
  const auto found = evaluations(values, moves_left, count);
  const std::span<const float> flat(logits.data(), static_cast<std::size_t>(logits.size()));
  search.apply(flat, found);
}

std::vector<std::string> principal_variation(const Search& search, int tree) {
  Position position = position_of_tree(search, tree);
  std::vector<std::string> out;
  for (const Move move : search.tree(tree).principal_variation()) {
    out.push_back(to_uci(position, move));
    position.apply(move);
  }
  return out;
}

}  // namespace

void bind_search(py::module_& module) {
  py::class_<RootStats>(module, "RootStats")
      .def_property_readonly("indices", [](const RootStats& s) { return array(s.indices); })
      .def_property_readonly("visits", [](const RootStats& s) { return array(s.visits); })
      .def_property_readonly("q", [](const RootStats& s) { return array(s.q); })
      .def_property_readonly("d", [](const RootStats& s) { return array(s.d); })
      .def_property_readonly("m", [](const RootStats& s) { return array(s.m); })
      .def_property_readonly("priors", [](const RootStats& s) { return array(s.priors); })
      .def_property_readonly("proven", [](const RootStats& s) { return array(s.proven); })
      .def_property_readonly("best", &best_position)
      .def_readonly("root_visits", &RootStats::root_visits)
      .def_readonly("root_proven", &RootStats::root_proven)
      .def_property_readonly("root", [](const RootStats& s) { return py::make_tuple(s.root[0], s.root[1], s.root[2]); })
      .def_property_readonly("raw", [](const RootStats& s) { return py::make_tuple(s.raw[0], s.raw[1], s.raw[2]); });
  const SearchOptions defaults;
  py::class_<Search>(module, "Search")
      .def(py::init([](std::vector<Game> boards, double cpuct, double cpuct_base, double cpuct_factor, double fpu_reduction,
                       double policy_temperature, double noise_epsilon, double noise_alpha, double virtual_loss, int input_format,
                       const std::string& history_fill, std::uint64_t seed) {
             return std::make_unique<Search>(std::move(boards), SearchOptions{cpuct, cpuct_base, cpuct_factor, fpu_reduction, policy_temperature,
                                                                              noise_epsilon, noise_alpha, virtual_loss, input_format,
                                                                              parse_history_fill(history_fill), seed});
           }),
           py::arg("boards"), py::kw_only(), py::arg("cpuct") = defaults.cpuct, py::arg("cpuct_base") = defaults.cpuct_base,
           py::arg("cpuct_factor") = defaults.cpuct_factor, py::arg("fpu_reduction") = defaults.fpu_reduction,
           py::arg("policy_temperature") = defaults.policy_temperature, py::arg("noise_epsilon") = defaults.noise_epsilon,
           py::arg("noise_alpha") = defaults.noise_alpha, py::arg("virtual_loss") = defaults.virtual_loss,
           py::arg("input_format") = defaults.input_format, py::arg("history_fill") = "no", py::arg("seed") = defaults.seed)
      .def("__len__", &Search::size)
      .def_property_readonly("pending", &Search::pending)
      .def("collect", &collect, py::arg("max_leaves"), py::kw_only(), py::arg("visits"), py::arg("leaves_per_tree") = 16)
      .def("apply", &apply, py::arg("logits"), py::arg("values"), py::arg("moves_left") = py::none())
      .def("root", [](const Search& s, int tree) { return root_stats(s.tree(checked(s, tree))); }, py::arg("tree"))
      .def("board", [](const Search& s, int tree) { return s.tree(checked(s, tree)).game(); }, py::arg("tree"))
      .def("is_over", [](const Search& s, int tree) { return s.tree(checked(s, tree)).is_over(); }, py::arg("tree"))
      .def("nodes", [](const Search& s, int tree) { return s.tree(checked(s, tree)).size(); }, py::arg("tree"))
      .def("push",
           [](Search& s, int tree, const std::string& uci) { s.push(tree, parse_uci(position_of_tree(s, tree), uci)); },
           py::arg("tree"), py::arg("uci"))
      .def("push_index", [](Search& s, int tree, int index) { s.push(tree, move_of_index(position_of_tree(s, tree), index)); },
           py::arg("tree"), py::arg("index"))
      .def("reset", [](Search& s, int tree, const Game& board) { s.reset(checked(s, tree), board); }, py::arg("tree"), py::arg("board"))
      .def("principal_variation", &principal_variation, py::arg("tree"));
}

}  // namespace ludus::chess
