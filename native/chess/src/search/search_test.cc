#include "search/search.h"

#include "board/notation.h"
#include "encoding/policy.h"
#include "testing/testing.h"

using namespace ludus::chess;

namespace {

void run(Search& search, int visits) {
  while (const int count = search.collect(32, visits, 4)) {
    const std::vector<float> logits(static_cast<std::size_t>(count) * kPolicySize, 0.0F);
    const std::vector<Evaluation> values(count, Evaluation{0.1, 0.3, 40});
    search.apply(logits, values);
  }
}

int visits_of_children(const Tree& tree) {
  int sum = 0;
  for (const Tree::Edge& edge : tree.edges(tree.root()))
    if (edge.child >= 0) sum += tree.node(edge.child).visits;
  return sum;
}

}  // namespace

TEST(games_are_played_to_their_end) {
  SearchOptions options;
  options.noise_epsilon = 0.25;
  std::vector<Game> games(6, Game(Position::from_fen("8/5k2/8/8/2q5/8/1K6/8 b - - 80 60")));
  Search search(games, options);
  int moves = 0;
  for (bool playing = true; playing; ++moves) {
    run(search, 40);
    playing = false;
    for (int i = 0; i < search.size(); ++i) {
      const Tree& tree = search.tree(i);
      if (tree.is_over()) continue;
      playing = true;
      CHECK_EQ(tree.root().in_flight, 0);
      CHECK(tree.root().visits >= 40);
      CHECK_EQ(visits_of_children(tree) + 1, tree.root().visits);
      search.push(i, tree.principal_variation().front());
    }
  }
  CHECK(moves > 3 && moves < 40);
}

TEST(mate_in_two_is_proven) {
  Search search({Game(Position::from_fen("7k/8/5K2/8/8/8/8/6R1 w - - 0 1"))}, {});
  run(search, 3'000);
  CHECK_EQ(static_cast<int>(search.tree(0).root().proven), 1);
  CHECK_EQ(search.tree(0).principal_variation().size(), 3U);
}

TEST_MAIN()
