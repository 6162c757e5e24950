#include "loader/chunk_sources/tar_index.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ludus::chess::loader {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMaxExtension = 1 << 16;  // A long name or a pax header above this is refused.
using Block = std::array<uint8_t, kBlock>;

bool read_at(int fd, uint64_t offset, void* into, size_t size) {
  auto* out = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::pread(fd, out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

// Octal digits, spaces before, a space or NUL (or nothing) behind; or base-256 with the top bit set.
std::optional<uint64_t> parse_number(const uint8_t* field, size_t size) {
  if (field[0] & 0x80) {
    if (field[0] & 0x40) return std::nullopt;  // Negative.
    uint64_t value = field[0] & 0x3F;
    for (size_t i = 1; i < size; ++i) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | field[i];
    }
    return value;
  }
  size_t i = 0;
  while (i < size && field[i] == ' ') ++i;
  uint64_t value = 0;
  for (; i < size && field[i] >= '0' && field[i] <= '7'; ++i) value = value << 3 | (field[i] - '0');
  for (; i < size; ++i) {
    if (field[i] != ' ' && field[i] != 0) return std::nullopt;
  }
  return value;
}

bool has_good_checksum(const Block& block) {
  const auto stated = parse_number(block.data() + 148, 8);
  if (!stated) return false;
  int64_t plain = 0;
  int64_t with_sign = 0;  // Some old programs summed signed bytes.
  for (size_t i = 0; i < kBlock; ++i) {
    const bool is_sum = i >= 148 && i < 156;
    plain += is_sum ? ' ' : block[i];
    with_sign += is_sum ? ' ' : static_cast<int8_t>(block[i]);
  }
  return static_cast<int64_t>(*stated) == plain || static_cast<int64_t>(*stated) == with_sign;
}

std::string text_of(const uint8_t* field, size_t size) {
  const auto* text = reinterpret_cast<const char*>(field);
  return {text, strnlen(text, size)};
}

struct Pax {
  std::optional<std::string> path;
  std::optional<uint64_t> size;
};

// Records "LENGTH KEY=VALUE\n". False if one does not parse.
bool parse_pax(std::string_view text, Pax& pax) {
  while (!text.empty()) {
    size_t length = 0;
    size_t i = 0;
    for (; i < text.size() && i < 8 && text[i] >= '0' && text[i] <= '9'; ++i) length = length * 10 + (text[i] - '0');
    if (i == 0 || i >= text.size() || text[i] != ' ' || length <= i + 1 || length > text.size()) return false;
    std::string_view record = text.substr(i + 1, length - i - 1);
    if (record.back() != '\n') return false;
    record.remove_suffix(1);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") pax.path = std::string(value);
    if (key == "size") {
      uint64_t size = 0;
      if (value.empty() || value.size() > 18) return false;
      for (const char digit : value) {
        if (digit < '0' || digit > '9') return false;
        size = size * 10 + static_cast<uint64_t>(digit - '0');
      }
      pax.size = size;
    }
    text.remove_prefix(length);
  }
  return true;
}

class TarReader {
 public:
  TarReader(int fd, uint64_t file_size, uint64_t max_members)
      : fd_(fd), file_size_(file_size), max_members_(max_members) {}

  TarIndex read() {
    while (read_header()) {
    }
    return std::move(index_);
  }

 private:
  bool stop(std::string detail) {
    index_.fault = Refusal{.reason = "tar", .detail = std::move(detail), .file = {}, .member = {}, .offset = at_};
    return false;
  }

  bool read_header() {
    if (at_ == file_size_) return false;  // No end marker: many writers forget it.
    if (file_size_ - at_ < kBlock) return stop("ends inside a header");
    Block block;
    if (!read_at(fd_, at_, block.data(), kBlock)) return stop("cannot be read");
    if (block[0] == 0 && block == Block{}) return false;
    if (!has_good_checksum(block)) return stop("header with a wrong checksum");
    if (++headers_ > max_members_ * 2 + 16) return stop("too many headers");
    const auto in_header = parse_number(block.data() + 124, 12);
    if (!in_header) return stop("header with a negative or malformed size");
    const char type = static_cast<char>(block[156]);
    const bool is_extension = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    // A pax size describes the next real member, never the headers between.
    const uint64_t size = !is_extension && pax_.size ? *pax_.size : *in_header;
    const uint64_t left = file_size_ - at_ - kBlock;
    if (size > left) return stop("a member of " + std::to_string(size) + " bytes ends behind the file");
    if (is_extension ? !read_extension(type, size) : !add_member(block, type, size)) return false;
    const uint64_t padded = (size + kBlock - 1) / kBlock * kBlock;
    at_ += kBlock + (padded > left ? left : padded);
    return true;
  }

  bool read_extension(char type, uint64_t size) {
    if (size > kMaxExtension) return stop("an extended header of " + std::to_string(size) + " bytes");
    std::string text(size, '\0');
    if (!read_at(fd_, at_ + kBlock, text.data(), size)) return stop("cannot be read");
    if (type == 'L') long_name_ = text.c_str();
    if (type == 'x' && !parse_pax(text, pax_)) return stop("a pax header that does not parse");
    return true;
  }

  bool add_member(const Block& block, char type, uint64_t size) {
    const bool is_file = type == '0' || type == '\0' || type == '7';
    std::string name = text_of(block.data(), 100);
    if (long_name_) name = *long_name_;
    if (pax_.path) name = *pax_.path;
    long_name_.reset();
    pax_ = {};
    if (!is_file || !name.ends_with(".gz")) {
      ++index_.skipped;
      return true;
    }
    if (index_.members.size() >= max_members_) return stop("more than " + std::to_string(max_members_) + " members");
    index_.members.push_back({.offset = at_ + kBlock, .size = size});
    return true;
  }

  int fd_;
  uint64_t file_size_;
  uint64_t max_members_;
  uint64_t at_ = 0;
  uint64_t headers_ = 0;
  std::optional<std::string> long_name_;
  Pax pax_;
  TarIndex index_;
};

}  // namespace

TarIndex index_tar(int fd, uint64_t file_size, uint64_t max_members) {
  return TarReader(fd, file_size, max_members).read();
}

}  // namespace ludus::chess::loader
