// What a fuzzer does with bytes: read them as a chunk, as records, as a tar, as a state, as PGN, and as a FEN with moves.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ludus::chess::loader {

// The first byte chooses the reader. Never throws; whatever it is given, memory stays bounded.
void fuzz_one(const uint8_t* data, size_t size);

}  // namespace ludus::chess::loader
