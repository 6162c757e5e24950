// Inflates one gzip file of known bounds. libdeflate where the build found it, zlib otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "loader/refusal.h"

namespace ludus::chess::loader {

struct InflateLimits {
  size_t max_bytes = 0;  // Of output.
  double max_ratio = 0;  // Output per input byte.
};

// Keeps its output's memory from one chunk to the next. One for each thread.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // All members of a gzip file, one after the other. On success `output()` has the bytes until the next call.
  std::optional<Refusal> inflate(std::span<const uint8_t> input, const InflateLimits& limits);

  std::span<const uint8_t> output() const { return {buffer_.data(), size_}; }

  static const char* library();

 private:
  enum class Outcome { kDone, kNoSpace, kBad };

  Outcome inflate_member(std::span<const uint8_t> input, size_t& consumed, size_t& produced);
  std::optional<Refusal> inflate_within(std::span<const uint8_t> input, size_t most);

  std::vector<uint8_t> buffer_;
  size_t size_ = 0;
  void* decompressor_ = nullptr;
};

}  // namespace ludus::chess::loader
