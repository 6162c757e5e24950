// Where the members of a tar are: ustar, GNU long names, pax headers, base-256 sizes. Contents are not read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/refusal.h"

namespace ludus::chess::loader {

struct TarMember {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct TarIndex {
  std::vector<TarMember> members;  // Regular files whose name ends in .gz, in order.
  uint64_t skipped = 0;            // Other members: directories, links, devices, other names.
  std::optional<Refusal> fault;    // What ended the reading early. Members before it are good.
};

// Reads headers of the open file `fd` of `file_size` bytes.
TarIndex index_tar(int fd, uint64_t file_size, uint64_t max_members);

}  // namespace ludus::chess::loader
