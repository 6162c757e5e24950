#include "loader/loader.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "loader/tensors/tensors.h"

namespace ludus::chess::loader {
namespace {

constexpr size_t kRowsPerTask = 64;
constexpr double kWait_s = 0.1;

}  // namespace

struct Loader::Work {
  uint64_t number = 0;
  std::vector<Drawn> positions;
  std::shared_ptr<Batch> batch;
  std::vector<uint8_t> is_lost;
  std::atomic<size_t> tasks_left{0};
};

Loader::Loader(LoaderConfig config, std::span<const uint8_t> state)
    : config_(std::move(config)),
      store_((check(config_), config_), [this](ChunkId chunk, Decoder& decoder) { return decode(chunk, decoder); }),
      shuffler_(config_),
      admissions_(config_, [this](Refusal refusal) { refusals_.add(std::move(refusal)); }),
      directory_(config_.directory, config_.rescan_s, config_.settle_s),
      // Those that are made, one that is taken, and one that is held while the next is taken.
      memory_(BatchMemory::make(config_.batch_size, config_.prefetch_batches + 2)) {
  uint64_t first = 0;
  if (!state.empty()) {
    LoaderState saved = read_state(config_, state);
    first = saved.batch;
    restore(std::move(saved));
  }
  queue_ = std::make_unique<BatchQueue>(config_.prefetch_batches, first);
  workers_ = std::make_unique<Workers>(config_);
  if (first > 0) workers_->when_idle([this](Decoder& decoder) { return refill_one(decoder); });
  watching_ = std::thread([this] { watch(); });
  shuffling_ = std::thread([this] { shuffle(); });
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  const std::lock_guard lock(stop_mutex_);
  is_stopping_ = true;
  queue_->stop();
  admissions_.wake();
  workers_->stop();
  if (watching_.joinable()) watching_.join();
  if (shuffling_.joinable()) shuffling_.join();
}

void Loader::restore(LoaderState state) {
  std::vector<Source> sources;
  for (const SavedSource& saved : state.sources) {
    ChunkSource source = open_source(config_.directory, saved.path, config_.max_members).source;
    if (source.size != saved.size || source.chunk_count() != saved.chunks) {
      source.is_gone = true;
      source.members.resize(source.is_tar ? saved.chunks : 0);
    }
    sources.push_back(std::make_shared<const ChunkSource>(std::move(source)));
  }
  admissions_.restore(std::move(state.admissions), sources);
  shuffler_.restore(std::move(sources), std::move(state.shuffler), state.batch);
  shuffler_.list_missing(refill_);
  note_counts();
}

void Loader::watch() {
  try {
    directory_.run(is_stopping_, [this](const std::vector<std::string>& paths, bool is_first_scan) {
      const Busy busy(meters_.indexing);
      admissions_.found(paths, is_first_scan);
    });
  } catch (const std::exception& error) {
    queue_->fail(std::string("the loader cannot watch its directory: ") + error.what());
  }
}

void Loader::shuffle() {
  try {
    Decoder decoder(config_);
    shuffling_decoder_ = &decoder;
    while (!is_stopping_ && !admissions_.is_scanned()) admissions_.wait_for_change(kWait_s);
    for (uint64_t number = queue_->taken(); queue_->wait_for_room(number); ++number) shuffle_one(number);
  } catch (const LoaderStopped&) {
  } catch (const std::exception& error) {
    queue_->fail(std::string("the loader cannot shuffle: ") + error.what());
  }
  shuffling_decoder_ = nullptr;
}

void Loader::shuffle_one(uint64_t number) {
  const uint64_t taken = queue_->taken();
  admissions_.forget_before(taken);
  {
    const std::lock_guard lock(shuffle_mutex_);
    shuffler_.forget_before(taken);
    shuffler_.put_copies(refill_.collect());
    admit(admissions_.take_before(number));
  }
  std::vector<Drawn> positions;
  positions.reserve(config_.batch_size);
  while (true) {
    {
      const std::lock_guard lock(shuffle_mutex_);
      const Busy busy(meters_.shuffling);
      const bool is_ready = number > 0 || shuffler_.pool().alive() >= config_.min_chunks;
      if (is_ready && shuffler_.compose(*this, positions)) {
        shuffler_.mark();
        note_counts();
        break;
      }
      is_starved_ = false;
      admit(admissions_.take_when_empty(number));
      if (shuffler_.pool().alive() >= (number > 0 ? 1 : config_.min_chunks)) continue;
    }
    is_starved_ = true;
    if (is_stopping_) throw LoaderStopped();
    admissions_.wait_for_change(kWait_s);
  }
  make(number, std::move(positions));
}

void Loader::admit(const std::vector<Source>& sources) {
  for (const Source& source : sources) shuffler_.pool().admit(source);
  note_counts();
}

void Loader::note_counts() {
  const ChunkPool& pool = shuffler_.pool();
  store_.set_pool_size(pool.alive());
  const std::lock_guard lock(counts_mutex_);
  shuffler_counts_ = {.alive = pool.alive(),
                      .passes = pool.passes(),
                      .left_in_pass = pool.left_in_pass(),
                      .reservoir = shuffler_.reservoir().size()};
}

void Loader::make(uint64_t number, std::vector<Drawn> positions) {
  auto work = std::make_shared<Work>();
  work->number = number;
  work->batch = memory_->take();
  work->is_lost.assign(positions.size(), 0);
  work->tasks_left = (positions.size() + kRowsPerTask - 1) / kRowsPerTask;
  work->positions = std::move(positions);
  for (size_t from = 0; from < work->positions.size(); from += kRowsPerTask) {
    const size_t to = std::min(from + kRowsPerTask, work->positions.size());
    workers_->add([this, work, from, to](Decoder& decoder) {
      try {
        make_rows(*work, from, to, decoder);
      } catch (const std::exception& error) {
        queue_->fail(std::string("the loader cannot make a batch: ") + error.what());
      }
    });
  }
}

void Loader::make_rows(Work& work, size_t from, size_t to, Decoder& decoder) {
  std::vector<std::shared_ptr<const Game>> games;
  for (size_t row = from; row < to; ++row) games.push_back(game_of(work.positions[row], decoder));
  {
    const Busy busy(meters_.expanding);
    Batch& batch = *work.batch;
    const auto write = [&batch](size_t row, const auto&... position) {
      write_planes(position..., batch.planes + row * kPlaneFloats);
      write_policy(position..., batch.policy + row * kMoves);
      write_values(position..., batch.values + row * kValueFloats);
    };
    for (size_t row = from; row < to; ++row) {
      Drawn& drawn = work.positions[row];
      const auto& game = games[row - from];
      const size_t index = drawn.position.index;
      if (drawn.copy) {
        write(row, drawn.copy);
        drawn.copy = {};
      } else if (game && index < game->size()) {
        write(row, *game, index);
      } else {
        work.is_lost[row] = 1;
      }
    }
  }
  if (--work.tasks_left == 0) finish(work);
}

// Null: it has a copy, or its chunk is refused.
std::shared_ptr<const Game> Loader::game_of(const Drawn& drawn, Decoder& decoder) {
  if (drawn.copy) return nullptr;
  const ChunkId chunk = drawn.position.chunk;
  auto game = store_.game(chunk, decoder);
  if (game && store_.is_tight()) refill(chunk, *game, refill_.take(chunk));
  return game;
}

bool Loader::refill_one(Decoder& decoder) {
  try {
    const auto missing = refill_.take_any();
    if (!missing) return false;
    const auto game = store_.game(missing->first, decoder);
    if (game && store_.is_tight()) refill(missing->first, *game, missing->second);
  } catch (const std::exception& error) {
    queue_->fail(std::string("the loader cannot read the reservoir again: ") + error.what());
    return false;
  }
  return true;
}

void Loader::refill(ChunkId chunk, const Game& game, const std::vector<Refill::Slot>& slots) {
  for (const auto& [slot, index] : slots) {
    if (index >= game.size()) continue;
    Packed copy = store_.copy(game, index);
    if (!copy) return;
    refill_.give({.slot = slot, .drawn = {.position = {.chunk = chunk, .index = index}, .copy = std::move(copy)}});
  }
}

// A file that has gone since its positions were chosen leaves holes; another row of the batch fills each.
void Loader::finish(Work& work) {
  Batch& batch = *work.batch;
  const auto good = std::find(work.is_lost.begin(), work.is_lost.end(), 0);
  const auto source = static_cast<size_t>(good - work.is_lost.begin());
  for (size_t row = 0; row < work.is_lost.size() && good != work.is_lost.end(); ++row) {
    if (!work.is_lost[row]) continue;
    ++meters_.lost;
    const auto copy = [&](float* tensor, size_t width) {
      std::copy_n(tensor + source * width, width, tensor + row * width);
    };
    copy(batch.planes, kPlaneFloats);
    copy(batch.policy, kMoves);
    copy(batch.values, kValueFloats);
  }
  if (good == work.is_lost.end()) {
    queue_->fail("every file of a batch has gone from " + config_.directory);
    return;
  }
  queue_->put(work.number, std::move(work.batch));
}

std::shared_ptr<const Game> Loader::decode(ChunkId chunk, Decoder& decoder) {
  const auto [source, index] = shuffler_.pool().locate(chunk);
  try {
    Decoded decoded = decoder.decode(*source, index);
    meters_.inflating += decoded.inflate_time.count();
    meters_.checking += decoded.check_time.count();
    meters_.targeting += decoded.target_time.count();
    meters_.gz_bytes += decoded.gz_bytes;
    meters_.raw_bytes += decoded.raw_bytes;
    if (decoded.game) {
      ++meters_.chunks;
      meters_.positions += decoded.game->size();
    } else {
      ++meters_.chunks_refused;
    }
    meters_.positions_refused += decoded.positions_refused;
    for (Refusal& refusal : decoded.refusals) refusals_.add(std::move(refusal));
    return decoded.game;
  } catch (const std::bad_alloc&) {
    ++meters_.chunks_refused;
    refusals_.add({.reason = "memory", .detail = "no memory to decode it", .file = source->path, .member = {}});
    return nullptr;
  }
}

void Loader::expect(ChunkUse use) {
  if (store_.is_ready(use)) return;
  workers_->add([this, use](Decoder& decoder) {
    try {
      store_.prefetch(use, decoder);
    } catch (const std::exception& error) {
      queue_->fail(std::string("the loader cannot keep a game: ") + error.what());
    }
  });
}

std::optional<Use> Loader::use(ChunkUse use) {
  if (is_stopping_) throw LoaderStopped();
  return store_.use(use, *shuffling_decoder_);
}

void Loader::refuse_duplicate(ChunkId chunk) {
  const auto [source, index] = shuffler_.pool().locate(chunk);
  refusals_.add({.reason = "duplicate",
                 .detail = "the same game is in the pool already",
                 .file = source->path,
                 .member = source->is_tar ? std::to_string(index) : ""});
  ++meters_.chunks_refused;
  store_.forget(chunk);
}

std::shared_ptr<Batch> Loader::next_batch(std::chrono::duration<double> most) { return queue_->take(most); }

std::vector<uint8_t> Loader::state() const {
  const std::lock_guard lock(shuffle_mutex_);
  LoaderState state;
  state.batch = queue_->taken();
  state.shuffler = shuffler_.saved_at(state.batch);
  state.admissions = admissions_.saved_at(state.batch, shuffler_.batches());
  for (size_t i = 0; i < state.shuffler.sources; ++i) {
    const ChunkSource& source = shuffler_.pool().source(i);
    state.sources.push_back({.path = source.path, .size = source.size, .chunks = source.chunk_count()});
  }
  return write_state(config_, state);
}

uint64_t Loader::reset_anchor(std::optional<uint64_t> chunks) {
  return admissions_.reset_anchor(chunks, queue_->taken() + config_.prefetch_batches);
}

}  // namespace ludus::chess::loader
