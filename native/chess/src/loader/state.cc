#include "loader/state.h"

#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <type_traits>

#include "loader/random.h"

namespace ludus::chess::loader {
namespace {

constexpr uint64_t kMagic = 0x3144414F4C58434CULL;  // "LCXLOAD1", nearly.

class Writer {
 public:
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    const auto* from = reinterpret_cast<const uint8_t*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
  }
  void put(const std::string& text) {
    put<uint64_t>(text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  template <typename T>
  void put_all(const std::vector<T>& items) {
    put<uint64_t>(items.size());
    const auto* from = reinterpret_cast<const uint8_t*>(items.data());
    bytes.insert(bytes.end(), from, from + items.size() * sizeof(T));
  }
  void put_positions(const std::vector<PositionRef>& positions) {  // Without the padding between them.
    put<uint64_t>(positions.size());
    for (const auto& position : positions) put(position.chunk);
    for (const auto& position : positions) put(position.index);
  }

  std::vector<uint8_t> bytes;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}

  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string get_text() {
    const auto text = take(get<uint64_t>());
    return {text.begin(), text.end()};
  }
  template <typename T>
  std::vector<T> get_all() {
    const size_t count = get_count(sizeof(T));
    std::vector<T> items(count);
    if (count > 0) std::memcpy(items.data(), take(count * sizeof(T)).data(), count * sizeof(T));
    return items;
  }
  size_t get_count(size_t item_size) {  // Never more than the bytes that are there can hold.
    const auto count = get<uint64_t>();
    if (count > left_.size() / item_size) throw std::invalid_argument("state: truncated");
    return count;
  }
  std::vector<PositionRef> get_positions() {
    std::vector<PositionRef> positions(get_count(6));
    for (auto& position : positions) position.chunk = get<uint32_t>();
    for (auto& position : positions) position.index = get<uint16_t>();
    return positions;
  }

 private:
  std::span<const uint8_t> take(size_t count) {
    if (count > left_.size()) throw std::invalid_argument("state: truncated");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const uint8_t> left_;
};

// The fields that decide about batches, one a line.
std::string fingerprint(const LoaderConfig& config) {
  std::ostringstream text;
  text.precision(17);
  const Focus& focus = config.focus;
  text << "seed " << config.seed << "\nbatch_size " << config.batch_size << "\npool_chunks " << config.pool_chunks
       << "\nreservoir " << config.reservoir << "\nrate " << config.rate << "\ncount " << config.count << "\nfocus "
       << focus.q_weight << ' ' << focus.pol_scale << ' ' << focus.alpha << ' ' << focus.beta << ' ' << focus.gamma
       << ' ' << focus.tau << ' ' << focus.default_weight << "\npart " << config.part << "\nsplit";
  for (const auto& [name, weight] : config.split) text << ' ' << name << ' ' << weight;
  text << "\ninput_format " << config.input_format << "\ntheta " << config.theta << "\nadmit_at_anchor "
       << config.admit_at_anchor << '\n';
  return text.str();
}

void check_fingerprint(const std::string& saved, const std::string& wanted) {
  std::istringstream old_lines(saved);
  std::istringstream new_lines(wanted);
  std::string was;
  std::string is;
  while (std::getline(new_lines, is)) {
    std::getline(old_lines, was);
    if (was != is) throw std::invalid_argument("state: made with \"" + was + "\", but the config says \"" + is + "\"");
  }
}

uint64_t checksum(std::span<const uint8_t> bytes) {
  return hash_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void check_chunks(const LoaderState& state) {  // Every number of a chunk must be one of the sources'.
  uint64_t chunks = 0;
  for (const auto& source : state.sources) chunks += source.chunks;
  const auto& saved = state.shuffler;
  bool holds = chunks <= std::numeric_limits<ChunkId>::max() && saved.pool.alive.size() == chunks &&
               saved.pool.uses.size() == chunks && saved.pool.contents.size() == chunks;
  for (const auto& use : saved.pending) holds = holds && use.chunk < chunks;
  for (const auto& position : saved.incoming) holds = holds && position.chunk < chunks;
  for (const auto& position : saved.reservoir) holds = holds && position.chunk < chunks;
  for (const ChunkId chunk : saved.pool.remaining) holds = holds && chunk < chunks;
  if (!holds) throw std::invalid_argument("state: inconsistent");
}

}  // namespace

std::vector<uint8_t> write_state(const LoaderConfig& config, const LoaderState& state) {
  Writer out;
  out.put(kMagic);
  out.put(fingerprint(config));
  out.put(state.batch);
  out.put<uint64_t>(state.sources.size());
  for (const auto& source : state.sources) {
    out.put(source.path);
    out.put(source.size);
    out.put(source.chunks);
  }
  const auto& shuffler = state.shuffler;
  out.put(shuffler.random.words);
  out.put_all(shuffler.pending);
  out.put_positions(shuffler.incoming);
  out.put(shuffler.used_chunks);
  out.put<uint8_t>(shuffler.is_warm ? 1 : 0);
  out.put_all(shuffler.pool.alive);
  out.put_all(shuffler.pool.uses);
  out.put_all(shuffler.pool.contents);
  out.put_all(shuffler.pool.remaining);
  out.put_positions(shuffler.reservoir);
  out.put(state.admissions.anchor);
  out.put(state.admissions.hold_until);
  out.put<uint64_t>(state.admissions.ahead.size());
  for (const auto& admission : state.admissions.ahead) {
    out.put(admission.batch);
    out.put<uint8_t>(admission.when_empty ? 1 : 0);
    out.put<uint64_t>(admission.paths.size());
    for (const auto& path : admission.paths) out.put(path);
  }
  out.put(checksum(out.bytes));
  return std::move(out.bytes);
}

LoaderState read_state(const LoaderConfig& config, std::span<const uint8_t> bytes) {
  if (bytes.size() < 16) throw std::invalid_argument("state: truncated");
  if (Reader(bytes).get<uint64_t>() != kMagic) throw std::invalid_argument("state: not the state of a chunk loader");
  const auto body = bytes.first(bytes.size() - 8);
  if (Reader(bytes.last(8)).get<uint64_t>() != checksum(body)) throw std::invalid_argument("state: damaged");
  Reader in(body.subspan(8));
  check_fingerprint(in.get_text(), fingerprint(config));
  LoaderState state;
  state.batch = in.get<uint64_t>();
  state.sources.resize(in.get_count(24));
  for (auto& source : state.sources) {
    source.path = in.get_text();
    source.size = in.get<uint64_t>();
    source.chunks = in.get<uint64_t>();
  }
  auto& shuffler = state.shuffler;
  shuffler.random.words = in.get<std::array<uint64_t, 4>>();
  shuffler.pending = in.get_all<ChunkUse>();
  shuffler.incoming = in.get_positions();
  shuffler.used_chunks = in.get<uint64_t>();
  shuffler.is_warm = in.get<uint8_t>() != 0;
  shuffler.pool.alive = in.get_all<uint8_t>();
  shuffler.pool.uses = in.get_all<uint32_t>();
  shuffler.pool.contents = in.get_all<uint64_t>();
  shuffler.pool.remaining = in.get_all<ChunkId>();
  shuffler.reservoir = in.get_positions();
  shuffler.sources = state.sources.size();
  state.admissions.anchor = in.get_text();
  state.admissions.hold_until = in.get<uint64_t>();
  state.admissions.ahead.resize(in.get_count(17));
  for (auto& admission : state.admissions.ahead) {
    admission.batch = in.get<uint64_t>();
    admission.when_empty = in.get<uint8_t>() != 0;
    admission.paths.resize(in.get_count(8));
    for (auto& path : admission.paths) path = in.get_text();
  }
  check_chunks(state);
  return state;
}

}  // namespace ludus::chess::loader
