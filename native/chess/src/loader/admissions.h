// Files on their way into the pool, the anchor, and at which batch they joined.
//
// Files join when a batch is begun, and it is recorded at which one, so that a resume repeats it. By default they join as
// they arrive; with `admit_at_anchor` they wait until the anchor passes them, at a batch that timing does not change.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "loader/chunk_sources/chunk_source.h"
#include "loader/config.h"
#include "loader/split/split.h"

namespace ludus::chess::loader {

using Source = std::shared_ptr<const ChunkSource>;

struct Admission {
  uint64_t batch = 0;       // Before this one was begun,
  bool when_empty = false;  // or while it was, because the pool was empty.
  std::vector<std::string> paths;
};

class Admissions {
 public:
  struct Saved {
    std::string anchor;
    uint64_t hold_until = 0;  // Until this batch, only what was recorded joins.
    std::vector<Admission> ahead;
  };
  struct Counts {
    uint64_t files = 0, chunks = 0, others = 0, skipped_members = 0, since_anchor = 0, waiting = 0, ahead = 0;
    bool is_scanned = false;
    std::string newest, anchor;
  };
  using Refuse = std::function<void(Refusal)>;

  Admissions(const LoaderConfig& config, Refuse refuse);

  // Before anything is found. `admitted`: files that are in the pool already.
  void restore(Saved saved, const std::vector<Source>& admitted);

  // From the watching thread.
  void found(const std::vector<std::string>& paths, bool is_first_scan);

  // From the shuffling thread: what joins now.
  std::vector<Source> take_before(uint64_t batch);
  std::vector<Source> take_when_empty(uint64_t batch);
  bool is_scanned() const;
  void wait_for_change(double most_s);
  void wake();

  void set_anchor(const std::string& key);
  // Moves the anchor to the newest file, or over the fewest files that have `chunks`. Returns the chunks it passed.
  uint64_t reset_anchor(std::optional<uint64_t> chunks, uint64_t first_free_batch);

  Saved saved_at(uint64_t batch, uint64_t head) const;
  void forget_before(uint64_t batch);
  Counts counts() const;

 private:
  using Name = std::pair<std::string, std::string>;  // Key, path.

  Source open(const std::string& path);
  void open_first_scan(const std::vector<std::string>& paths, std::vector<Source>& opened);
  void note(const Source& source);
  size_t own_chunks(const ChunkSource& source) const;
  std::vector<Source> resolve(const std::vector<std::string>& paths);
  void release_up_to_anchor(uint64_t batch);

  const LoaderConfig& config_;
  const Split split_;
  const Refuse refuse_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_scanned_ = false;
  std::string anchor_;
  uint64_t hold_until_ = 0;
  std::map<Name, size_t> known_;                    // All files: how many chunks of our part they have.
  std::map<Name, Source> waiting_;                  // Not in the pool, not yet asked to join.
  std::unordered_map<std::string, Source> named_;  // In an admission that lies ahead, by path.
  std::unordered_set<std::string> admitted_;        // Known from a state.
  std::deque<Admission> ahead_;
  std::deque<Admission> done_;
  Counts counts_;
};

}  // namespace ludus::chess::loader
