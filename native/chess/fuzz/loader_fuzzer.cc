// The loader's readers under libFuzzer: `native/chess/fuzz/run.sh SECONDS`.
#include <cstddef>
#include <cstdint>

#include "loader/fuzzing/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ludus::chess::loader::fuzz_one(data, size);
  return 0;
}
