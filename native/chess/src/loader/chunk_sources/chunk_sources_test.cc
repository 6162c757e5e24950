#include "loader/chunk_sources/chunk_source.h"
#include "loader/chunk_sources/gzip.h"
#include "loader/testing_chunks.h"
#include "testing/testing.h"

using namespace ludus::chess::loader;
using namespace ludus::chess::loader::testing;

namespace {

OpenedSource open_tar(const Bytes& tar, uint64_t max_members = 1000) {
  const Folder folder;
  folder.write("a.tar", tar);
  return open_source(folder.path(), "a.tar", max_members);
}

Bytes text(const std::string& words) { return {words.begin(), words.end()}; }

}  // namespace

TEST(inflates_several_members_and_padding) {
  Bytes file = gzip({1, 2, 3});
  const Bytes second = gzip({4});
  file.insert(file.end(), second.begin(), second.end());
  file.resize(file.size() + 100, 0);
  Inflater inflater;
  CHECK(!inflater.inflate(file, {.max_bytes = 100, .max_ratio = 500}));
  const auto out = inflater.output();
  CHECK(Bytes(out.begin(), out.end()) == (Bytes{1, 2, 3, 4}));
}

TEST(refuses_truncated_damaged_and_foreign_data) {
  const Bytes whole = gzip(make_chunk(3));
  Inflater inflater;
  for (size_t size : {size_t{0}, size_t{5}, size_t{18}, whole.size() / 2, whole.size() - 1}) {
    CHECK(inflater.inflate(std::span(whole).first(size), {.max_bytes = 1 << 20, .max_ratio = 500}));
  }
  Bytes damaged = whole;
  damaged[damaged.size() / 2] ^= 0xFF;
  CHECK(inflater.inflate(damaged, {.max_bytes = 1 << 20, .max_ratio = 500}));
  CHECK(inflater.inflate(text("plain text, nothing else"), {.max_bytes = 1 << 20, .max_ratio = 500}));
  CHECK(!inflater.inflate(whole, {.max_bytes = 1 << 20, .max_ratio = 500}));
}

TEST(refuses_bombs_by_size_and_by_ratio_whatever_the_trailer_says) {
  Bytes bomb = gzip(Bytes(10 << 20, 0));
  Inflater inflater;
  CHECK_EQ(inflater.inflate(bomb, {.max_bytes = 1 << 20, .max_ratio = 5000})->reason, "bomb");
  CHECK_EQ(inflater.inflate(bomb, {.max_bytes = 100 << 20, .max_ratio = 100})->reason, "bomb");
  for (size_t i = 1; i <= 4; ++i) bomb[bomb.size() - i] = 0;
  CHECK(inflater.inflate(bomb, {.max_bytes = 1 << 20, .max_ratio = 5000}));
}

TEST(indexes_plain_long_and_pax_names_and_sizes) {
  Bytes tar;
  append_member(tar, tar_header("a.gz", 3), {1, 2, 3});
  append_member(tar, tar_header("folder/", 0, '5'), {});
  append_member(tar, tar_header("link.gz", 0, '2'), {});
  const std::string long_name = std::string(200, 'x') + ".gz";
  append_member(tar, tar_header("././@LongLink", long_name.size() + 1, 'L'), text(long_name + '\0'));
  append_member(tar, tar_header(long_name, 2), {4, 5});
  const std::string records = "9 size=4\n15 path=pax.gz\n";
  append_member(tar, tar_header("pax", records.size(), 'x'), text(records));
  append_member(tar, tar_header("short", 0), {6, 7, 8, 9});
  Bytes base256 = tar_header("b.gz", 0);
  std::memset(base256.data() + 124, 0, 12);
  base256[124] = 0x80;
  base256[135] = 1;
  append_member(tar, base256, {7});
  tar.resize(tar.size() + 1024, 0);
  const auto opened = open_tar(tar);
  CHECK(!opened.fault);
  CHECK_EQ(opened.source.chunk_count(), 4U);
  CHECK_EQ(opened.source.members[2].size, 4U);
  CHECK_EQ(opened.source.members[3].size, 1U);
  CHECK_EQ(opened.source.skipped, 2U);
}

TEST(keeps_members_before_a_fault_and_says_where_it_is) {
  Bytes good;
  append_member(good, tar_header("a.gz", 3), {1, 2, 3});
  Bytes negative = tar_header("n.gz", 0);
  std::memset(negative.data() + 124, 0xFF, 12);
  Bytes junk_pax = tar_header("pax", 5, 'x');
  Bytes words = tar_header("w.gz", 0);
  std::memcpy(words.data() + 124, "hello world", 11);
  const std::vector<Bytes> bad{tar_header("huge.gz", uint64_t{8} << 30), negative, junk_pax, words};
  for (const Bytes& header : bad) {
    Bytes tar = good;
    append_member(tar, header, text("junk!"));
    const auto opened = open_tar(tar);
    CHECK(opened.fault.has_value());
    CHECK_EQ(opened.fault->offset, 1024U);
    CHECK_EQ(opened.fault->file, "a.tar");
    CHECK_EQ(opened.source.chunk_count(), 1U);
  }
  Bytes unsealed = good;
  const Bytes header = tar_header("a.gz", 0);
  unsealed.insert(unsealed.end(), header.begin(), header.end());
  CHECK(open_tar(unsealed).fault.has_value());
  CHECK(open_tar(Bytes(good.begin(), good.begin() + 514)).fault.has_value());
}

TEST(bounds_the_number_of_members) {
  Bytes tar;
  for (int i = 0; i < 20; ++i) append_member(tar, tar_header("a.gz", 0), {});
  const auto opened = open_tar(tar, 10);
  CHECK(opened.fault.has_value());
  CHECK_EQ(opened.source.chunk_count(), 10U);
}

TEST(names_decide_what_is_a_chunk) {
  CHECK(is_chunk_name("a.gz") && is_chunk_name("b.tar"));
  CHECK(!is_chunk_name(".a.gz") && !is_chunk_name("a.gz.tmp") && !is_chunk_name("") && !is_chunk_name("a.zip"));
}

TEST_MAIN()
