// Random numbers and hashes that are the same on every machine and in every version: batches are made of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ludus::chess::loader {

inline uint64_t mix(uint64_t x) {  // The finalizer of splitmix64.
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

inline uint64_t hash_of(std::string_view text) {  // FNV-1a, then mixed.
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001B3ULL;
  return mix(hash);
}

// xoshiro256++. Plain data, so that it can be saved.
struct Random {
  std::array<uint64_t, 4> words{};

  explicit Random(uint64_t seed = 0) {
    for (auto& word : words) word = seed = mix(seed);
  }

  uint64_t next() {
    const auto rotate = [](uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
    const uint64_t result = rotate(words[0] + words[3], 23) + words[0];
    const uint64_t shifted = words[1] << 17;
    words[2] ^= words[0];
    words[3] ^= words[1];
    words[1] ^= words[2];
    words[0] ^= words[3];
    words[2] ^= shifted;
    words[3] = rotate(words[3], 45);
    return result;
  }

  uint32_t below(uint32_t n) {  // Bias below 2^-32 * n: the high half of a product of 64 bits by n.
    return static_cast<uint32_t>(((next() >> 32) * static_cast<uint64_t>(n)) >> 32);
  }

  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
};

}  // namespace ludus::chess::loader
