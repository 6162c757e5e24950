#include "encoding/records.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace ludus::chess {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kInputFormatBytes = 4;  // V5 and later have the field, V3 and V4 do not

std::uint32_t version_at(const std::uint8_t* data) {
  std::uint32_t version = 0;
  std::memcpy(&version, data, sizeof(version));
  return version;
}

void forget_what_v5_lacks(V7Record& record, std::uint32_t version, float plies_left) {
  const auto result = static_cast<std::int8_t>(record.dummy);
  record.result_q = result;
  record.result_d = result == 0 ? 1.0F : 0.0F;
  record.dummy = 0;
  record.played_q = record.played_d = record.played_m = kUnknown;
  record.orig_q = record.orig_d = record.orig_m = kUnknown;
  record.played_idx = record.best_idx = kNoMoveIndex;
  if (version == 5) return;
  record.root_m = record.best_m = kUnknown;
  record.plies_left = plies_left;
  record.invariance_info = 0;  // it was a move count
  if (version == 3) record.root_q = record.best_q = record.root_d = record.best_d = kUnknown;
}

}  // namespace

V7Record read_record(const std::uint8_t* data, std::uint32_t version, float plies_left) {
  V7Record record;
  auto* out = reinterpret_cast<std::uint8_t*>(&record);
  const std::size_t size = record_size(version);
  if (version >= 5) {
    std::memcpy(out, data, size);
  } else {
    std::memcpy(out, data, 4);
    std::memcpy(out + 4 + kInputFormatBytes, data + 4, size - 4);
  }
  if (version < 6) forget_what_v5_lacks(record, version, plies_left);
  record.version = 7;
  return record;
}

std::vector<V7Record> read_game(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 4) throw RecordError(0, "no version, the game has " + std::to_string(bytes.size()) + " bytes");
  const std::uint32_t version = version_at(bytes.data());
  const std::size_t size = record_size(version);
  if (size == 0) throw RecordError(0, "version " + std::to_string(version) + " is none of 3 to 7");
  const std::size_t rest = bytes.size() % size;
  if (rest != 0) throw RecordError(bytes.size() / size, "cut off, " + std::to_string(rest) + " of " + std::to_string(size) + " bytes");
  const std::size_t count = bytes.size() / size;
  std::vector<V7Record> game;
  game.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* at = bytes.data() + i * size;
    if (version_at(at) != version)
      throw RecordError(i, "version " + std::to_string(version_at(at)) + " in a game of version " + std::to_string(version));
    game.push_back(read_record(at, version, static_cast<float>(count - i)));
  }
  if (version < 7) set_following_targets(game);
  return game;
}

void set_following_targets(std::span<V7Record> game, float theta) {
  const int count = static_cast<int>(game.size());
  float q = 0, d = 0;
  for (int i = count - 1; i >= 0; --i) {
    V7Record& record = game[i];
    const float sign = i % 2 == 0 ? 1.0F : -1.0F;
    const bool last = i == count - 1;
    q = last ? record.root_q * sign : theta * q + (1 - theta) * record.root_q * sign;
    d = last ? record.root_d : theta * d + (1 - theta) * record.root_d;
    record.q_st = q * sign;
    record.d_st = d < 0 ? 0 : d;  // NaN stays NaN
    record.opp_played_idx = i + 1 < count ? game[i + 1].played_idx : kNoMoveIndex;
    record.next_played_idx = i + 2 < count ? game[i + 2].played_idx : kNoMoveIndex;
  }
}

}  // namespace ludus::chess
