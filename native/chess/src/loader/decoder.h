// From a chunk's bytes to a game: inflate, check every record, add targets, pack. One decoder for each thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "encoding/records.h"
#include "loader/chunk_sources/chunk_source.h"
#include "loader/chunk_sources/gzip.h"
#include "loader/config.h"
#include "loader/tensors/game.h"

namespace ludus::chess::loader {

struct Decoded {
  std::shared_ptr<const Game> game;  // Null: the chunk is refused as a whole.
  std::vector<Refusal> refusals;     // File and member are filled in.
  size_t positions_refused = 0;
  size_t gz_bytes = 0;
  size_t raw_bytes = 0;
  std::chrono::nanoseconds inflate_time{};
  std::chrono::nanoseconds check_time{};
  std::chrono::nanoseconds target_time{};
};

class Decoder {
 public:
  explicit Decoder(const LoaderConfig& config) : config_(config) {}

  Decoded decode(const ChunkSource& source, size_t index);
  Decoded decode_bytes(std::span<const uint8_t> gzipped);  // The same, of bytes that are there already.

 private:
  void read_records(std::span<const uint8_t> raw, Decoded& decoded);
  std::optional<Refusal> check_position(const Record& record, bool follows);
  void check_records(std::span<const uint8_t> raw, uint32_t version, Decoded& decoded);
  std::shared_ptr<const Game> pack(uint32_t version, std::span<const uint8_t> raw) const;

  const LoaderConfig& config_;
  Inflater inflater_;
  std::vector<uint8_t> bytes_;
  std::vector<Numbers> numbers_;
  std::vector<LegalMoves> moves_;
  std::vector<bool> good_;
  V7Record now_;  // For the check that one position follows from another.
  V7Record before_;
};

}  // namespace ludus::chess::loader
