// A refusal says what was not used, where it is, and why. Data that is refused never stops the loader.
#pragma once

#include <cstdint>
#include <string>

namespace ludus::chess::loader {

struct Refusal {
  std::string reason;  // One word, for counting.
  std::string detail;  // One sentence.
  std::string file;    // Below the directory; empty until the file is known.
  std::string member;  // Of a tar.
  uint64_t offset = 0;  // Of the record in the inflated chunk, or of the header in the tar.
  bool whole = true;    // The chunk or file is refused, not one position of it.
};

}  // namespace ludus::chess::loader
