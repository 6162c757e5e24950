#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "bindings.h"
#include "board/pgn.h"

namespace py = pybind11;

namespace ludus::chess {
namespace {

// Old files are in any encoding; what is not UTF-8 is shown as such.
py::str text(const std::string& bytes) {
  PyObject* decoded = PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

py::dict tags(const PgnGame& game) {
  py::dict out;
  for (const auto& [name, value] : game.tags) out[text(name)] = text(value);
  return out;
}

py::list problems(const PgnGame& game) {
  py::list out;
  for (const std::string& problem : game.problems) out.append(text(problem));
  return out;
}

std::unique_ptr<PgnReader> open_file(const std::string& path) {
  errno = 0;
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!file->is_open()) {
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
    throw py::error_already_set();
  }
  return std::make_unique<PgnReader>(std::move(file));
}

PgnGame next_game(PgnReader& reader) {
  PgnGame game;
  if (!reader.next(game)) throw py::stop_iteration();
  return game;
}

std::vector<PgnGame> read_all(const std::string& pgn) {
  const py::gil_scoped_release release;
  PgnReader reader(std::make_unique<std::istringstream>(pgn));
  std::vector<PgnGame> games;
  for (PgnGame game; reader.next(game);) games.push_back(game);
  return games;
}

}  // namespace

void bind_pgn(py::module_& module) {
  py::class_<PgnGame>(module, "PgnGame")
      .def_readonly("number", &PgnGame::number)
      .def_readonly("line", &PgnGame::line)
      .def_property_readonly("tags", &tags)
      .def_property_readonly("start_fen", [](const PgnGame& game) { return text(game.start_fen); })
      .def_readonly("moves", &PgnGame::moves)
      .def_readonly("result", &PgnGame::result)
      .def_property_readonly("problems", &problems);
  py::class_<PgnReader>(module, "PgnReader")
      .def(py::init(&open_file), py::arg("path"))
      .def("__iter__", [](PgnReader& reader) -> PgnReader& { return reader; }, py::return_value_policy::reference_internal)
      .def("__next__", &next_game);
  module.def("read_pgn", &read_all, py::arg("text"));
}

}  // namespace ludus::chess
