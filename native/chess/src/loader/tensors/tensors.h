// A position as a network sees it: planes [112, 8, 8], policy [1858] (-1 = illegal), values [6, 3], all float32.
#pragma once

#include <cstddef>

#include "loader/tensors/game.h"
#include "loader/tensors/packed.h"

namespace ludus::chess::loader {

inline constexpr size_t kPlaneFloats = 112 * 64;
inline constexpr size_t kValueFloats = 6 * 3;

// Each pointer: the row of the position in its tensor. Planes must be aligned to 16 bytes.
void write_planes(const Game& game, size_t index, float* planes);
void write_policy(const Game& game, size_t index, float* policy);
void write_values(const Game& game, size_t index, float* values);

void write_planes(const Packed& position, float* planes);
void write_policy(const Packed& position, float* policy);
void write_values(const Packed& position, float* values);

}  // namespace ludus::chess::loader
