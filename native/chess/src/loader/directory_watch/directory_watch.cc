#include "loader/directory_watch/directory_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "loader/chunk_sources/chunk_source.h"

namespace ludus::chess::loader {
namespace {

constexpr int kTickMs = 50;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxSkippedNames = 100'000;
constexpr uint32_t kEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR;

enum class WriterState { kNone, kSome, kUnknown };

// A read lease is granted only where nobody has the file open for writing. It is given back at once; should someone
// open the file in between, the signal about it is one that is ignored.
WriterState find_writer(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return WriterState::kUnknown;
  WriterState writer = WriterState::kUnknown;
  if (::fcntl(fd, F_SETSIG, SIGURG) == 0) {
    if (::fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
      writer = WriterState::kNone;
      ::fcntl(fd, F_SETLEASE, F_UNLCK);
    } else if (errno == EAGAIN) {
      writer = WriterState::kSome;
    }
  }
  ::close(fd);
  return writer;
}

bool is_gone(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) != 0 && errno == ENOENT;
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool by_name(const std::string& a, const std::string& b) {
  const std::string name_a = file_name(a);
  const std::string name_b = file_name(b);
  return name_a != name_b ? name_a < name_b : a < b;
}

}  // namespace

DirectoryWatch::DirectoryWatch(std::string directory, double rescan_s, double settle_s)
    : directory_(std::move(directory)),
      rescan_(rescan_s),
      settle_(settle_s),
      inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}  // Without inotify, rescans find everything.

DirectoryWatch::~DirectoryWatch() {
  if (inotify_ >= 0) ::close(inotify_);
}

void DirectoryWatch::run(const std::atomic<bool>& stop, const Found& found) {
  scan("", 0);
  check_unsettled();
  deliver(found, true);
  auto scanned = Clock::now();
  while (!stop) {
    pollfd waiting{.fd = inotify_, .events = POLLIN, .revents = 0};
    ::poll(&waiting, inotify_ >= 0 ? 1 : 0, kTickMs);
    if (inotify_ >= 0) read_events();
    // Until the directory is there and watched, every tick looks for it.
    if (must_rescan_ || folders_.empty() || Clock::now() - scanned >= rescan_) {
      must_rescan_ = false;
      scan("", 0);
      ++counts_.rescans;
      scanned = Clock::now();
    }
    check_unsettled();
    if (!ready_.empty() && !stop) deliver(found, false);
  }
}

void DirectoryWatch::scan(const std::string& folder, int depth) {
  if (depth > kMaxDepth) return;
  add_watch(folder);  // Before the listing, so that nothing falls between the two.
  DIR* directory = ::opendir((folder.empty() ? directory_ : directory_ + "/" + folder).c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.empty() || name[0] == '.') continue;
    const std::string path = joined(folder, name);
    if (seen_.contains(path)) continue;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
      struct stat status {};
      is_folder = ::lstat((directory_ + "/" + path).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    }
    if (is_folder) {
      scan(path, depth + 1);
    } else {
      look_at(path);
    }
  }
  ::closedir(directory);
}

void DirectoryWatch::look_at(const std::string& path) {
  if (seen_.contains(path) || unsettled_.contains(path)) return;
  if (is_chunk_name(file_name(path))) {
    unsettled_[path] = {};
  } else if (skipped_.size() < kMaxSkippedNames && skipped_.insert(path).second) {
    ++counts_.skipped;
  }
}

void DirectoryWatch::add_watch(const std::string& folder) {
  if (inotify_ < 0) return;
  const std::string path = folder.empty() ? directory_ : directory_ + "/" + folder;
  const int watch = ::inotify_add_watch(inotify_, path.c_str(), kEvents);
  if (watch >= 0) folders_[watch] = folder;
}

void DirectoryWatch::read_events() {
  alignas(inotify_event) std::array<char, 16'384> buffer;
  ssize_t size = 0;
  while ((size = ::read(inotify_, buffer.data(), buffer.size())) > 0) {
    for (const char* at = buffer.data(); at < buffer.data() + size;) {
      inotify_event event;
      std::memcpy(&event, at, sizeof(event));
      const char* name = at + sizeof(event);
      handle(event.wd, event.mask, std::string(name, event.len == 0 ? 0 : strnlen(name, event.len)));
      at += sizeof(event) + event.len;
    }
  }
}

void DirectoryWatch::handle(int watch, uint32_t mask, const std::string& name) {
  if (mask & IN_Q_OVERFLOW) must_rescan_ = true;
  if (mask & IN_IGNORED) {
    folders_.erase(watch);
    return;
  }
  const auto folder = folders_.find(watch);
  if (folder == folders_.end() || name.empty() || name[0] == '.') return;
  const std::string path = joined(folder->second, name);
  if (mask & IN_ISDIR) {
    scan(path, static_cast<int>(std::count(path.begin(), path.end(), '/')) + 1);
    return;
  }
  look_at(path);
  const bool is_whole = (mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0;
  if (is_whole && unsettled_.contains(path)) report(path);
}

void DirectoryWatch::check_unsettled() {
  std::vector<std::string> settled;
  for (auto entry = unsettled_.begin(); entry != unsettled_.end();) {
    if (is_gone(directory_ + "/" + entry->first)) {
      entry = unsettled_.erase(entry);  // It is found anew should it come back.
      continue;
    }
    if (is_settled(entry->first, entry->second)) settled.push_back(entry->first);
    ++entry;
  }
  for (const std::string& path : settled) report(path);
  counts_.waiting = unsettled_.size();
}

bool DirectoryWatch::is_settled(const std::string& path, Unsettled& state) const {
  const std::string whole = directory_ + "/" + path;
  struct stat status {};
  if (::stat(whole.c_str(), &status) != 0) {  // A link to nothing or to itself: refused if it stays so.
    if (state.since == Clock::time_point()) state.since = Clock::now();
    return Clock::now() - state.since >= settle_;
  }
  if (!S_ISREG(status.st_mode)) return true;              // Refused when it is opened.
  const WriterState writer = find_writer(whole);
  if (writer == WriterState::kNone) return true;
  const int64_t changed = static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (state.size != status.st_size || state.changed_ns != changed) {
    state = {.size = status.st_size, .changed_ns = changed, .since = Clock::now()};
    // What was last changed long ago needs no watching.
    const auto age = std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(changed);
    return writer == WriterState::kUnknown && age >= settle_;
  }
  return writer == WriterState::kUnknown && Clock::now() - state.since >= settle_;
}

void DirectoryWatch::report(const std::string& path) {
  unsettled_.erase(path);
  if (!seen_.insert(path).second) return;
  ready_.push_back(path);
  ++counts_.files;
}

void DirectoryWatch::deliver(const Found& found, bool is_first_scan) {
  std::sort(ready_.begin(), ready_.end(), by_name);
  found(std::exchange(ready_, {}), is_first_scan);
}

}  // namespace ludus::chess::loader
