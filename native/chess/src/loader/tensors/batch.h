// Memory of batches. A batch returns it when the last tensor that Python holds is dropped; then it is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ludus::chess::loader {

struct FreeDeleter {
  void operator()(float* memory) const;
};
using Floats = std::unique_ptr<float[], FreeDeleter>;

class BatchMemory : public std::enable_shared_from_this<BatchMemory> {
 public:
  // `keep`: so many unused buffers are kept for the next batches.
  static std::shared_ptr<BatchMemory> make(size_t batch_size, size_t keep);

  struct Batch {
    size_t size = 0;
    float* planes = nullptr;
    float* policy = nullptr;
    float* values = nullptr;
    std::shared_ptr<BatchMemory> home;
    Floats memory;

    ~Batch();
    Batch() = default;
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
  };

  std::shared_ptr<Batch> take();
  size_t batch_bytes() const { return floats_ * sizeof(float); }

 private:
  BatchMemory(size_t batch_size, size_t keep);
  void give_back(Floats memory);

  const size_t batch_size_;
  const size_t keep_;
  const size_t floats_;
  std::mutex mutex_;
  std::vector<Floats> unused_;
};

using Batch = BatchMemory::Batch;

}  // namespace ludus::chess::loader
