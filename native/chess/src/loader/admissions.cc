#include "loader/admissions.h"

#include <algorithm>
#include <chrono>

namespace ludus::chess::loader {

Admissions::Admissions(const LoaderConfig& config, Refuse refuse)
    : config_(config), split_(config.split, config.part), refuse_(std::move(refuse)), anchor_(config.anchor) {}

void Admissions::restore(Saved saved, const std::vector<Source>& admitted) {
  const std::lock_guard lock(mutex_);
  anchor_ = std::move(saved.anchor);
  hold_until_ = saved.hold_until;
  ahead_.assign(saved.ahead.begin(), saved.ahead.end());
  for (const Admission& admission : ahead_) {
    for (const std::string& path : admission.paths) named_[path] = nullptr;
  }
  for (const Source& source : admitted) {
    admitted_.insert(source->path);
    note(source);
  }
}

void Admissions::found(const std::vector<std::string>& paths, bool is_first_scan) {
  std::vector<Source> opened;
  if (is_first_scan) {
    open_first_scan(paths, opened);
  } else {
    for (const std::string& path : paths) opened.push_back(open(path));
  }
  const std::lock_guard lock(mutex_);
  for (const Source& source : opened) {
    if (admitted_.contains(source->path)) continue;
    note(source);
    if (source->chunk_count() == 0) continue;
    const auto named = named_.find(source->path);
    if (named != named_.end()) {
      named->second = source;
    } else {
      waiting_[{source->key, source->path}] = source;
    }
  }
  if (is_first_scan) {
    is_scanned_ = true;
    // Without a state, what lies before the anchor has been there all along.
    if (config_.admit_at_anchor && hold_until_ == 0 && ahead_.empty() && admitted_.empty()) release_up_to_anchor(0);
  }
  changed_.notify_all();
}

Source Admissions::open(const std::string& path) {
  OpenedSource opened = open_source(config_.directory, path, config_.max_members);
  if (opened.fault) refuse_(std::move(*opened.fault));
  return std::make_shared<const ChunkSource>(std::move(opened.source));
}

// The newest first, until the pool is full: what is older is opened only if it is to be counted or was asked for.
void Admissions::open_first_scan(const std::vector<std::string>& paths, std::vector<Source>& opened) {
  size_t chunks = 0;
  std::string anchor;
  {
    const std::lock_guard lock(mutex_);
    anchor = anchor_;
  }
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    const std::string key = path->substr(path->rfind('/') + 1);
    const bool is_wanted = chunks < config_.pool_chunks || key > anchor || named_.contains(*path);
    if (!is_wanted || admitted_.contains(*path)) continue;
    opened.push_back(open(*path));
    chunks += own_chunks(*opened.back());
  }
  std::reverse(opened.begin(), opened.end());
}

size_t Admissions::own_chunks(const ChunkSource& source) const {
  size_t own = 0;
  for (size_t i = 0; i < source.chunk_count(); ++i) own += split_.takes(chunk_key(source, i)) ? 1 : 0;
  return own;
}

void Admissions::note(const Source& source) {
  const size_t own = own_chunks(*source);
  if (!known_.emplace(Name{source->key, source->path}, own).second) return;
  ++counts_.files;
  counts_.chunks += own;
  counts_.others += source->chunk_count() - own;
  counts_.skipped_members += source->skipped;
}

std::vector<Source> Admissions::resolve(const std::vector<std::string>& paths) {
  std::vector<Source> sources;
  for (const std::string& path : paths) {
    const auto named = named_.find(path);
    if (named == named_.end()) continue;
    if (named->second) sources.push_back(named->second);  // Else it is gone.
    named_.erase(named);
  }
  return sources;
}

std::vector<Source> Admissions::take_before(uint64_t batch) {
  const std::lock_guard lock(mutex_);
  std::vector<Source> joining;
  while (!ahead_.empty() && ahead_.front().batch <= batch && !ahead_.front().when_empty) {
    const auto sources = resolve(ahead_.front().paths);
    joining.insert(joining.end(), sources.begin(), sources.end());
    done_.push_back(std::move(ahead_.front()));
    done_.back().batch = batch;
    ahead_.pop_front();
  }
  if (config_.admit_at_anchor || batch < hold_until_ || waiting_.empty()) return joining;
  Admission admission{.batch = batch, .when_empty = false, .paths = {}};
  for (auto& [name, source] : waiting_) {
    admission.paths.push_back(name.second);
    joining.push_back(std::move(source));
  }
  waiting_.clear();
  done_.push_back(std::move(admission));
  return joining;
}

std::vector<Source> Admissions::take_when_empty(uint64_t batch) {
  {
    const std::lock_guard lock(mutex_);
    if (!ahead_.empty()) {  // The pool is empty: whatever comes next comes now.
      const auto joining = resolve(ahead_.front().paths);
      done_.push_back(std::move(ahead_.front()));
      done_.back().batch = batch;
      done_.back().when_empty = true;
      ahead_.pop_front();
      return joining;
    }
    if (config_.admit_at_anchor) return {};
    hold_until_ = 0;
  }
  const auto joining = take_before(batch);
  const std::lock_guard lock(mutex_);
  if (!joining.empty()) done_.back().when_empty = true;
  return joining;
}

bool Admissions::is_scanned() const {
  const std::lock_guard lock(mutex_);
  return is_scanned_;
}

void Admissions::wait_for_change(double most_s) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(most_s));
}

void Admissions::wake() { changed_.notify_all(); }

void Admissions::set_anchor(const std::string& key) {
  const std::lock_guard lock(mutex_);
  anchor_ = key;
}

uint64_t Admissions::reset_anchor(std::optional<uint64_t> chunks, uint64_t first_free_batch) {
  const std::lock_guard lock(mutex_);
  uint64_t passed = 0;
  std::string anchor = anchor_;
  for (auto file = known_.upper_bound({anchor_, "\xFF"}); file != known_.end(); ++file) {
    // Files of one name are passed together: the anchor cannot tell them apart.
    if (chunks && passed >= *chunks && file->first.first != anchor) break;
    passed += file->second;
    anchor = file->first.first;
  }
  anchor_ = anchor;
  if (config_.admit_at_anchor) release_up_to_anchor(first_free_batch);
  changed_.notify_all();
  return passed;
}

void Admissions::release_up_to_anchor(uint64_t batch) {
  Admission admission{.batch = batch, .when_empty = false, .paths = {}};
  while (!waiting_.empty() && waiting_.begin()->first.first <= anchor_) {
    const auto first = waiting_.begin();
    admission.paths.push_back(first->first.second);
    named_[first->first.second] = std::move(first->second);
    waiting_.erase(first);
  }
  if (!admission.paths.empty()) ahead_.push_back(std::move(admission));
}

Admissions::Saved Admissions::saved_at(uint64_t batch, uint64_t head) const {
  const std::lock_guard lock(mutex_);
  Saved saved{.anchor = anchor_, .hold_until = std::max(hold_until_, head), .ahead = {}};
  for (const Admission& admission : done_) {
    if (admission.batch >= batch) saved.ahead.push_back(admission);
  }
  saved.ahead.insert(saved.ahead.end(), ahead_.begin(), ahead_.end());
  return saved;
}

void Admissions::forget_before(uint64_t batch) {
  const std::lock_guard lock(mutex_);
  while (!done_.empty() && done_.front().batch < batch) done_.pop_front();
}

Admissions::Counts Admissions::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.anchor = anchor_;
  counts.newest = known_.empty() ? "" : known_.rbegin()->first.first;
  counts.waiting = waiting_.size();
  counts.ahead = ahead_.size();
  counts.is_scanned = is_scanned_;
  for (auto file = known_.upper_bound({anchor_, "\xFF"}); file != known_.end(); ++file) {
    counts.since_anchor += file->second;
  }
  return counts;
}

}  // namespace ludus::chess::loader
