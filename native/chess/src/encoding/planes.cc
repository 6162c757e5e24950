#include "encoding/planes.h"

#include <algorithm>

namespace ludus::chess {
namespace {

void write_step(const Game::Entry& entry, Color us, Bitboard* out) {
  const Position& p = entry.position;
  for (int side = 0; side < 2; ++side) {
    const auto color = static_cast<Color>(side == 0 ? us : 1 - us);
    for (int piece = kPawn; piece <= kKing; ++piece) {
      const Bitboard set = p.of(color, static_cast<Piece>(piece));
      out[side * 6 + piece] = us == kBlack ? flip_ranks(set) : set;
    }
  }
  out[12] = entry.repetitions > 0 ? ~0ULL : 0;
}

void write_history(const Game& game, Input& input) {
  const Position& now = game.position();
  const bool canonical = is_canonical(input.format);
  int step = 0;
  for (int ago = 0; ago < game.size() && step < kHistorySteps; ++ago) {
    const Game::Entry& entry = game.back(ago);
    // Positions before these points cannot repeat, and a transform must not reach across them.
    if (canonical && !entry.position.same_castling(now)) break;
    if (canonical && ago > 0 && entry.position.en_passant >= 0) break;
    if (!keeps_only_repeated(input.format) || ago == 0 || entry.repetitions > 0)
      write_step(entry, now.to_move, &input.history[kPlanesPerStep * step++]);
    if (canonical && entry.position.rule50 == 0) break;
  }
}

std::uint8_t castling_byte(int file, int format) {
  if (file < 0) return 0;
  return static_cast<std::uint8_t>(format == 1 ? 1 : 1 << file);
}

std::uint8_t en_passant_byte(const Position& p, int transform) {
  if (p.en_passant < 0) return 0;
  const int file = file_of(p.en_passant);
  return static_cast<std::uint8_t>(1 << (transform & kFlip ? 7 - file : file));
}

void fill(float* plane, float value) { std::fill(plane, plane + 64, value); }

void expand(Bitboard mask, float* plane) {
  for (int s = 0; s < 64; ++s) plane[s] = static_cast<float>((mask >> s) & 1);
}

}  // namespace

Input encode_input(const Game& game, int format) {
  if (!is_known_format(format)) throw std::invalid_argument("input format " + std::to_string(format) + " is none of 1 to 5, 132, 133");
  Input input;
  input.format = format;
  const Position& p = game.position();
  const Color us = p.to_move;
  const Color them = static_cast<Color>(1 - us);
  input.transform = is_canonical(format) ? canonical_transform(p) : kNoTransform;
  write_history(game, input);
  if (input.transform != kNoTransform)
    for (Bitboard& mask : input.history) mask = transform_bits(mask, input.transform);
  input.castling_us_ooo = castling_byte(p.castling[us][kQueenside], format);
  input.castling_us_oo = castling_byte(p.castling[us][kKingside], format);
  input.castling_them_ooo = castling_byte(p.castling[them][kQueenside], format);
  input.castling_them_oo = castling_byte(p.castling[them][kKingside], format);
  input.black_to_move = us == kBlack;
  input.side_to_move_or_en_passant =
      is_canonical(format) ? en_passant_byte(p, input.transform) : static_cast<std::uint8_t>(input.black_to_move);
  input.rule50 = p.rule50;
  return input;
}

void write_planes(const Input& input, float* out) {
  for (int i = 0; i < kHistoryPlanes; ++i) expand(input.history[i], out + 64 * i);
  float* aux = out + 64 * kHistoryPlanes;
  std::fill(aux, aux + 64 * 8, 0.0F);
  if (input.format == 1) {
    fill(aux, input.castling_us_ooo ? 1.0F : 0.0F);
    fill(aux + 64, input.castling_us_oo ? 1.0F : 0.0F);
    fill(aux + 128, input.castling_them_ooo ? 1.0F : 0.0F);
    fill(aux + 192, input.castling_them_oo ? 1.0F : 0.0F);
  } else {
    expand(input.castling_us_ooo | (static_cast<Bitboard>(input.castling_them_ooo) << 56), aux);
    expand(input.castling_us_oo | (static_cast<Bitboard>(input.castling_them_oo) << 56), aux + 64);
  }
  if (is_canonical(input.format)) {
    expand(static_cast<Bitboard>(input.side_to_move_or_en_passant) << 56, aux + 256);
  } else {
    fill(aux + 256, input.black_to_move ? 1.0F : 0.0F);
  }
  fill(aux + 320, static_cast<float>(input.rule50) / (is_hectoplies(input.format) ? 100.0F : 99.0F));
  if (is_armageddon(input.format)) fill(aux + 384, input.black_to_move ? 1.0F : 0.0F);
  fill(aux + 448, 1.0F);
}

}  // namespace ludus::chess
