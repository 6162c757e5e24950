// lc0's training records as they are on disk: little-endian, packed. Version 3 to 7; what is read becomes a V7 record.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoding/policy.h"

namespace ludus::chess {

static_assert(std::endian::native == std::endian::little, "records are read as they are on disk");

inline constexpr std::uint16_t kNoMoveIndex = 65535;

#pragma pack(push, 1)
struct V6Record {
  std::uint32_t version = 6;
  std::uint32_t input_format = 1;
  float probabilities[kPolicySize] = {};  // -1: illegal
  std::uint64_t planes[104] = {};         // byte = rank from the mover's view, most significant bit = file a
  std::uint8_t castling_us_ooo = 0;
  std::uint8_t castling_us_oo = 0;
  std::uint8_t castling_them_ooo = 0;
  std::uint8_t castling_them_oo = 0;
  std::uint8_t side_to_move_or_enpassant = 0;
  std::uint8_t rule50_count = 0;
  std::uint8_t invariance_info = 0;
  std::uint8_t dummy = 0;  // before V6: int8 result
  float root_q = 0, best_q = 0, root_d = 0, best_d = 0, root_m = 0, best_m = 0, plies_left = 0;
  float result_q = 0, result_d = 0, played_q = 0, played_d = 0, played_m = 0;
  float orig_q = 0, orig_d = 0, orig_m = 0;
  std::uint32_t visits = 0;
  std::uint16_t played_idx = 0, best_idx = 0;
  float policy_kld = 0;
  float q_st = 0;
};

struct V7Record : V6Record {
  float d_st = 0;
  std::uint16_t opp_played_idx = kNoMoveIndex, next_played_idx = kNoMoveIndex;
  float reserved[8] = {};
};
#pragma pack(pop)

inline constexpr std::size_t kV3Size = 8276;
inline constexpr std::size_t kV4Size = 8292;
inline constexpr std::size_t kV5Size = 8308;
inline constexpr std::size_t kV6Size = 8356;
inline constexpr std::size_t kV7Size = 8396;
static_assert(sizeof(V6Record) == kV6Size && sizeof(V7Record) == kV7Size);

enum InvarianceBit : int {
  kBestProven = 1 << 3,
  kTooLong = 1 << 4,
  kAdjudicated = 1 << 5,
  kMarkedForDeletion = 1 << 6,
  kBlackToMove = 1 << 7,  // formats from 3 on
};

// The size of a record of this version, 0 for an unknown one.
constexpr std::size_t record_size(std::uint32_t version) {
  switch (version) {
    case 3: return kV3Size;
    case 4: return kV4Size;
    case 5: return kV5Size;
    case 6: return kV6Size;
    case 7: return kV7Size;
    default: return 0;
  }
}

// Read one record of any version (record_size(version) bytes at `data`, nothing is checked but that). What older versions
// do not have: q, d, m are NaN (V3 has none, V4 no m), plies_left of V3 and V4 is the number of positions after it (the
// caller knows: `plies_left`), visits 0, no indices. d_st and the following moves come from set_following_targets.
V7Record read_record(const std::uint8_t* data, std::uint32_t version, float plies_left);

class RecordError : public std::invalid_argument {
 public:
  RecordError(std::size_t at, const std::string& why)
      : std::invalid_argument("record " + std::to_string(at) + ": " + why), record(at), reason(why) {}

  std::size_t record;
  std::string reason;
};

// Read a whole inflated game. Throws RecordError: unknown or mixed versions, or a size that is no multiple of the record's.
std::vector<V7Record> read_game(std::span<const std::uint8_t> bytes);

// V6 -> V7: q_st and d_st are backward moving averages of root_q (alternating sign) and root_d; the moves of the next two
// plies. A game that is V7 already stays as it is.
void set_following_targets(std::span<V7Record> game, float theta = 5.0F / 6.0F);

}  // namespace ludus::chess
