#include "loader/tensors/tensors.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "loader/decoder.h"
#include "loader/random.h"
#include "loader/tensors/batch.h"
#include "loader/testing_chunks.h"
#include "testing/testing.h"

using namespace ludus::chess;
using namespace ludus::chess::loader;

namespace {

// Records whose history follows, is cut, or is another one altogether.
std::vector<V6Record> wild_records(uint64_t seed, int count) {
  Random random(seed);
  std::vector<V6Record> records;
  for (int i = 0; i < count; ++i) {
    V6Record record = loader::testing::make_record(i);
    for (size_t plane = 0; plane < 13; ++plane) record.planes[plane] = random.next();
    const uint32_t kind = random.below(4);
    for (size_t step = 1; step < 8 && i > 0; ++step) {
      if (kind == 1 && step > 3) break;
      for (size_t plane = 0; plane < 13; ++plane) {
        const size_t from = (step - 1) * 13 + (plane == 12 ? 12 : (plane + 6) % 12);
        record.planes[step * 13 + plane] = kind == 2 ? random.next() : __builtin_bswap64(records.back().planes[from]);
      }
    }
    records.push_back(record);
  }
  return records;
}

}  // namespace

TEST(a_packed_game_gives_back_every_plane) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto records = wild_records(seed, 40);
    Game game;
    LegalMoves moves;
    for (size_t i = 0; i < records.size(); ++i) {
      const Record record{.data = reinterpret_cast<const uint8_t*>(&records[i]), .version = 6};
      find_legal_moves(record, moves);
      game.add(record, numbers_of(record), moves, i > 0 && i % 7 != 0);
    }
    game.finish();
    for (size_t i = 0; i < records.size(); ++i) {
      Planes planes;
      game.planes(i, planes);
      for (size_t plane = 0; plane < kPlanes; ++plane) {
        const uint64_t expected = records[i].planes[plane];  // a copy: records are packed, so it may be misaligned
        CHECK_EQ(planes[plane], expected);
      }
    }
  }
}

TEST(a_copy_of_a_position_gives_back_all_of_it_and_its_memory_is_counted) {
  std::atomic<size_t> total{0};
  const auto records = wild_records(7, 40);
  Game game;
  LegalMoves moves;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record record{.data = reinterpret_cast<const uint8_t*>(&records[i]), .version = 6};
    find_legal_moves(record, moves);
    game.add(record, numbers_of(record), moves, i > 0);
  }
  game.finish();
  const auto rows = [](const auto&... position) {
    alignas(64) static float planes[kPlaneFloats];
    std::vector<float> all(kMoves + kValueFloats);
    write_planes(position..., planes);
    write_policy(position..., all.data());
    write_values(position..., all.data() + kMoves);
    all.insert(all.end(), planes, planes + kPlaneFloats);
    std::vector<uint32_t> bits(all.size());  // NaN is equal to itself here.
    std::memcpy(bits.data(), all.data(), all.size() * sizeof(float));
    return bits;
  };
  {
    std::vector<Packed> copies;
    size_t bytes = 0;
    for (size_t i = 0; i < game.size(); ++i) {
      copies.emplace_back(game, i, total);
      bytes += copies.back().bytes();
      CHECK(rows(copies.back()) == rows(game, i));
    }
    CHECK_EQ(total.load(), bytes);
    const Packed moved = std::move(copies[3]);
    CHECK(!copies[3] && moved);
    CHECK_EQ(total.load(), bytes);
  }
  CHECK_EQ(total.load(), 0U);
}

TEST(memory_of_a_batch_is_used_again_when_it_is_dropped) {
  const auto memory = BatchMemory::make(4, 2);
  auto first = memory->take();
  const float* place = first->planes;
  auto second = memory->take();
  CHECK(second->planes != place);
  first.reset();
  CHECK_EQ(memory->take()->planes, place);
  CHECK_EQ(reinterpret_cast<uintptr_t>(second->policy) % 64, 0U);
  CHECK_EQ(reinterpret_cast<uintptr_t>(second->values) % 64, 0U);
}

TEST(bad_records_are_left_out_and_the_rest_is_used) {
  LoaderConfig config;
  config.check_moves = false;
  auto raw = loader::testing::make_chunk(5);
  const float bad = 7;
  std::memcpy(raw.data() + 2 * kV6Size + 8284, &bad, 4);
  Decoder decoder(config);
  const Decoded decoded = decoder.decode_bytes(loader::testing::gzip(raw));
  CHECK_EQ(decoded.game->size(), 4U);
  CHECK_EQ(decoded.refusals.size(), 1U);
  CHECK_EQ(decoded.refusals[0].reason, "value");
  CHECK_EQ(decoded.refusals[0].offset, 2 * kV6Size);
}

TEST(chunks_of_wrong_sizes_and_versions_are_refused_whole) {
  LoaderConfig config;
  config.max_positions = 10;
  config.max_ratio = 5000;
  Decoder decoder(config);
  const auto reason = [&](const loader::testing::Bytes& raw) {
    const Decoded decoded = decoder.decode_bytes(loader::testing::gzip(raw));
    CHECK(!decoded.game);
    return decoded.refusals.at(0).reason;
  };
  auto raw = loader::testing::make_chunk(3);
  raw.pop_back();
  CHECK_EQ(reason(raw), "size");
  raw[0] = 9;
  CHECK_EQ(reason(raw), "version");
  CHECK_EQ(reason({}), "version");
  CHECK_EQ(reason({6, 0}), "version");
  CHECK_EQ(reason(loader::testing::make_chunk(11)), "bomb");
}

TEST_MAIN()
