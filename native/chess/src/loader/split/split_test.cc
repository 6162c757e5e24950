#include "loader/split/split.h"

#include "testing/testing.h"

using namespace ludus::chess::loader;

TEST(every_key_is_in_exactly_one_part_in_proportion) {
  const std::vector<std::pair<std::string, double>> weights{{"train", 8}, {"validation", 1}, {"test", 1}};
  std::vector<int> counts(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::string key = "training." + std::to_string(i) + ".gz";
    int parts = 0;
    for (size_t part = 0; part < 3; ++part) {
      const bool takes = Split(weights, weights[part].first).takes(key);
      parts += takes;
      counts[part] += takes;
    }
    CHECK_EQ(parts, 1);
    CHECK(Split().takes(key));
  }
  CHECK(counts[0] > 7800 && counts[0] < 8200 && counts[1] > 900 && counts[1] < 1100);
}

TEST(a_key_never_changes_sides) {  // The hash is a promise: these were written down once.
  const std::vector<std::pair<std::string, double>> weights{{"train", 1}, {"test", 1}};
  const Split train(weights, "train");
  std::string sides;
  for (int i = 0; i < 16; ++i) sides += train.takes("training." + std::to_string(i) + ".gz") ? 'a' : 'b';
  CHECK_EQ(sides, "aaaaabaaabbbaaba");
}

TEST_MAIN()
