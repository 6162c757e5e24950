// Chunks, gzip files and directories for the loader's tests.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "encoding/records.h"

namespace ludus::chess::loader::testing {

using Bytes = std::vector<uint8_t>;

inline Bytes gzip(const Bytes& raw) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, raw.size()) + 64);
  stream.next_in = const_cast<Bytef*>(raw.data());
  stream.avail_in = static_cast<uInt>(raw.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A record with two kings and two legal moves; `number` makes it different from others.
inline V6Record make_record(int number) {
  V6Record record;
  std::fill(std::begin(record.probabilities), std::end(record.probabilities), -1.0F);
  record.probabilities[10] = 0.75F;
  record.probabilities[20] = 0.25F;
  record.planes[5] = 0x08;                    // Our king on e1: the highest bit is file a.
  record.planes[11] = uint64_t{0x08} << 56;  // Theirs on e8.
  record.side_to_move_or_enpassant = static_cast<uint8_t>(number % 2);
  record.plies_left = static_cast<float>(100 - number);
  record.root_q = record.best_q = 0.25F;
  record.visits = 0;
  record.result_d = 1;
  return record;
}

inline Bytes make_chunk(int positions, int seed = 0) {
  Bytes raw;
  for (int i = 0; i < positions; ++i) {
    V6Record record = make_record(i);
    record.orig_q = static_cast<float>(seed % 1000) / 1000.0F;
    record.orig_m = static_cast<float>(seed);
    const auto* from = reinterpret_cast<const uint8_t*>(&record);
    raw.insert(raw.end(), from, from + sizeof(record));
  }
  return raw;
}

class Folder {  // A directory that is removed at the end.
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "loader-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_.string(); }
  void write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

// A ustar header; the caller may damage it and seal it again.
inline Bytes tar_header(const std::string& name, uint64_t size, char type = '0') {
  Bytes block(512, 0);
  std::memcpy(block.data(), name.data(), std::min<size_t>(name.size(), 100));
  std::array<char, 32> octal{};
  std::snprintf(octal.data(), octal.size(), "%011llo", static_cast<unsigned long long>(size));
  std::memcpy(block.data() + 124, octal.data(), 11);
  block[156] = static_cast<uint8_t>(type);
  std::memcpy(block.data() + 257, "ustar\00000", 8);
  return block;
}

inline void seal(Bytes& block) {
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += block[i];
  std::array<char, 16> octal{};
  std::snprintf(octal.data(), octal.size(), "%06o", sum);
  std::memcpy(block.data() + 148, octal.data(), 7);
}

inline void append_member(Bytes& tar, Bytes header, const Bytes& data) {
  seal(header);
  tar.insert(tar.end(), header.begin(), header.end());
  tar.insert(tar.end(), data.begin(), data.end());
  tar.resize((tar.size() + 511) / 512 * 512, 0);
}

}  // namespace ludus::chess::loader::testing
