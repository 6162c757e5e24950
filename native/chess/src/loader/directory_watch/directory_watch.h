// Finds chunk files below a directory: those that are there, in order of their names, then new ones as they come.
//
// A file is reported when nobody writes it any more: its writer has closed it or moved it here (inotify), or a scan finds
// it without a writer (a read lease can be had), or, where the file system cannot say, it has not changed for a while.
// The directory may come into being later, and its subfolders, too. Names that begin with a dot are left alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace ludus::chess::loader {

class DirectoryWatch {
 public:
  using Found = std::function<void(std::vector<std::string> paths, bool is_first_scan)>;

  struct Counts {
    std::atomic<uint64_t> files{0};
    std::atomic<uint64_t> skipped{0};  // Other names, and what is no regular file.
    std::atomic<uint64_t> waiting{0};  // Files that are still being written.
    std::atomic<uint64_t> rescans{0};
  };

  DirectoryWatch(std::string directory, double rescan_s, double settle_s);
  ~DirectoryWatch();
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  // Calls `found` from this thread, first once for the scan (also if there is nothing), until `stop` is set.
  void run(const std::atomic<bool>& stop, const Found& found);

  const Counts& counts() const { return counts_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Unsettled {
    int64_t size = -1;
    int64_t changed_ns = 0;
    Clock::time_point since;
  };

  void scan(const std::string& folder, int depth);
  void look_at(const std::string& path);
  void add_watch(const std::string& folder);
  void read_events();
  void handle(int watch, uint32_t mask, const std::string& name);
  void check_unsettled();
  bool is_settled(const std::string& path, Unsettled& state) const;
  void report(const std::string& path);
  void deliver(const Found& found, bool is_first_scan);

  const std::string directory_;
  const std::chrono::duration<double> rescan_;
  const std::chrono::duration<double> settle_;
  int inotify_ = -1;
  std::unordered_map<int, std::string> folders_;  // By watch descriptor, below the directory.
  std::unordered_set<std::string> seen_;
  std::unordered_set<std::string> skipped_;
  std::map<std::string, Unsettled> unsettled_;
  std::vector<std::string> ready_;
  bool must_rescan_ = false;
  Counts counts_;
};

}  // namespace ludus::chess::loader
