#include "loader/chunk_pool/chunk_pool.h"

#include <set>

#include "testing/testing.h"

using namespace ludus::chess::loader;

namespace {

std::shared_ptr<const ChunkSource> tar_of(const std::string& key, size_t chunks) {
  ChunkSource source;
  source.key = source.path = key;
  source.is_tar = true;
  source.members.resize(chunks);
  return std::make_shared<const ChunkSource>(source);
}

}  // namespace

TEST(a_pass_draws_every_chunk_once_and_counts_uses) {
  ChunkPool pool(100, Split());
  pool.admit(tar_of("a", 10));
  Random random(1);
  for (uint32_t pass = 0; pass < 3; ++pass) {
    std::set<ChunkId> drawn;
    for (int i = 0; i < 10; ++i) {
      const auto use = pool.draw(random);
      CHECK_EQ(use->use, pass);
      drawn.insert(use->chunk);
    }
    CHECK_EQ(drawn.size(), 10U);
  }
}

TEST(new_chunks_join_the_pass_and_the_oldest_leave) {
  ChunkPool pool(12, Split());
  pool.admit(tar_of("b", 10));
  Random random(1);
  for (int i = 0; i < 10; ++i) pool.draw(random);
  pool.admit(tar_of("c", 5));
  CHECK_EQ(pool.alive(), 12U);
  std::set<ChunkId> drawn;
  for (int i = 0; i < 5; ++i) drawn.insert(pool.draw(random)->chunk);
  CHECK_EQ(*drawn.begin(), 10U);
  pool.admit(tar_of("a", 3));  // Older than all: it leaves at once.
  CHECK(!pool.is_alive(15) && !pool.is_alive(17));
  CHECK(!pool.is_alive(0) && pool.is_alive(9) && pool.is_alive(14));
}

TEST(an_empty_pool_gives_nothing) {
  ChunkPool pool(10, Split());
  Random random(1);
  CHECK(!pool.draw(random).has_value());
  pool.admit(tar_of("a", 1));
  pool.drop(0);
  CHECK(!pool.draw(random).has_value());
}

TEST(the_same_content_twice_is_known_until_the_first_leaves) {
  ChunkPool pool(10, Split());
  pool.admit(tar_of("a", 3));
  CHECK(pool.note_content(0, 77));
  CHECK(pool.note_content(0, 77));
  CHECK(!pool.note_content(1, 77));
  pool.drop(0);
  CHECK(pool.note_content(2, 77));
}

TEST(a_past_state_draws_what_came_next) {
  ChunkPool pool(20, Split());
  std::vector<std::shared_ptr<const ChunkSource>> sources{tar_of("a", 9), tar_of("b", 9)};
  for (const auto& source : sources) pool.admit(source);
  Random random(3);
  for (int i = 0; i < 7; ++i) pool.draw(random);
  const auto marks = pool.marks();
  const Random then = random;
  std::vector<ChunkId> wanted;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) pool.drop(3);
    wanted.push_back(pool.draw(random)->chunk);
  }
  ChunkPool again(20, Split());
  again.restore(sources, pool.saved_at(marks));
  Random repeated = then;
  for (int i = 0; i < 40; ++i) {
    if (i == 20) again.drop(3);
    CHECK_EQ(again.draw(repeated)->chunk, wanted[static_cast<size_t>(i)]);
  }
}

TEST_MAIN()
