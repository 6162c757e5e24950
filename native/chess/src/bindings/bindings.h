#pragma once

#include <pybind11/pybind11.h>

namespace ludus::chess {

void bind_board(pybind11::module_& module);
void bind_encoding(pybind11::module_& module);
void bind_pgn(pybind11::module_& module);
void bind_loader(pybind11::module_& module);
void bind_search(pybind11::module_& module);

}  // namespace ludus::chess
