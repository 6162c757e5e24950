#include "loader/chunk_sources/gzip.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#ifdef LUDUS_CHESS_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

namespace ludus::chess::loader {
namespace {

constexpr size_t kKeptBytes = size_t{8} << 20;  // A buffer above this is given back after use.
constexpr size_t kSmallestMember = 18;

Refusal refuse_gzip(std::string reason, std::string detail) {
  return {.reason = std::move(reason), .detail = std::move(detail), .file = {}, .member = {}};
}

size_t stated_size(std::span<const uint8_t> input) {  // The last four bytes: true unless someone lies.
  uint32_t size = 0;
  std::memcpy(&size, input.data() + input.size() - 4, 4);
  return size;
}

bool is_padding(std::span<const uint8_t> rest) {
  return std::all_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

#ifdef LUDUS_CHESS_LIBDEFLATE

Inflater::Inflater() : decompressor_(libdeflate_alloc_decompressor()) {
  if (decompressor_ == nullptr) throw std::bad_alloc();
}

Inflater::~Inflater() { libdeflate_free_decompressor(static_cast<libdeflate_decompressor*>(decompressor_)); }

const char* Inflater::library() { return "libdeflate"; }

Inflater::Outcome Inflater::inflate_member(std::span<const uint8_t> input, size_t& consumed, size_t& produced) {
  const auto result =
      libdeflate_gzip_decompress_ex(static_cast<libdeflate_decompressor*>(decompressor_), input.data(), input.size(),
                                    buffer_.data() + size_, buffer_.size() - size_, &consumed, &produced);
  if (result == LIBDEFLATE_SUCCESS) return Outcome::kDone;
  return result == LIBDEFLATE_INSUFFICIENT_SPACE ? Outcome::kNoSpace : Outcome::kBad;
}

#else

Inflater::Inflater() = default;
Inflater::~Inflater() = default;

const char* Inflater::library() { return "zlib"; }

Inflater::Outcome Inflater::inflate_member(std::span<const uint8_t> input, size_t& consumed, size_t& produced) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return Outcome::kBad;
  stream.next_in = const_cast<Bytef*>(input.data());  // zlib only reads it.
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = buffer_.data() + size_;
  stream.avail_out = static_cast<uInt>(buffer_.size() - size_);
  const int result = ::inflate(&stream, Z_FINISH);
  consumed = input.size() - stream.avail_in;
  produced = stream.total_out;
  const bool is_full = stream.avail_out == 0;
  inflateEnd(&stream);
  if (result == Z_STREAM_END) return Outcome::kDone;
  return result == Z_BUF_ERROR && is_full ? Outcome::kNoSpace : Outcome::kBad;
}

#endif

std::optional<Refusal> Inflater::inflate(std::span<const uint8_t> input, const InflateLimits& limits) {
  size_ = 0;
  if (input.size() < kSmallestMember) return refuse_gzip("gzip", "shorter than any gzip file");
  if (input[0] != 0x1F || input[1] != 0x8B) return refuse_gzip("gzip", "not a gzip file");
  const auto by_ratio = static_cast<size_t>(static_cast<double>(input.size()) * limits.max_ratio);
  const size_t most = std::min(limits.max_bytes, by_ratio);
  const size_t stated = stated_size(input);
  if (buffer_.size() > kKeptBytes) buffer_ = {};
  // One byte more than stated, so that "exactly full" and "more to come" differ.
  buffer_.resize(std::max(buffer_.size(), std::min(stated, most) + 1));
  auto refusal = inflate_within(input, most);
  if (!refusal && size_ > most) {
    refusal = refuse_gzip("bomb", "inflates to more than " + std::to_string(most) + " bytes");
  }
  if (refusal) size_ = 0;
  return refusal;
}

std::optional<Refusal> Inflater::inflate_within(std::span<const uint8_t> input, size_t most) {
  while (!input.empty()) {
    if (size_ > 0 && is_padding(input)) break;
    size_t consumed = 0;
    size_t produced = 0;
    const Outcome outcome = inflate_member(input, consumed, produced);
    if (outcome == Outcome::kBad) return refuse_gzip("gzip", "damaged or truncated gzip data");
    if (outcome == Outcome::kNoSpace) {
      if (buffer_.size() > most) return refuse_gzip("bomb", "inflates to more than " + std::to_string(most) + " bytes");
      buffer_.resize(std::min(most + 1, buffer_.size() * 2 + 65'536));
      continue;
    }
    size_ += produced;
    if (consumed == 0 || size_ > most) break;
    input = input.subspan(consumed);
  }
  return std::nullopt;
}

}  // namespace ludus::chess::loader
