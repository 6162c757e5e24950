#include "bindings.h"

namespace ludus::chess {

void bind_encoding([[maybe_unused]] pybind11::module_& module) {}

}  // namespace ludus::chess
