#include "loader/tensors/batch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "loader/tensors/tensors.h"

namespace ludus::chess::loader {
namespace {

constexpr size_t kAlignment = size_t{2} << 20;  // Of huge pages; JAX asks for 64 bytes.

size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }

Floats allocate(size_t floats) {
  const size_t bytes = (floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<float*>(std::aligned_alloc(kAlignment, bytes));
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  ::madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  return Floats(memory);
}

}  // namespace

void FreeDeleter::operator()(float* memory) const { std::free(memory); }

BatchMemory::BatchMemory(size_t batch_size, size_t keep)
    : batch_size_(batch_size),
      keep_(keep),
      floats_(batch_size * kPlaneFloats + padded(batch_size * kMoves) + padded(batch_size * kValueFloats)) {}

std::shared_ptr<BatchMemory> BatchMemory::make(size_t batch_size, size_t keep) {
  struct Made : BatchMemory {
    Made(size_t size, size_t kept) : BatchMemory(size, kept) {}
  };
  return std::make_shared<Made>(batch_size, keep);
}

std::shared_ptr<Batch> BatchMemory::take() {
  auto batch = std::make_shared<Batch>();
  {
    const std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      batch->memory = std::move(unused_.back());
      unused_.pop_back();
    }
  }
  if (!batch->memory) batch->memory = allocate(floats_);
  batch->size = batch_size_;
  batch->home = shared_from_this();
  batch->planes = batch->memory.get();
  batch->policy = batch->planes + batch_size_ * kPlaneFloats;
  batch->values = batch->policy + padded(batch_size_ * kMoves);
  return batch;
}

void BatchMemory::give_back(Floats memory) {
  const std::lock_guard lock(mutex_);
  if (unused_.size() < keep_) unused_.push_back(std::move(memory));
}

BatchMemory::Batch::~Batch() {
  if (home && memory) home->give_back(std::move(memory));
}

}  // namespace ludus::chess::loader
