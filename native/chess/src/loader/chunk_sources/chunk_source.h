// A file of chunks: one game (.gz), or a tar of them. Bytes are read on demand; no file is kept open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/chunk_sources/tar_index.h"
#include "loader/refusal.h"

namespace ludus::chess::loader {

struct ChunkSource {
  std::string path;  // Below the directory: the name in states and refusals.
  std::string key;   // The file's name: what sorts and what anchors name.
  uint64_t size = 0;
  bool is_tar = false;
  std::vector<TarMember> members;  // Of a tar; a .gz has one chunk.
  uint64_t skipped = 0;
  bool is_gone = false;  // A state knows it, but it is not there any more as it was.

  size_t chunk_count() const { return is_tar ? members.size() : 1; }
};

inline constexpr uint64_t kMaxChunkBytes = uint64_t{64} << 20;

bool is_chunk_name(std::string_view name);  // .gz or .tar, neither hidden nor temporary.
std::string chunk_key(const ChunkSource& source, size_t index);

struct OpenedSource {
  ChunkSource source;
  std::optional<Refusal> fault;  // The chunks that `source` has are good nevertheless.
};

// Looks at a file; indexes it if it is a tar.
OpenedSource open_source(const std::string& directory, const std::string& path, uint64_t max_members);

// The gzipped bytes of one chunk, into `bytes`.
std::optional<Refusal> read_chunk(const std::string& directory, const ChunkSource& source, size_t index,
                                  std::vector<uint8_t>& bytes);

}  // namespace ludus::chess::loader
