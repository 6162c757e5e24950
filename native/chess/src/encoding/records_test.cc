#include "encoding/records.h"

#include <cstring>
#include <random>

#include "board/game.h"
#include "board/notation.h"
#include "encoding/game_writer.h"
#include "encoding/validator.h"
#include "testing/testing.h"

using namespace ludus::chess;

namespace {

constexpr int kFormats[] = {1, 2, 3, 4, 5, 132, 133};

std::span<const std::uint8_t> bytes_of(const std::vector<V6Record>& records) {
  return {reinterpret_cast<const std::uint8_t*>(records.data()), records.size() * sizeof(V6Record)};
}

std::vector<V6Record> random_game(std::mt19937& random, int format, const char* fen) {
  Game game(Position::from_fen(fen));
  std::vector<std::string> moves;
  std::vector<PlyTargets> plies;
  while (!game.outcome() && moves.size() < 120) {
    const Position& p = game.position();
    const MoveList legal = p.legal_moves();
    const Move move = legal[static_cast<int>(random() % legal.size())];
    PlyTargets ply;
    ply.policy.emplace_back(policy_index(p, move), 1.0F);
    ply.root = ply.best = ply.played = {0.25F, 0.5F, 20};
    plies.push_back(ply);
    moves.push_back(to_uci(p, move));
    game.push(move);
  }
  return encode_game(fen, moves, plies, {format, 0, false, false});
}

}  // namespace

TEST(written_games_are_valid_in_every_format) {
  std::mt19937 random(5);
  const char* const starts[] = {kStartFen, "8/8/3k4/8/8/2b2K2/5N2/8 w - - 0 1", "8/5k2/8/1pPp4/8/8/1K6/8 w - b6 0 1",
                                "1r2k1r1/pppppppp/8/8/8/8/PPPPPPPP/1R2K1R1 w GBgb - 0 1"};
  for (const int format : kFormats) {
    for (const char* fen : starts) {
      for (int i = 0; i < 5; ++i) {
        const auto game = read_game(bytes_of(random_game(random, format, fen)));
        const auto problem = check_game(game);
        CHECK_EQ(problem ? problem->reason + " at " + std::to_string(problem->record) : "", "");
      }
    }
  }
}

// Bits flip anywhere: a game is refused or accepted, and nothing else happens.
TEST(damaged_games_are_refused_or_accepted) {
  std::mt19937 random(6);
  for (const int format : kFormats) {
    const auto whole = random_game(random, format, kStartFen);
    int refused = 0;
    for (int i = 0; i < 200; ++i) {
      std::vector<V6Record> damaged(whole.begin(), whole.begin() + std::min<std::size_t>(whole.size(), 6));
      auto* data = reinterpret_cast<std::uint8_t*>(damaged.data());
      const std::size_t size = damaged.size() * sizeof(V6Record);
      // Half of the damage goes where the position is.
      const std::size_t at = i % 2 ? random() % size : sizeof(V6Record) * (random() % damaged.size()) + 7440 + random() % 916;
      data[at] ^= static_cast<std::uint8_t>(1U << (random() % 8));
      try {
        refused += check_game(read_game(bytes_of(damaged))).has_value();
      } catch (const RecordError&) {
        ++refused;
      }
    }
    CHECK(refused > 50);
  }
}

TEST(any_bytes_are_read_or_refused) {
  std::mt19937 random(7);
  for (std::uint32_t version = 0; version < 9; ++version) {
    for (int i = 0; i < 40; ++i) {
      const std::size_t size = record_size(version);
      std::vector<std::uint8_t> data((size ? size : 5'000) * (random() % 3) + (random() % 4 == 0 ? random() % 100 : 0));
      for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
      for (std::size_t at = 0; size && at + 4 <= data.size(); at += size) std::memcpy(&data[at], &version, 4);
      try {
        CHECK(check_game(read_game(data)).has_value());
      } catch (const RecordError&) {
      }
    }
  }
}

TEST_MAIN()
