#include "loader/fuzzing/fuzzing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "board/game.h"
#include "board/notation.h"
#include "board/pgn.h"
#include "encoding/planes.h"
#include "encoding/policy.h"
#include "loader/chunk_sources/tar_index.h"
#include "loader/decoder.h"
#include "loader/random.h"
#include "loader/state.h"
#include "loader/tensors/tensors.h"

namespace ludus::chess::loader {
namespace {

LoaderConfig small_config() {
  LoaderConfig config;
  config.directory = "/nowhere";
  config.max_positions = 64;
  config.focus.q_weight = 1;
  return config;
}

void expand_all(const Decoded& decoded) {
  if (!decoded.game) return;
  alignas(64) static thread_local float planes[kPlaneFloats];
  static thread_local float policy[kMoves];
  static thread_local float values[kValueFloats];
  for (size_t i = 0; i < decoded.game->size(); ++i) {
    write_planes(*decoded.game, i, planes);
    write_policy(*decoded.game, i, policy);
    write_values(*decoded.game, i, values);
    static std::atomic<size_t> total;
    const Packed copy(*decoded.game, i, total);
    write_planes(copy, planes);
    write_policy(copy, policy);
    write_values(copy, values);
  }
}

// Stored blocks: the bytes reach the records as they are, so that a mutation of one is a mutation of the other.
std::vector<uint8_t> stored_gzip(std::span<const uint8_t> raw) {
  std::vector<uint8_t> out{0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3};
  uint32_t crc = ~0U;
  for (const uint8_t byte : raw) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0);
  }
  crc = ~crc;
  size_t at = 0;
  do {
    const size_t size = std::min<size_t>(raw.size() - at, 65'535);
    const bool is_last = at + size == raw.size();
    out.push_back(is_last ? 1 : 0);
    const auto length = static_cast<uint16_t>(size);
    for (const uint16_t word : {length, static_cast<uint16_t>(~length)}) {
      out.push_back(static_cast<uint8_t>(word & 0xFF));
      out.push_back(static_cast<uint8_t>(word >> 8));
    }
    out.insert(out.end(), raw.begin() + static_cast<std::ptrdiff_t>(at), raw.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  } while (at < raw.size());
  for (const uint32_t word : {crc, static_cast<uint32_t>(raw.size())}) {
    for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<uint8_t>(word >> shift));
  }
  return out;
}

void fuzz_tar(std::span<const uint8_t> bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) return;
  if (::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) {
    const TarIndex index = index_tar(fd, bytes.size(), 100);
    for (const TarMember& member : index.members) {
      if (member.offset > bytes.size() || member.size > bytes.size() - member.offset) __builtin_trap();
    }
  }
  ::close(fd);
}

void fuzz_state(std::span<const uint8_t> bytes) {
  static const LoaderConfig config = small_config();
  std::vector<uint8_t> sealed(bytes.begin(), bytes.end());
  const uint64_t sum = hash_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto* from = reinterpret_cast<const uint8_t*>(&sum);
  sealed.insert(sealed.end(), from, from + sizeof(sum));  // Else nothing gets behind the checksum.
  try {
    static_cast<void>(read_state(config, sealed));
  } catch (const std::invalid_argument&) {
  }
}

void fuzz_pgn(std::string text) {
  PgnReader reader(std::make_unique<std::istringstream>(std::move(text)));
  PgnGame game;
  while (reader.next(game)) {
    if (game.moves.empty()) continue;  // Nor need its FEN be one.
    chess::Position position = chess::Position::from_fen(game.start_fen);
    for (const std::string& move : game.moves) position.apply(parse_uci(position, move));  // What it gives is legal.
  }
}

// A line with a FEN, then moves; each position in every input format, and there and back in FEN and SAN.
void fuzz_moves(const std::string& text) {
  std::istringstream lines(text);
  std::string fen;
  std::getline(lines, fen);
  try {
    chess::Game game(chess::Position::from_fen(fen));
    if (chess::Position::from_fen(game.position().fen()).key() != game.position().key()) __builtin_trap();
    std::string word;
    for (int ply = 0; ply < 64 && lines >> word; ++ply) {
      for (const int format : {1, 2, 3, 4, 5, 132, 133}) {
        const Input input = encode_input(game, format, static_cast<HistoryFill>(ply % 3));
        for (const Move legal : game.position().legal_moves()) {
          if (policy_index(game.position(), legal, input.transform) < 0) __builtin_trap();
        }
      }
      const bool is_san = ply % 2 == 0;
      const Move move = is_san ? parse_san(game.position(), word) : parse_uci(game.position(), word);
      if (parse_san(game.position(), to_san(game.position(), move)) != move) __builtin_trap();
      game.push(move);
      static_cast<void>(game.outcome());
    }
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace

void fuzz_one(const uint8_t* data, size_t size) {
  if (size == 0) return;
  static const LoaderConfig config = small_config();
  static thread_local Decoder decoder(config);
  const std::span<const uint8_t> rest(data + 1, size - 1);
  const std::string text(rest.begin(), rest.end());
  switch (data[0] % 6) {
    case 0: expand_all(decoder.decode_bytes(rest)); break;
    case 1: expand_all(decoder.decode_bytes(stored_gzip(rest))); break;
    case 2: fuzz_tar(rest); break;
    case 3: fuzz_state(rest); break;
    case 4: fuzz_pgn(text); break;
    default: fuzz_moves(text);
  }
}

}  // namespace ludus::chess::loader
