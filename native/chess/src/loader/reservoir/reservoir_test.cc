#include "loader/reservoir/reservoir.h"

#include <set>

#include "loader/chunk_pool/journaled.h"
#include "testing/testing.h"

using namespace ludus::chess::loader;

TEST(what_goes_in_comes_out_once) {
  Reservoir reservoir(10);
  Random random(1);
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < 10; ++i) reservoir.add({.position = {.chunk = i, .index = 0}, .copy = {}});
  CHECK(reservoir.is_full());
  for (uint32_t i = 10; i < 1000; ++i) {
    out.insert(reservoir.exchange({.position = {.chunk = i, .index = 0}, .copy = {}}, random).position.chunk);
  }
  CHECK_EQ(out.size(), 990U);
  CHECK_EQ(reservoir.size(), 10U);
}

TEST(a_journal_knows_the_past_until_it_forgets_it) {
  Journaled<int> items;
  Random random(1);
  std::vector<std::vector<int>> past;
  std::vector<uint64_t> marks;
  std::vector<int> model;
  for (int step = 0; step < 2000; ++step) {
    if (step % 100 == 0) {
      past.push_back(model);
      marks.push_back(items.mark());
    }
    const uint32_t choice = random.below(3);
    if (choice == 0 || model.empty()) {
      items.push(step);
      model.push_back(step);
    } else if (choice == 1) {
      const size_t index = random.below(static_cast<uint32_t>(model.size()));
      items.set(index, step);
      model[index] = step;
    } else {
      CHECK_EQ(items.pop(), model.back());
      model.pop_back();
    }
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    items.forget_before(marks[i]);
    for (size_t later = i; later < marks.size(); ++later) CHECK(items.at(marks[later]) == past[later]);
  }
}

TEST_MAIN()
