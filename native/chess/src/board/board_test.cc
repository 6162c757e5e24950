#include <random>

#include "board/game.h"
#include "board/notation.h"
#include "testing/testing.h"

using namespace ludus::chess;

TEST(perft_to_depth_five) {
  const std::pair<const char*, std::uint64_t> known[] = {
      {kStartFen, 4'865'609},
      {"r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", 193'690'690},
      {"8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 674'624},
      {"r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", 15'833'292},
      {"rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", 89'941'194},
  };
  for (const auto& [fen, leaves] : known) CHECK_EQ(perft(Position::from_fen(fen), 5), leaves);
}

TEST(random_games_keep_their_notation) {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    Game game(Position::from_fen(kStartFen));
    while (!game.outcome() && game.size() < 200) {
      const Position& p = game.position();
      const MoveList moves = p.legal_moves();
      const Move move = moves[static_cast<int>(random() % moves.size())];
      CHECK(parse_uci(p, to_uci(p, move)) == move);
      CHECK(parse_san(p, to_san(p, move)) == move);
      CHECK_EQ(Position::from_fen(p.fen()).fen(), p.fen());
      CHECK_EQ(Position::from_fen(p.fen()).key(), p.key());
      game.push(move);
    }
  }
}

// What parses is a position that can be played; what does not says why. Run under the sanitizers, this is the point.
TEST(changed_fens_are_refused_or_playable) {
  std::mt19937 random(2);
  const std::string alphabet = "pnbrqkPNBRQK12345678/ wb-KQkqABCDEFGHabcdefgh0";
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string fen = i % 2 ? kStartFen : "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1";
    for (int k = 0; k < 1 + i % 3; ++k) fen[random() % fen.size()] = alphabet[random() % alphabet.size()];
    try {
      const Position p = Position::from_fen(fen);
      static_cast<void>(perft(p, 2));
      ++accepted;
    } catch (const std::invalid_argument&) {
    }
  }
  CHECK(accepted > 100);
}

TEST(moves_of_any_text_are_refused_or_legal) {
  std::mt19937 random(3);
  const Position p = Position::from_fen("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1");
  const std::string alphabet = "abcdefgh12345678NBRQKOx=+#-0";
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto k = random() % 8; k > 0; --k) text += alphabet[random() % alphabet.size()];
    for (const auto parse : {parse_uci, parse_san}) {
      try {
        Position next = p;
        next.apply(parse(p, text));
        CHECK(next.to_move == kBlack);
      } catch (const std::invalid_argument&) {
      }
    }
  }
}

TEST_MAIN()
