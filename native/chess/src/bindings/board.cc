#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bindings.h"
#include "board/game.h"
#include "board/notation.h"
#include "encoding/planes.h"
#include "encoding/policy.h"

namespace py = pybind11;

namespace ludus::chess {
namespace {

Game start_game(const std::string& fen) { return Game(Position::from_fen(fen)); }

std::vector<std::string> legal_moves(const Game& game) {
  std::vector<std::string> out;
  for (const Move move : game.position().legal_moves()) out.push_back(to_uci(game.position(), move));
  return out;
}

py::array_t<std::uint16_t> legal_indices(const Game& game) {
  const MoveList moves = game.position().legal_moves();
  py::array_t<std::uint16_t> out(moves.size());
  std::uint16_t* data = out.mutable_data();
  for (const Move move : moves) *data++ = static_cast<std::uint16_t>(policy_index(game.position(), move));
  std::sort(out.mutable_data(), out.mutable_data() + moves.size());
  return out;
}

py::object outcome(const Game& game) {
  const auto found = game.outcome();
  if (!found) return py::none();
  return py::make_tuple(result_name(found->white), ending_name(found->ending));
}

using Floats = py::array_t<float, py::array::c_style>;

Floats encode(const Game& game, const py::object& out, int input_format, const std::string& history_fill) {
  const Input input = encode_input(game, input_format, parse_history_fill(history_fill));
  Floats planes;
  if (out.is_none()) {
    planes = Floats({kPlanes, 8, 8});
  } else {
    if (!py::isinstance<Floats>(out)) throw std::invalid_argument("out must be a C-contiguous float32 array");
    planes = py::reinterpret_borrow<Floats>(out);
    if (planes.ndim() != 3 || planes.shape(0) != kPlanes || planes.shape(1) != 8 || planes.shape(2) != 8)
      throw std::invalid_argument("out must have the shape [112, 8, 8]");
  }
  write_planes(input, planes.mutable_data());
  return planes;
}

std::uint64_t count_leaves(const std::string& fen, int depth) {
  if (depth < 0) throw std::invalid_argument("depth must not be negative");
  const Position position = Position::from_fen(fen);
  const py::gil_scoped_release release;
  return perft(position, depth);
}

}  // namespace

void bind_board(py::module_& module) {
  module.attr("START_FEN") = kStartFen;
  py::class_<Game>(module, "Board")
      .def(py::init(&start_game), py::arg("fen") = kStartFen)
      .def_property_readonly("white_to_move", [](const Game& g) { return g.position().to_move == kWhite; })
      .def_property_readonly("ply", [](const Game& g) { return g.position().ply; })
      .def_property_readonly("halfmove_clock", [](const Game& g) { return g.position().rule50; })
      .def_property_readonly("repetitions", &Game::repetitions)
      .def_property_readonly("chess960", [](const Game& g) { return g.position().chess960; })
      .def("fen", [](const Game& g) { return g.position().fen(); })
      .def("copy", [](const Game& g) { return g; })
      .def("__copy__", [](const Game& g) { return g; })
      .def("__deepcopy__", [](const Game& g, const py::object&) { return g; }, py::arg("memo"))
      .def("is_check", [](const Game& g) { return g.position().is_check(); })
      .def("legal_moves", &legal_moves)
      .def("legal_indices", &legal_indices)
      .def("push", [](Game& g, const std::string& uci) { g.push(parse_uci(g.position(), uci)); }, py::arg("uci"))
      .def("push_index", [](Game& g, int index) { g.push(move_of_index(g.position(), index)); }, py::arg("index"))
      .def("index_of", [](const Game& g, const std::string& uci) { return policy_index(g.position(), parse_uci(g.position(), uci)); },
           py::arg("uci"))
      .def("move_of", [](const Game& g, int index) { return to_uci(g.position(), move_of_index(g.position(), index)); },
           py::arg("index"))
      .def("san", [](const Game& g, const std::string& uci) { return to_san(g.position(), parse_uci(g.position(), uci)); },
           py::arg("uci"))
      .def("parse_san", [](const Game& g, const std::string& text) { return to_uci(g.position(), parse_san(g.position(), text)); },
           py::arg("text"))
      .def("outcome", &outcome)
      .def("encode", &encode, py::arg("out") = py::none(), py::arg("input_format") = 1,
           py::arg("history_fill") = "no")
      .def("__repr__", [](const Game& g) { return "Board(\"" + g.position().fen() + "\")"; });
  module.def("perft", &count_leaves, py::arg("fen"), py::arg("depth"));
  module.def("policy_moves", [] { return policy_moves(); });
}

}  // namespace ludus::chess
