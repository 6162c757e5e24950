// A training record of any version, read in place. Fields that a version lacks are NaN, or 0 for bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

#include "encoding/records.h"

namespace ludus::chess::loader {

inline constexpr size_t kMoves = 1858;
inline constexpr size_t kPlanes = 104;
inline constexpr size_t kStepPlanes = 13;
inline constexpr size_t kSteps = 8;
inline constexpr uint16_t kNoMove = 65535;

using Planes = std::array<uint64_t, kPlanes>;

struct Record {
  const uint8_t* data = nullptr;
  uint32_t version = 0;

  template <typename T>
  T at(size_t offset) const {
    T value;
    std::memcpy(&value, data + offset, sizeof(T));
    return value;
  }

  // Versions 3 and 4 have no input format; everything behind it lies four bytes earlier.
  size_t shift() const { return version < 5 ? 4 : 0; }
  uint32_t stated_version() const { return at<uint32_t>(0); }
  uint32_t input_format() const { return version < 5 ? 1 : at<uint32_t>(4); }
  const uint8_t* probabilities() const { return data + 8 - shift(); }
  uint8_t byte(size_t offset) const { return data[offset - shift()]; }  // 8272 to 8279, as in version 6.

  void planes(Planes& into) const { std::memcpy(into.data(), data + 7440 - shift(), sizeof(Planes)); }

  float number(size_t offset) const {  // 8280 and on, as in version 6.
    const size_t here = offset - shift();
    if (here + 4 > record_size(version)) return std::numeric_limits<float>::quiet_NaN();
    return at<float>(here);
  }

  uint32_t visits() const { return version < 6 ? 0 : at<uint32_t>(8340); }
  uint16_t played_idx() const { return version < 6 ? kNoMove : at<uint16_t>(8344); }
  uint16_t best_idx() const { return version < 6 ? kNoMove : at<uint16_t>(8346); }
};

// The record's numbers by name. `q_st` and `d_st` only where the version has them.
struct Numbers {
  float root_q, best_q, root_d, best_d, root_m, best_m, plies_left, result_q, result_d, played_q, played_d, played_m,
      orig_q, orig_d, orig_m, policy_kld, q_st, d_st;
};

inline Numbers numbers_of(const Record& record) {
  Numbers n{};
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  n.root_q = record.number(8280);
  n.best_q = record.number(8284);
  n.root_d = record.number(8288);
  n.best_d = record.number(8292);
  n.root_m = record.number(8296);
  n.best_m = record.number(8300);
  n.plies_left = record.number(8304);
  if (record.version < 6) {
    const auto result = static_cast<int8_t>(record.byte(8279));
    n.result_q = result;
    n.result_d = result == 0 ? 1.0F : 0.0F;
    n.played_q = n.played_d = n.played_m = n.orig_q = n.orig_d = n.orig_m = n.policy_kld = kUnknown;
  } else {
    n.result_q = record.number(8308);
    n.result_d = record.number(8312);
    n.played_q = record.number(8316);
    n.played_d = record.number(8320);
    n.played_m = record.number(8324);
    n.orig_q = record.number(8328);
    n.orig_d = record.number(8332);
    n.orig_m = record.number(8336);
    n.policy_kld = record.number(8348);
  }
  n.q_st = record.version == 7 ? record.number(8352) : kUnknown;
  n.d_st = record.version == 7 ? record.number(8356) : kUnknown;
  return n;
}

}  // namespace ludus::chess::loader
