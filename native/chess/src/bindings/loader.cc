// The loader as Python sees it. Tensors are NumPy arrays over the batch's own memory, which they keep alive.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>

#include "bindings.h"
#include "loader/loader.h"
#include "loader/tensors/tensors.h"

namespace ludus::chess {
namespace {

namespace py = pybind11;
using loader::Batch;
using loader::Loader;
using loader::LoaderConfig;

template <typename T>
void read(const py::dict& options, const char* name, T& into) {
  try {
    into = py::cast<T>(options[name]);
  } catch (const py::cast_error&) {
    throw py::value_error(std::string(name) + ": " + py::str(options[name]).cast<std::string>() +
                          " is out of range or of the wrong type");
  }
}

LoaderConfig config_of(const py::dict& options) {  // Every field is there: Python's dataclass has them all.
  LoaderConfig config;
  read(options, "directory", config.directory);
  read(options, "seed", config.seed);
  read(options, "threads", config.threads);
  read(options, "batch_size", config.batch_size);
  read(options, "prefetch_batches", config.prefetch_batches);
  read(options, "pool_chunks", config.pool_chunks);
  read(options, "min_chunks", config.min_chunks);
  read(options, "reservoir", config.reservoir);
  read(options, "memory_mb", config.memory_mb);
  read(options, "rate", config.rate);
  read(options, "count", config.count);
  read(options, "split", config.split);
  read(options, "part", config.part);
  read(options, "input_format", config.input_format);
  read(options, "theta", config.theta);
  read(options, "check_moves", config.check_moves);
  read(options, "max_positions", config.max_positions);
  read(options, "max_ratio", config.max_ratio);
  read(options, "max_members", config.max_members);
  read(options, "admit_at_anchor", config.admit_at_anchor);
  read(options, "anchor", config.anchor);
  read(options, "rescan_s", config.rescan_s);
  read(options, "settle_s", config.settle_s);
  const auto focus = py::cast<py::dict>(options["focus"]);
  read(focus, "q_weight", config.focus.q_weight);
  read(focus, "pol_scale", config.focus.pol_scale);
  read(focus, "alpha", config.focus.alpha);
  read(focus, "beta", config.focus.beta);
  read(focus, "gamma", config.focus.gamma);
  read(focus, "tau", config.focus.tau);
  read(focus, "default_weight", config.focus.default_weight);
  return config;
}

py::tuple tensors_of(const std::shared_ptr<Batch>& batch) {
  const auto owner = [&batch] {
    auto kept = std::make_unique<std::shared_ptr<Batch>>(batch);
    return py::capsule(kept.release(), [](void* pointer) {
      const std::unique_ptr<std::shared_ptr<Batch>> dropped(static_cast<std::shared_ptr<Batch>*>(pointer));
    });
  };
  const auto rows = static_cast<py::ssize_t>(batch->size);
  using Shape = std::vector<py::ssize_t>;
  return py::make_tuple(py::array_t<float>(Shape{rows, 112, 8, 8}, batch->planes, owner()),
                        py::array_t<float>(Shape{rows, static_cast<py::ssize_t>(loader::kMoves)}, batch->policy, owner()),
                        py::array_t<float>(Shape{rows, 6, 3}, batch->values, owner()));
}

py::object next_batch(Loader& self, std::optional<double> timeout_s) {
  constexpr double kSlice_s = 0.1;  // Ctrl-C is noticed between two of them.
  const auto started = std::chrono::steady_clock::now();
  while (true) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    const double left = timeout_s ? std::max(0.0, *timeout_s - passed.count()) : kSlice_s;
    std::shared_ptr<Batch> batch;
    {
      const py::gil_scoped_release released;
      batch = self.next_batch(std::chrono::duration<double>(std::min(left, kSlice_s)));
    }
    if (batch) return tensors_of(batch);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (timeout_s && left <= kSlice_s) return py::none();
  }
}

py::dict stats_of(Loader& self) {
  loader::LoaderStats stats;
  {
    const py::gil_scoped_release released;
    stats = self.stats();
  }
  py::list stages;
  for (const auto& stage : stats.stages) {
    py::dict counts;
    for (const auto& [name, count] : stage.counts) counts[py::str(name)] = count;
    stages.append(py::dict(py::arg("name") = stage.name, py::arg("load") = stage.load, py::arg("busy_s") = stage.busy_s,
                           py::arg("queue") = stage.queue, py::arg("capacity") = stage.capacity,
                           py::arg("counts") = counts));
  }
  return py::dict(py::arg("stages") = stages, py::arg("refused") = stats.refused, py::arg("batches") = stats.batches,
                  py::arg("positions") = stats.positions, py::arg("chunks") = stats.chunks,
                  py::arg("chunks_since_anchor") = stats.chunks_since_anchor, py::arg("is_scanned") = stats.is_scanned,
                  py::arg("is_starved") = stats.is_starved, py::arg("newest_key") = py::bytes(stats.newest_key),
                  py::arg("anchor") = py::bytes(stats.anchor), py::arg("cache_bytes") = stats.cache_bytes);
}

py::list take_refusals(Loader& self) {
  py::list refusals;
  for (const auto& refusal : self.take_refusals()) {
    refusals.append(py::dict(py::arg("reason") = refusal.reason, py::arg("detail") = refusal.detail,
                             py::arg("file") = py::bytes(refusal.file), py::arg("member") = refusal.member,
                             py::arg("offset") = refusal.offset, py::arg("is_whole") = refusal.whole));
  }
  return refusals;
}

py::bytes state_of(const Loader& self) {
  std::vector<uint8_t> bytes;
  {
    const py::gil_scoped_release released;
    bytes = self.state();
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<Loader> make_loader(const py::dict& options, const std::string& state) {
  const LoaderConfig config = config_of(options);
  const py::gil_scoped_release released;
  return std::make_unique<Loader>(config, std::span(reinterpret_cast<const uint8_t*>(state.data()), state.size()));
}

}  // namespace

void bind_loader(py::module_& module) {
  py::register_exception<loader::LoaderStopped>(module, "LoaderStopped", PyExc_RuntimeError);
  const auto released = py::call_guard<py::gil_scoped_release>();
  py::class_<Loader>(module, "Loader")
      .def(py::init(&make_loader), py::arg("config"), py::arg("state") = py::bytes(""))
      .def("get_next_batch", &next_batch, py::arg("timeout_s") = py::none())
      .def("get_stats", &stats_of)
      .def("take_refusals", &take_refusals)
      .def("state", &state_of)
      .def("set_anchor", &Loader::set_anchor, py::arg("key"), released)
      .def("reset_anchor", &Loader::reset_anchor, py::arg("chunks") = py::none(), released)
      .def("stop", &Loader::stop, released);
  module.attr("INFLATE_LIBRARY") = loader::Inflater::library();
}

}  // namespace ludus::chess
