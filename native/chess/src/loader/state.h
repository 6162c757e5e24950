// A loader's state as bytes: what decides about the next batch, and nothing that can be read again from the files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loader/admissions.h"
#include "loader/config.h"
#include "loader/shuffler.h"

namespace ludus::chess::loader {

struct SavedSource {
  std::string path;
  uint64_t size = 0;
  uint64_t chunks = 0;
};

struct LoaderState {
  uint64_t batch = 0;  // Batches that were taken.
  std::vector<SavedSource> sources;
  Shuffler::Saved shuffler;
  Admissions::Saved admissions;
};

std::vector<uint8_t> write_state(const LoaderConfig& config, const LoaderState& state);

// Throws std::invalid_argument: not a state, damaged, or of another config (the fields that decide are compared).
LoaderState read_state(const LoaderConfig& config, std::span<const uint8_t> bytes);

}  // namespace ludus::chess::loader
