#include "loader/validation/validation.h"

#include <functional>
#include <limits>

#include "loader/testing_chunks.h"
#include "testing/testing.h"

using namespace ludus::chess;
using namespace ludus::chess::loader;

namespace {

std::string reason_of(const std::function<void(V6Record&)>& damage, int input_format = 0) {
  V6Record raw = loader::testing::make_record(0);
  raw.visits = 10;
  raw.best_idx = 10;
  raw.played_idx = 20;
  damage(raw);
  const Record record{.data = reinterpret_cast<const uint8_t*>(&raw), .version = 6};
  LegalMoves moves;
  find_legal_moves(record, moves);
  const auto refusal = check_record(record, numbers_of(record), moves, input_format);
  return refusal ? refusal->reason : "";
}

}  // namespace

TEST(a_good_record_passes) {
  CHECK_EQ(reason_of([](V6Record&) {}), "");
  CHECK_EQ(reason_of([](V6Record& r) { r.orig_q = std::numeric_limits<float>::quiet_NaN(); }), "");
  CHECK_EQ(reason_of([](V6Record& r) { r.probabilities[30] = std::numeric_limits<float>::quiet_NaN(); }), "");
}

TEST(each_rule_refuses_with_its_reason) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_EQ(reason_of([](V6Record& r) { r.version = 5; }), "version");
  CHECK_EQ(reason_of([](V6Record& r) { r.input_format = 6; }), "input_format");
  CHECK_EQ(reason_of([](V6Record& r) { r.input_format = 257; }), "input_format");
  CHECK_EQ(reason_of([](V6Record&) {}, 2), "input_format");
  CHECK_EQ(reason_of([](V6Record& r) { r.best_q = 1.5F; }), "value");
  CHECK_EQ(reason_of([&](V6Record& r) { r.root_q = nan; }), "value");
  CHECK_EQ(reason_of([](V6Record& r) { r.result_d = -0.5F; }), "value");
  CHECK_EQ(reason_of([&](V6Record& r) { r.plies_left = infinity; }), "value");
  CHECK_EQ(reason_of([](V6Record& r) { r.castling_us_oo = 2; }), "castling");
  CHECK_EQ(reason_of([](V6Record& r) { r.side_to_move_or_enpassant = 2; }), "side");
  CHECK_EQ(reason_of([](V6Record& r) { r.rule50_count = 101; }), "rule50");
  CHECK_EQ(reason_of([](V6Record& r) { r.probabilities[10] = -0.5F; }), "probability");
  CHECK_EQ(reason_of([](V6Record& r) { r.probabilities[10] = 0.5F; }), "policy_sum");
  CHECK_EQ(reason_of([](V6Record& r) { r.best_idx = 11; }), "illegal_move");
  CHECK_EQ(reason_of([](V6Record& r) { r.played_idx = 65535; }), "illegal_move");
}

TEST(legal_moves_are_those_that_are_not_minus_one) {
  V6Record raw = loader::testing::make_record(0);
  raw.probabilities[0] = 0;
  raw.probabilities[1857] = 0;
  const Record record{.data = reinterpret_cast<const uint8_t*>(&raw), .version = 6};
  LegalMoves moves;
  find_legal_moves(record, moves);
  CHECK(moves.indices == (std::vector<uint16_t>{0, 10, 20, 1857}));
  CHECK(moves.contains(1857) && !moves.contains(1856));
}

TEST_MAIN()
