#include "loader/chunk_sources/chunk_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ludus::chess::loader {
namespace {

class File {  // An open file that closes itself. O_NONBLOCK: a FIFO must not hold up the loader.
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Refusal gone(const std::string& path) {
  return {.reason = "unreadable", .detail = std::strerror(errno), .file = path, .member = {}};
}

std::string name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

bool is_chunk_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && (name.ends_with(".gz") || name.ends_with(".tar"));
}

std::string chunk_key(const ChunkSource& source, size_t index) {
  return source.is_tar ? source.key + "#" + std::to_string(index) : source.key;
}

OpenedSource open_source(const std::string& directory, const std::string& path, uint64_t max_members) {
  OpenedSource opened;
  ChunkSource& source = opened.source;
  source.path = path;
  source.key = name_of(path);
  source.is_tar = path.ends_with(".tar");
  struct stat status {};
  const bool is_there = ::stat((directory + "/" + path).c_str(), &status) == 0;
  if (is_there && !S_ISREG(status.st_mode)) {  // Not even opened: a device may act on it.
    opened.fault = Refusal{.reason = "unreadable", .detail = "not a regular file", .file = path, .member = {}};
    source.is_tar = true;  // No members: nothing to read.
    return opened;
  }
  const File file(directory + "/" + path);
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) {
    opened.fault = gone(path);
    source.is_tar = true;
    return opened;
  }
  source.size = static_cast<uint64_t>(status.st_size);
  if (!source.is_tar) return opened;
  TarIndex index = index_tar(file.fd(), source.size, max_members);
  source.members = std::move(index.members);
  source.skipped = index.skipped;
  opened.fault = std::move(index.fault);
  if (opened.fault) opened.fault->file = path;
  return opened;
}

std::optional<Refusal> read_chunk(const std::string& directory, const ChunkSource& source, size_t index,
                                  std::vector<uint8_t>& bytes) {
  if (source.is_gone) {
    return Refusal{.reason = "gone", .detail = "the file has changed since the state was saved", .file = {}, .member = {}};
  }
  const TarMember where = source.is_tar ? source.members[index] : TarMember{.offset = 0, .size = source.size};
  if (where.size > kMaxChunkBytes) {
    return Refusal{.reason = "bomb", .detail = "a chunk of " + std::to_string(where.size) + " bytes", .file = {}, .member = {}};
  }
  const File file(directory + "/" + source.path);
  if (file.fd() < 0) return gone(source.path);
  bytes.resize(where.size);
  size_t done = 0;
  while (done < where.size) {
    const ssize_t got =
        ::pread(file.fd(), bytes.data() + done, where.size - done, static_cast<off_t>(where.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return gone(source.path);
    if (got == 0) return Refusal{.reason = "unreadable", .detail = "the file has become shorter", .file = {}, .member = {}};
    done += static_cast<size_t>(got);
  }
  return std::nullopt;
}

}  // namespace ludus::chess::loader
