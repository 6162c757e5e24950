// What Python sees: one function a folder.
#include <pybind11/pybind11.h>

#include "bindings.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "Chess in C++: board, encodings, chunk loader, search.";
  ludus::chess::bind_board(module);
  ludus::chess::bind_pgn(module);
  ludus::chess::bind_encoding(module);
  ludus::chess::bind_loader(module);
  ludus::chess::bind_search(module);
}
