// A short run of the fuzzer with a fixed seed, for every build: damaged chunks, records, tars, states, games and positions.
#include "loader/fuzzing/fuzzing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "loader/random.h"
#include "loader/state.h"
#include "loader/testing_chunks.h"
#include "testing/testing.h"

using namespace ludus::chess::loader;
using ludus::chess::loader::testing::Bytes;

namespace {

constexpr std::string_view kPgn =
    "[Event \"a\"]\n[Result \"1-0\"]\n[FEN \"4k3/P7/8/8/8/8/8/4K2R w K - 0 1\"]\n\n1. O-O {good} (1. a8=Q+ Kd7) Ke7 $1 2. "
    "a8=N ; rest\n1-0\n\n1. e4 e5 2. Nf3 Nc6 3. Bb5 1/2-1/2\n";
constexpr std::string_view kMoves = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1\nO-O e8c8 a4 b4a3 Nxd7";

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

std::vector<Bytes> make_corpus() {
  namespace chunks = ludus::chess::loader::testing;
  const auto tagged = [](uint8_t tag, const Bytes& bytes) {
    Bytes out(bytes.size() + 1, tag);
    std::copy(bytes.begin(), bytes.end(), out.begin() + 1);
    return out;
  };
  Bytes tar;
  chunks::append_member(tar, chunks::tar_header("a.gz", 3), {1, 2, 3});
  const std::string pax = "9 size=4\n15 path=pax.gz\n";
  chunks::append_member(tar, chunks::tar_header("pax", pax.size(), 'x'), {pax.begin(), pax.end()});
  chunks::append_member(tar, chunks::tar_header("b", 0), {1, 2, 3, 4});
  LoaderConfig config;
  config.directory = "/nowhere";
  config.focus.q_weight = 1;
  LoaderState state;
  state.sources = {{.path = "a.gz", .size = 9, .chunks = 1}};
  state.shuffler.pool = {.alive = {1}, .uses = {2}, .contents = {3}, .remaining = {0}};
  state.shuffler.reservoir = {{.chunk = 0, .index = 1}};
  Bytes saved = write_state(config, state);
  saved.resize(saved.size() - 8);  // The checksum: the reader is given a new one.
  Bytes older = chunks::make_chunk(2);
  older[0] = 5;
  older.resize(2 * 8308);
  older[8308] = 5;
  return {tagged(0, chunks::gzip(chunks::make_chunk(2))), tagged(1, chunks::make_chunk(2)), tagged(1, older),
          tagged(2, tar), tagged(3, saved), tagged(4, bytes_of(kPgn)), tagged(5, bytes_of(kMoves))};
}

void mutate(Bytes& bytes, Random& random) {
  const uint32_t changes = 1 + random.below(6);
  for (uint32_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random.below(static_cast<uint32_t>(bytes.size()));
    switch (random.below(6)) {
      case 0: bytes[at] = static_cast<uint8_t>(random.next()); break;
      case 1: bytes[at] ^= static_cast<uint8_t>(1U << random.below(8)); break;
      case 2: bytes.resize(at); break;
      case 3: bytes[at] = random.below(2) ? 0xFF : 0; break;
      case 4: bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<uint8_t>(random.next())); break;
      default:  // Headers are where the readers branch.
        bytes[random.below(static_cast<uint32_t>(std::min<size_t>(bytes.size(), 600)))] = static_cast<uint8_t>(random.next());
    }
  }
}

}  // namespace

TEST(damaged_input_is_read_without_a_fault) {
  const char* seconds = std::getenv("FUZZ_SECONDS");
  const char* count = std::getenv("FUZZ_INPUTS");
  const long inputs = count ? std::atol(count) : 4000;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atol(seconds) : 0);
  const auto corpus = make_corpus();
  Random random(20261118);
  for (const Bytes& whole : corpus) fuzz_one(whole.data(), whole.size());
  for (long run = 0; run < inputs || std::chrono::steady_clock::now() < until; ++run) {
    Bytes bytes = corpus[random.below(static_cast<uint32_t>(corpus.size()))];
    mutate(bytes, random);
    fuzz_one(bytes.data(), bytes.size());
  }
}

TEST_MAIN()
