#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cmath>

#include "bindings.h"
#include "encoding/game_writer.h"
#include "encoding/records.h"
#include "encoding/validator.h"

namespace py = pybind11;

namespace ludus::chess {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Indices = py::array_t<std::int64_t, py::array::c_style | py::array::forcecast>;
using Flags = py::array_t<bool, py::array::c_style | py::array::forcecast>;
using Policies = std::vector<std::pair<Indices, Floats>>;

std::span<const std::uint8_t> view(const py::bytes& bytes) {
  const std::string_view text = bytes;
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

template <typename Record>
py::bytes to_bytes(const std::vector<Record>& records) {
  return {reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)};
}

void check_rows(const Floats& values, std::size_t count, const char* name) {
  if (values.ndim() != 2 || values.shape(0) != static_cast<py::ssize_t>(count) || values.shape(1) != 3)
    throw std::invalid_argument(std::string(name) + " must have the shape [" + std::to_string(count) + ", 3]: q, d, m");
}

Values row(const Floats& values, std::size_t i) { return {values.at(i, 0), values.at(i, 1), values.at(i, 2)}; }

int result_of(const std::string& text) {
  if (text == "1-0") return 1;
  if (text == "0-1") return -1;
  if (text == "1/2-1/2") return 0;
  throw std::invalid_argument("result \"" + text + "\" is none of 1-0, 0-1, 1/2-1/2");
}

template <typename Array>
void check_count(const std::optional<Array>& values, std::size_t count, const char* name) {
  if (values && (values->ndim() != 1 || values->shape(0) != static_cast<py::ssize_t>(count)))
    throw std::invalid_argument(std::string(name) + " must have the shape [" + std::to_string(count) + "]");
}

py::bytes write_game(const std::string& start_fen, const std::vector<std::string>& moves, const Policies& policies,
                     const std::string& result, const Floats& root, const Floats& best, const Floats& played,
                     const std::optional<Floats>& orig, const std::optional<Indices>& visits,
                     const std::optional<Indices>& best_indices, const std::optional<Floats>& policy_kld,
                     const std::optional<Flags>& best_proven, int input_format, bool adjudicated, bool too_long) {
  const std::size_t count = moves.size();
  if (policies.size() != count)
    throw std::invalid_argument(std::to_string(count) + " moves with " + std::to_string(policies.size()) + " policies");
  check_rows(root, count, "root");
  check_rows(best, count, "best");
  check_rows(played, count, "played");
  if (orig) check_rows(*orig, count, "orig");
  check_count(visits, count, "visits");
  check_count(best_indices, count, "best_indices");
  check_count(policy_kld, count, "policy_kld");
  check_count(best_proven, count, "best_proven");
  std::vector<PlyTargets> plies(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [indices, probabilities] = policies[i];
    if (indices.ndim() != 1 || probabilities.ndim() != 1 || indices.size() != probabilities.size())
      throw std::invalid_argument("ply " + std::to_string(i) + ": a policy is two arrays of one length, indices and probabilities");
    for (py::ssize_t k = 0; k < indices.size(); ++k) {
      const std::int64_t index = indices.at(k);
      plies[i].policy.emplace_back(index < 0 || index >= kPolicySize ? -1 : static_cast<int>(index), probabilities.at(k));
    }
    plies[i].root = row(root, i);
    plies[i].best = row(best, i);
    plies[i].played = row(played, i);
    if (orig) plies[i].orig = row(*orig, i);
    if (visits) plies[i].visits = static_cast<std::uint32_t>(visits->at(i));
    if (best_indices) plies[i].best_index = static_cast<int>(best_indices->at(i));
    if (policy_kld) plies[i].policy_kld = policy_kld->at(i);
    if (best_proven) plies[i].best_is_proven = best_proven->at(i);
  }
  return to_bytes(encode_game(start_fen, moves, plies, {input_format, result_of(result), adjudicated, too_long}));
}

py::object first_problem(const py::bytes& records) {
  std::optional<Problem> problem;
  {
    const auto bytes = view(records);
    const py::gil_scoped_release release;
    try {
      problem = check_game(read_game(bytes));
    } catch (const RecordError& error) {
      problem = Problem{static_cast<int>(error.record), error.reason};
    }
  }
  if (!problem) return py::none();
  return py::make_tuple(problem->record, problem->reason);
}

}  // namespace

void bind_encoding(py::module_& module) {
  module.def("encode_game", &write_game, py::arg("start_fen"), py::arg("moves"), py::arg("policies"), py::arg("result"),
             py::kw_only(), py::arg("root"), py::arg("best"), py::arg("played"), py::arg("orig") = py::none(),
             py::arg("visits") = py::none(), py::arg("best_indices") = py::none(), py::arg("policy_kld") = py::none(),
             py::arg("best_proven") = py::none(), py::arg("input_format") = 1, py::arg("adjudicated") = false, py::arg("too_long") = false);
  module.def("upgrade_records", [](const py::bytes& records) { return to_bytes(read_game(view(records))); }, py::arg("records"));
  module.def("check_records", &first_problem, py::arg("records"));
}

}  // namespace ludus::chess
