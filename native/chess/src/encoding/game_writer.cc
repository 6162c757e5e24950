#include "encoding/game_writer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "board/game.h"
#include "board/notation.h"
#include "encoding/planes.h"

namespace ludus::chess {
namespace {

constexpr float kSumTolerance = 0.01F;

void write_input(const Input& input, V6Record& record) {
  record.input_format = static_cast<std::uint32_t>(input.format);
  for (int i = 0; i < kHistoryPlanes; ++i) record.planes[i] = flip_files(input.history[i]);
  record.castling_us_ooo = input.castling_us_ooo;
  record.castling_us_oo = input.castling_us_oo;
  record.castling_them_ooo = input.castling_them_ooo;
  record.castling_them_oo = input.castling_them_oo;
  record.side_to_move_or_enpassant = input.side_to_move_or_en_passant;
  record.rule50_count = static_cast<std::uint8_t>(std::min(input.rule50, 255));
  if (is_canonical(input.format))
    record.invariance_info = static_cast<std::uint8_t>(input.transform | (input.black_to_move ? kBlackToMove : 0));
}

// Legal moves get 0, others -1, then the policy is written over it. Returns the most probable index.
int write_policy(const Position& position, int transform, const PlyTargets& ply, V6Record& record) {
  std::fill(std::begin(record.probabilities), std::end(record.probabilities), -1.0F);
  const MoveList moves = position.legal_moves();
  std::vector<int> transformed(kPolicySize, -1);
  for (const Move move : moves) {
    const int index = policy_index(position, move, transform);
    transformed[policy_index(position, move)] = index;
    record.probabilities[index] = 0;
  }
  float sum = 0, most = -1;
  int best = -1;
  for (const auto& [index, probability] : ply.policy) {
    if (index < 0 || index >= kPolicySize || transformed[index] < 0)
      throw std::invalid_argument("policy index " + std::to_string(index) + " is no legal move in " + position.fen());
    if (!std::isfinite(probability) || probability < 0) throw std::invalid_argument("a probability is " + std::to_string(probability));
    record.probabilities[transformed[index]] = probability;
    sum += probability;
    if (probability > most) {
      most = probability;
      best = transformed[index];
    }
  }
  if (moves.size() == 1 && sum == 0) {
    best = policy_index(position, moves[0], transform);
    record.probabilities[best] = sum = 1;
  }
  if (std::abs(sum - 1) > kSumTolerance) throw std::invalid_argument("probabilities sum to " + std::to_string(sum));
  if (ply.best_index < 0) return best;
  if (ply.best_index >= kPolicySize || transformed[ply.best_index] < 0)
    throw std::invalid_argument("best index " + std::to_string(ply.best_index) + " is no legal move in " + position.fen());
  return transformed[ply.best_index];
}

void write_values(const PlyTargets& ply, V6Record& record) {
  record.root_q = ply.root.q;
  record.root_d = ply.root.d;
  record.root_m = ply.root.m;
  record.best_q = ply.best.q;
  record.best_d = ply.best.d;
  record.best_m = ply.best.m;
  record.played_q = ply.played.q;
  record.played_d = ply.played.d;
  record.played_m = ply.played.m;
  record.orig_q = ply.orig.q;
  record.orig_d = ply.orig.d;
  record.orig_m = ply.orig.m;
  record.visits = ply.visits;
  record.policy_kld = ply.policy_kld;
  if (ply.best_is_proven) record.invariance_info |= kBestProven;
}

}  // namespace

std::vector<V6Record> encode_game(const std::string& start_fen, const std::vector<std::string>& moves,
                                  const std::vector<PlyTargets>& plies, const GameTargets& targets) {
  if (moves.size() != plies.size())
    throw std::invalid_argument(std::to_string(moves.size()) + " moves with targets for " + std::to_string(plies.size()));
  Game game(Position::from_fen(start_fen));
  std::vector<V6Record> out(moves.size());
  // Without an estimate of the engine, the last move ends the game.
  const float last_m = plies.empty() || std::isnan(plies.back().best.m) ? 1.0F : plies.back().best.m;
  float plies_left = last_m + static_cast<float>(moves.size()) - 1;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    V6Record& record = out[i];
    try {
      const Input input = encode_input(game, targets.input_format);
      write_input(input, record);
      const Move move = parse_uci(game.position(), moves[i]);
      record.best_idx = static_cast<std::uint16_t>(write_policy(game.position(), input.transform, plies[i], record));
      record.played_idx = static_cast<std::uint16_t>(policy_index(game.position(), move, input.transform));
      write_values(plies[i], record);
      const int result = game.position().to_move == kWhite ? targets.result : -targets.result;
      record.result_q = static_cast<float>(result);
      record.result_d = result == 0 ? 1.0F : 0.0F;
      record.plies_left = plies_left;
      plies_left -= 1;
      if (targets.adjudicated) record.invariance_info |= kAdjudicated;
      if (targets.too_long) record.invariance_info |= kTooLong;
      game.push(move);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("ply " + std::to_string(i) + ": " + error.what());
    }
  }
  return out;
}

}  // namespace ludus::chess
