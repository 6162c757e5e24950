#include "loader/directory_watch/directory_watch.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "loader/testing_chunks.h"
#include "testing/testing.h"

using namespace ludus::chess::loader;
using ludus::chess::loader::testing::Folder;

namespace {

class Watching {  // A watch in a thread of its own, and what it has found.
 public:
  explicit Watching(const std::string& directory, double rescan_s = 3600) : watch_(directory, rescan_s, 3600) {
    thread_ = std::thread([this] {
      watch_.run(stop_, [this](const std::vector<std::string>& paths, bool is_first) {
        const std::lock_guard lock(mutex_);
        is_scanned_ = is_scanned_ || is_first;
        found_.insert(found_.end(), paths.begin(), paths.end());
        changed_.notify_all();
      });
    });
  }
  ~Watching() {
    stop_ = true;
    thread_.join();
  }
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return is_scanned_ && found_.size() >= count; });
    return found_;
  }
  const DirectoryWatch::Counts& counts() const { return watch_.counts(); }

 private:
  DirectoryWatch watch_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_scanned_ = false;
  std::vector<std::string> found_;
  std::thread thread_;
};

}  // namespace

TEST(finds_what_is_there_in_order_of_names_and_skips_the_rest) {
  const Folder folder;
  for (const char* name : {"b.gz", "sub/a.gz", "c.tar", ".hidden.gz", "notes.txt", "d.gz.tmp"}) folder.write(name, {1});
  Watching watching(folder.path());
  CHECK(watching.wait_for(3) == (std::vector<std::string>{"sub/a.gz", "b.gz", "c.tar"}));
  CHECK_EQ(watching.counts().skipped.load(), 2U);
}

TEST(finds_files_that_are_written_moved_and_linked_in_later) {
  const Folder folder;
  Watching watching(folder.path());
  CHECK(watching.wait_for(0).empty());
  folder.write("a.gz", {1});
  CHECK_EQ(watching.wait_for(1).size(), 1U);
  folder.write(".b.gz", {1});
  std::filesystem::rename(folder.path() + "/.b.gz", folder.path() + "/b.gz");
  CHECK_EQ(watching.wait_for(2).back(), "b.gz");
  std::filesystem::create_hard_link(folder.path() + "/a.gz", folder.path() + "/c.gz");
  CHECK_EQ(watching.wait_for(3).back(), "c.gz");
  folder.write("new/folder/d.gz", {1});
  CHECK_EQ(watching.wait_for(4).back(), "new/folder/d.gz");
}

TEST(waits_for_a_file_that_is_open_for_writing) {
  const Folder folder;
  std::ofstream half(folder.path() + "/a.gz");
  half << "half" << std::flush;
  Watching watching(folder.path());
  CHECK(watching.wait_for(0).empty());
  folder.write("b.gz", {1});
  CHECK(watching.wait_for(1) == (std::vector<std::string>{"b.gz"}));
  half.close();
  CHECK(watching.wait_for(2) == (std::vector<std::string>{"b.gz", "a.gz"}));
}

TEST(waits_for_a_directory_that_is_not_there_yet) {
  const Folder folder;
  Watching watching(folder.path() + "/later");
  CHECK(watching.wait_for(0).empty());
  folder.write("later/a.gz", {1});
  CHECK_EQ(watching.wait_for(1).size(), 1U);
}

TEST_MAIN()
