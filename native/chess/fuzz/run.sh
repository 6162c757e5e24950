#!/usr/bin/env bash
# Fuzzes every reader of files and text (chunks, records, tars, states, PGN, FEN with moves) under AddressSanitizer and
# UndefinedBehaviorSanitizer.
# usage: native/chess/fuzz/run.sh SECONDS [BUILD_DIRECTORY]
# With clang and its runtime (Debian: clang, libclang-rt-14-dev) it is libFuzzer, guided by coverage; without them, gcc and
# a mutator of our own, for as long.
set -euo pipefail
seconds=${1:?usage: run.sh SECONDS [BUILD_DIRECTORY]}
here=$(cd "$(dirname "$0")" && pwd)
build=${2:-$here/../build-fuzz}
mkdir -p "$build"
flags=(-std=c++20 -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=all -I"$here/../src")
libraries=(-lz -lpthread)
if printf '#include <libdeflate.h>\nint main(){}' | c++ -x c++ - -ldeflate -o "$build/probe" 2>/dev/null; then
  flags+=(-DLUDUS_CHESS_LIBDEFLATE)
  libraries+=(-ldeflate)
fi

can_use_libfuzzer() {
  command -v clang++ >/dev/null || return 1
  printf 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o "$build/probe" 2>/dev/null
}

# Compiles each folder as one file, in parallel: cheaper than file by file.
compile() {
  local compiler=$1 sanitizers=$2 objects=$3
  rm -rf "$objects" && mkdir -p "$objects"
  for folder in board encoding loader; do
    find "$here/../src/$folder" -name '*.cc' ! -name '*_test.cc' | sort | sed 's/.*/#include "&"/' >"$objects/$folder.cc"
  done
  printf '#include "%s"\n' "$4" >"$objects/main.cc"
  printf '%s\0' board encoding loader main |
    xargs -0 -n 1 -P 2 sh -c "$compiler -fsanitize=$sanitizers ${flags[*]} -c $objects/\$0.cc -o $objects/\$0.o"
}

if can_use_libfuzzer; then
  compile clang++ fuzzer-no-link,address,undefined "$build/clang" "$here/loader_fuzzer.cc"
  clang++ -fsanitize=fuzzer,address,undefined "$build"/clang/*.o "${libraries[@]}" -o "$build/loader_fuzzer"
  python3 "$here/make_corpus.py" "$build/seeds"
  mkdir -p "$build/corpus"
  exec "$build/loader_fuzzer" -max_total_time="$seconds" -max_len=40000 -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 \
    -print_final_stats=1 -artifact_prefix="$build/" "$build/corpus" "$build/seeds"
fi
echo "no libFuzzer (Debian: apt-get install clang libclang-rt-14-dev): mutating without coverage" >&2
compile g++ address,undefined "$build/gcc" "$here/../src/loader/fuzzing/fuzzing_test.cc"
g++ -fsanitize=address,undefined "$build"/gcc/*.o "${libraries[@]}" -o "$build/fuzzing_test"
FUZZ_SECONDS=$seconds "$build/fuzzing_test"
