// Moves as text. Everything throws std::invalid_argument with the reason where a move is not legal.
#pragma once

#include "board/position.h"

namespace ludus::chess {

std::string to_uci(const Position& position, Move move);
Move parse_uci(const Position& position, std::string_view text);
std::string to_san(const Position& position, Move move);
Move parse_san(const Position& position, std::string_view text);

}  // namespace ludus::chess
