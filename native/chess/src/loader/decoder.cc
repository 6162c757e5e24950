#include "loader/decoder.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "encoding/validator.h"
#include "loader/random.h"
#include "loader/sampling/sampling.h"
#include "loader/targets/targets.h"

namespace ludus::chess::loader {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRefusalsPerChunk = 8;  // More say nothing new.

Refusal refuse_chunk(std::string reason, std::string detail, uint64_t offset = 0) {
  return {.reason = std::move(reason), .detail = std::move(detail), .file = {}, .member = {}, .offset = offset};
}

uint64_t content_hash(std::span<const uint8_t> raw) {
  uint64_t hash = raw.size();
  // Eight bytes of every record's planes and policy would do; all of it costs little beside inflating it.
  size_t i = 0;
  for (; i + 8 <= raw.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, raw.data() + i, 8);
    hash = (hash ^ word) * 0x9FB21C651E98DF25ULL;
    hash ^= hash >> 32;
  }
  for (; i < raw.size(); ++i) hash = (hash ^ raw[i]) * 0x100000001B3ULL;
  return mix(hash);
}

}  // namespace

Decoded Decoder::decode(const ChunkSource& source, size_t index) {
  Decoded decoded;
  if (auto refusal = read_chunk(config_.directory, source, index, bytes_)) {
    decoded.refusals.push_back(std::move(*refusal));
  } else {
    decoded = decode_bytes(bytes_);
  }
  for (Refusal& refusal : decoded.refusals) {
    refusal.file = source.path;
    if (source.is_tar) refusal.member = std::to_string(index);
  }
  return decoded;
}

Decoded Decoder::decode_bytes(std::span<const uint8_t> gzipped) {
  Decoded decoded;
  const auto started = Clock::now();
  const InflateLimits limits{.max_bytes = config_.max_positions * record_size(7), .max_ratio = config_.max_ratio};
  auto refusal = inflater_.inflate(gzipped, limits);
  decoded.inflate_time = Clock::now() - started;
  decoded.gz_bytes = gzipped.size();
  decoded.raw_bytes = inflater_.output().size();
  if (refusal) {
    decoded.refusals.push_back(std::move(*refusal));
  } else {
    read_records(inflater_.output(), decoded);
  }
  return decoded;
}

void Decoder::read_records(std::span<const uint8_t> raw, Decoded& decoded) {
  uint32_t version = 0;
  if (raw.size() >= 4) std::memcpy(&version, raw.data(), 4);
  const size_t size = record_size(version);
  if (raw.size() < 4 || size == 0) {
    decoded.refusals.push_back(refuse_chunk("version", raw.empty() ? "empty chunk" : "unknown version " + std::to_string(version)));
    return;
  }
  if (raw.size() % size != 0) {
    decoded.refusals.push_back(refuse_chunk("size", std::to_string(raw.size()) + " bytes are no multiple of the " +
                                                  std::to_string(size) + " of a version " + std::to_string(version) +
                                                  " record"));
    return;
  }
  if (raw.size() / size > config_.max_positions) {
    decoded.refusals.push_back(refuse_chunk("bomb", "more than " + std::to_string(config_.max_positions) + " positions"));
    return;
  }
  const auto started = Clock::now();
  check_records(raw, version, decoded);
  const auto checked = Clock::now();
  if (version < 7) add_short_term_values(numbers_, config_.theta);
  add_plies_left(numbers_);
  const bool any_good = std::any_of(good_.begin(), good_.end(), [](bool good) { return good; });
  if (any_good) decoded.game = pack(version, raw);
  decoded.check_time = checked - started;
  decoded.target_time = Clock::now() - checked;
}

void Decoder::check_records(std::span<const uint8_t> raw, uint32_t version, Decoded& decoded) {
  const size_t size = record_size(version);
  const size_t count = raw.size() / size;
  numbers_.resize(count);
  if (moves_.size() < count) moves_.resize(count);
  good_.assign(count, false);
  bool is_known = false;  // The position before this one.
  for (size_t i = 0; i < count; ++i) {
    const Record record{.data = raw.data() + i * size, .version = version};
    numbers_[i] = numbers_of(record);
    find_legal_moves(record, moves_[i]);
    auto refusal = check_record(record, numbers_[i], moves_[i], config_.input_format);
    if (!refusal && config_.check_moves) {
      refusal = check_position(record, is_known);
      is_known = true;
    } else {
      is_known = false;
    }
    good_[i] = !refusal;
    if (!refusal) continue;
    // A value that is out of bounds must not spread to its neighbours' targets.
    numbers_[i].root_q = numbers_[i].root_d = std::numeric_limits<float>::quiet_NaN();
    refusal->offset = i * size;
    if (++decoded.positions_refused <= kRefusalsPerChunk) decoded.refusals.push_back(std::move(*refusal));
  }
}

std::optional<Refusal> Decoder::check_position(const Record& record, bool follows) {
  std::swap(now_, before_);
  now_ = read_record(record.data, record.version, 0);
  std::optional<std::string> problem;
  try {
    if (follows) {
      problem = check_step(before_, now_);
    } else {
      static_cast<void>(position_of(now_));
    }
  } catch (const std::invalid_argument& error) {
    problem = error.what();
  }
  if (!problem) return std::nullopt;
  return Refusal{.reason = "position", .detail = *problem, .file = {}, .member = {}, .whole = false};
}

std::shared_ptr<const Game> Decoder::pack(uint32_t version, std::span<const uint8_t> raw) const {
  const size_t size = record_size(version);
  auto game = std::make_shared<Game>();
  for (size_t i = 0; i < good_.size(); ++i) {
    if (!good_[i]) continue;
    const Record record{.data = raw.data() + i * size, .version = version};
    game->add(record, numbers_[i], moves_[i], i > 0 && good_[i - 1]);
    if (config_.focus.is_on()) game->weights.push_back(focus_weight(config_.focus, numbers_[i]));
  }
  game->content = content_hash(raw);
  game->finish();
  return game;
}

}  // namespace ludus::chess::loader
