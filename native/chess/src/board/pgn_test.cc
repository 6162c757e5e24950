#include "board/pgn.h"

#include <random>
#include <sstream>

#include "testing/testing.h"

using namespace ludus::chess;

namespace {

std::vector<PgnGame> read(const std::string& text) {
  PgnReader reader(std::make_unique<std::istringstream>(text));
  std::vector<PgnGame> games;
  for (PgnGame game; reader.next(game);) games.push_back(game);
  return games;
}

}  // namespace

TEST(a_game_is_its_main_line) {
  const auto games = read("[White \"A\"]\n\n1. e4 {x} (1. d4) e5 $1 2. Nf3! Nc6 1-0\n\n[White \"B\"]\n\n1. d4 *");
  CHECK_EQ(games.size(), 2U);
  CHECK_EQ(games[0].moves.size(), 4U);
  CHECK_EQ(games[0].moves[3], "b8c6");
  CHECK_EQ(games[0].result, "1-0");
  CHECK_EQ(*games[1].tag("White"), "B");
  CHECK(games[0].problems.empty() && games[1].problems.empty());
}

TEST(any_text_ends) {
  std::mt19937 random(4);
  const std::string alphabet = "[]{}();$%\"\\\n 1.*-=+#NBRQKabcdefgh12345678xO0\xff";
  for (int i = 0; i < 3'000; ++i) {
    std::string text;
    for (auto k = random() % 300; k > 0; --k) text += random() % 50 == 0 ? '\0' : alphabet[random() % alphabet.size()];
    for (const PgnGame& game : read(text)) CHECK(game.moves.size() < 300);
  }
}

TEST_MAIN()
