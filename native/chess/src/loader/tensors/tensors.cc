#include "loader/tensors/tensors.h"

#include <algorithm>
#include <cstring>
#include <limits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ludus::chess::loader {
namespace {

struct alignas(64) ByteTable {  // Eight floats for each byte; the highest bit first.
  float rows[256][8];

  constexpr ByteTable() : rows{} {
    for (int byte = 0; byte < 256; ++byte) {
      for (int bit = 0; bit < 8; ++bit) rows[byte][bit] = static_cast<float>(byte >> (7 - bit) & 1);
    }
  }
};
constexpr ByteTable kBytes;

// A batch is far larger than any cache: what is written past the caches need not be read into them first.
#ifdef __SSE2__
inline void put8(float* out, const float* row) {
  _mm_stream_ps(out, _mm_load_ps(row));
  _mm_stream_ps(out + 4, _mm_load_ps(row + 4));
}
inline void put_constant(float* out, float value) {
  const __m128 four = _mm_set1_ps(value);
  for (size_t i = 0; i < 64; i += 4) _mm_stream_ps(out + i, four);
}
inline void finish_writing() { _mm_sfence(); }
#else
inline void put8(float* out, const float* row) { std::memcpy(out, row, 32); }
inline void put_constant(float* out, float value) { std::fill_n(out, 64, value); }
inline void finish_writing() {}
#endif

void put_plane(float* out, uint64_t plane) {
  if (plane == 0) return put_constant(out, 0);
  for (size_t rank = 0; rank < 8; ++rank) put8(out + rank * 8, kBytes.rows[plane >> (rank * 8) & 0xFF]);
}

uint64_t reversed(uint8_t byte) {  // Castling and en passant have file a in the lowest bit, planes in the highest.
  uint64_t result = 0;
  for (int bit = 0; bit < 8; ++bit) result |= static_cast<uint64_t>(byte >> bit & 1) << (7 - bit);
  return result;
}

void put_aux(const Facts& position, float* out) {
  const auto& bytes = position.bytes;
  const int format = position.format;
  const auto at = [out](size_t plane) { return out + plane * 64; };
  if (format == 1) {
    for (size_t i = 0; i < 4; ++i) put_constant(at(i), bytes[i]);
  } else {
    put_plane(at(0), reversed(bytes[0]) | reversed(bytes[2]) << 56);
    put_plane(at(1), reversed(bytes[1]) | reversed(bytes[3]) << 56);
    put_constant(at(2), 0);
    put_constant(at(3), 0);
  }
  if (format <= 2) {
    put_constant(at(4), bytes[4]);
  } else {
    put_plane(at(4), reversed(bytes[4]) << 56);
  }
  put_constant(at(5), static_cast<float>(bytes[5]) / (format <= 3 ? 99.0F : 100.0F));
  const bool is_armageddon = format == 132 || format == 133;
  put_constant(at(6), is_armageddon && (bytes[6] & 0x80) ? 1.0F : 0.0F);
  put_constant(at(7), 1);
}

void put_planes(const Planes& boards, const Facts& facts, float* planes) {
  for (size_t plane = 0; plane < kPlanes; ++plane) put_plane(planes + plane * 64, boards[plane]);
  put_aux(facts, planes + kPlanes * 64);
  finish_writing();
}

void put_policy(const Facts& facts, const uint16_t* moves, const float* probabilities, float* policy) {
  std::fill_n(policy, kMoves, -1.0F);
  for (size_t i = 0; i < facts.visited; ++i) policy[moves[i]] = probabilities[i];
  for (size_t i = facts.visited; i < facts.legal; ++i) policy[moves[i]] = 0;
}

void put_values(const Facts& facts, float* values) {
  std::copy_n(facts.values.data(), kValues, values);
  values[kValues] = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

void write_planes(const Game& game, size_t index, float* planes) {
  Planes boards;
  game.planes(index, boards);
  put_planes(boards, game.position(index), planes);
}

void write_policy(const Game& game, size_t index, float* policy) {
  const Position& position = game.position(index);
  put_policy(position, game.moves(position), game.probabilities(position), policy);
}

void write_values(const Game& game, size_t index, float* values) { put_values(game.position(index), values); }

void write_planes(const Packed& position, float* planes) {
  Planes boards;
  position.planes(boards);
  put_planes(boards, position.facts(), planes);
}

void write_policy(const Packed& position, float* policy) {
  put_policy(position.facts(), position.moves(), position.probabilities(), policy);
}

void write_values(const Packed& position, float* values) { put_values(position.facts(), values); }

}  // namespace ludus::chess::loader
