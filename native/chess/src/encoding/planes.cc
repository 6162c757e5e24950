#include "encoding/planes.h"

#include <algorithm>

namespace ludus::chess {
namespace {

bool keeps_repeated_only(int format) { return format == 5 || format == 133; }

// The last step of a history, or beyond it: what a canonical format does not look back across.
enum class Reach { kOn, kLast, kBeyond };

Reach reach_of(const Position& then, const Position& now, bool is_now) {
  const bool is_cut = !then.same_castling(now) || (!is_now && then.en_passant >= 0);
  if (is_cut) return Reach::kBeyond;
  return then.rule50 == 0 ? Reach::kLast : Reach::kOn;
}

class HistoryWriter {
 public:
  HistoryWriter(Color us, std::array<Bitboard, kHistoryPlanes>& out) : us_(us), out_(out) {}

  bool is_full() const { return steps_ == kHistorySteps; }
  Bitboard* add(const Game::Entry& entry) {
    Bitboard* step = out_.data() + kPlanesPerStep * steps_++;
    for (int piece = kPawn; piece <= kKing; ++piece) {
      const Bitboard all = seen(entry.position.pieces[piece]);
      const Bitboard ours = seen(entry.position.colors[us_]);
      step[piece] = all & ours;
      step[6 + piece] = all & ~ours;
    }
    step[12] = entry.repetitions > 0 ? ~Bitboard{0} : 0;
    return step;
  }
  // The position before `entry` as far as it is known: the pawn that may be taken in passing has not moved yet.
  void add_before(const Game::Entry& entry) {
    Bitboard* step = add(entry);
    const int behind = entry.position.en_passant;
    if (behind < 0) return;
    const bool is_ours = entry.position.to_move != us_;
    const int forward = rank_of(behind) == 2 ? 8 : -8;
    step[is_ours ? kPawn : 6 + kPawn] ^= seen(bit(behind + forward) | bit(behind - forward));
  }

 private:
  Bitboard seen(Bitboard set) const { return us_ == kBlack ? flip_ranks(set) : set; }

  const Color us_;
  std::array<Bitboard, kHistoryPlanes>& out_;
  int steps_ = 0;
};

bool is_usual_start(const Position& position) {
  static const std::uint64_t key = Position::from_fen(kStartFen).key();
  return position.key() == key;
}

void write_history(const Game& game, HistoryFill fill, Input& input) {
  const Position& now = game.position();
  HistoryWriter writer(now.to_move, input.history);
  Reach reach = Reach::kOn;
  int ago = 0;
  for (; ago < game.size() && reach == Reach::kOn && !writer.is_full(); ++ago) {
    const Game::Entry& entry = game.back(ago);
    if (is_canonical(input.format)) reach = reach_of(entry.position, now, ago == 0);
    if (reach == Reach::kBeyond) return;
    if (ago == 0 || entry.repetitions > 0 || !keeps_repeated_only(input.format)) writer.add(entry);
  }
  const Game::Entry& first = game.at(0);
  const bool fills = fill == HistoryFill::kAlways || (fill == HistoryFill::kFenOnly && !is_usual_start(first.position));
  const bool is_cut = is_canonical(input.format) && first.position.en_passant >= 0;
  if (!fills || is_cut || reach != Reach::kOn || keeps_repeated_only(input.format)) return;
  while (!writer.is_full()) writer.add_before(first);
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

HistoryFill parse_history_fill(std::string_view name) {
  if (name == "no") return HistoryFill::kNo;
  if (name == "fen_only") return HistoryFill::kFenOnly;
  if (name == "always") return HistoryFill::kAlways;
  throw std::invalid_argument("history_fill must be no, fen_only or always");
}

Input encode_input(const Game& game, int format, HistoryFill fill) {
  if (!is_known_format(format)) throw std::invalid_argument("input format " + std::to_string(format) + " is none of 1 to 5, 132, 133");
  Input input;
  input.format = format;
  const Position& p = game.position();
  const Color us = p.to_move;
  const Color them = static_cast<Color>(1 - us);
  input.transform = is_canonical(format) ? canonical_transform(p) : kNoTransform;
  write_history(game, fill, input);
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
  const auto plane = [out](int number) { return out + 64 * number; };
  std::fill(plane(104), plane(112), 0.0F);
  const std::array<std::uint8_t, 4> castling{input.castling_us_ooo, input.castling_us_oo, input.castling_them_ooo,
                                             input.castling_them_oo};
  if (input.format == 1) {
    for (int i = 0; i < 4; ++i) fill(plane(104 + i), castling[i] ? 1.0F : 0.0F);
  } else {
    for (int i = 0; i < 2; ++i) expand(castling[i] | Bitboard{castling[i + 2]} << 56, plane(104 + i));
  }
  const float black = input.black_to_move ? 1.0F : 0.0F;
  if (is_canonical(input.format)) {
    expand(Bitboard{input.side_to_move_or_en_passant} << 56, plane(108));
  } else {
    fill(plane(108), black);
  }
  fill(plane(109), static_cast<float>(input.rule50) / (input.format <= 3 ? 99.0F : 100.0F));
  if (input.format >= 132) fill(plane(110), black);
  fill(plane(111), 1.0F);
}

}  // namespace ludus::chess
