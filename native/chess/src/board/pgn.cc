#include "board/pgn.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "board/notation.h"

namespace ludus::chess {
namespace {

// More than any real file has; past them a game has a problem, and memory stays bounded.
constexpr std::size_t kMaxToken = 64;
constexpr std::size_t kMaxTagValue = 4096;
constexpr std::size_t kMaxTags = 256;
constexpr std::size_t kMaxMoves = 12'000;
constexpr std::size_t kMaxProblems = 16;

constexpr int kEnd = std::char_traits<char>::eof();

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'; }
bool is_result(std::string_view t) { return t == "1-0" || t == "0-1" || t == "1/2-1/2" || t == "*"; }
bool ends_token(int c) { return c == kEnd || is_space(c) || std::strchr("{}()[];<>", c) != nullptr; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

const std::string* PgnGame::tag(std::string_view name) const {
  for (const auto& [key, value] : tags)
    if (key == name) return &value;
  return nullptr;
}

int PgnReader::get() {
  const int c = buffer_->sbumpc();
  at_line_start_ = c == '\n';
  if (c == '\n') ++line_;
  return c;
}

void PgnReader::report(PgnGame& game, const std::string& what) const {
  if (game.problems.size() < kMaxProblems)
    game.problems.push_back("line " + std::to_string(line_) + ", game " + std::to_string(game.number) + ": " + what);
}

void PgnReader::skip_line() {
  while (peek() != kEnd && get() != '\n') {
  }
}

bool PgnReader::skip_to_game() {
  while (true) {
    const int c = peek();
    if (c == kEnd) return false;
    if (at_line_start_ && c == '%') {
      skip_line();
    } else if (is_space(c) || c == 0xEF || c == 0xBB || c == 0xBF) {  // a byte-order mark
      const bool was_at_start = at_line_start_;
      get();
      if (!is_space(c)) at_line_start_ = was_at_start;
    } else {
      return true;
    }
  }
}

bool PgnReader::next(PgnGame& game) {
  if (!skip_to_game()) return false;
  game = PgnGame();
  game.number = ++games_;
  game.line = line_;
  readable_ = true;
  read_tags(game);
  begin_position(game);
  if (const std::string* result = game.tag("Result"); result != nullptr && is_result(*result)) game.result = *result;
  read_moves(game);
  return true;
}

void PgnReader::read_tags(PgnGame& game) {
  while (skip_to_game()) {
    if (peek() == ';') {
      skip_line();
    } else if (peek() == '[') {
      read_tag(game);
    } else {
      return;
    }
  }
}

void PgnReader::read_tag(PgnGame& game) {
  get();
  std::string name, value;
  while (peek() != kEnd && peek() != '"' && peek() != ']' && peek() != '\n') {
    const int c = get();
    if (!is_space(c) && name.size() < kMaxToken) name += static_cast<char>(c);
  }
  if (peek() != '"') {
    report(game, "tag \"" + name + "\" has no value in quotes");
    skip_line();
    return;
  }
  get();
  while (peek() != kEnd && peek() != '"' && peek() != '\n') {
    int c = get();
    if (c == '\\' && (peek() == '"' || peek() == '\\')) c = get();
    if (value.size() < kMaxTagValue) value += static_cast<char>(c);
  }
  if (peek() != '"') report(game, "the value of tag \"" + name + "\" is never closed");
  while (peek() != kEnd && peek() != ']' && peek() != '\n') get();
  if (peek() == ']') get();
  if (game.tags.size() == kMaxTags) {
    report(game, "more than " + std::to_string(kMaxTags) + " tags");
  } else if (game.tags.size() < kMaxTags) {
    game.tags.emplace_back(std::move(name), std::move(value));
  }
}

void PgnReader::begin_position(PgnGame& game) {
  static const Position start = Position::from_fen(kStartFen);
  position_ = start;
  const std::string* fen = game.tag("FEN");
  const std::string* variant = game.tag("Variant");
  if (variant != nullptr) {
    const std::string name = lower(*variant);
    const bool is_chess = name == "standard" || name == "chess" || name == "from position" || name == "fischerandom";
    if (!is_chess && name.find("960") == std::string::npos) {
      report(game, "variant \"" + *variant + "\" is not chess");
      readable_ = false;
    }
  }
  if (fen == nullptr) return;
  game.start_fen = *fen;
  try {
    position_ = Position::from_fen(*fen);
  } catch (const std::invalid_argument& error) {
    report(game, error.what());
    readable_ = false;
  }
}

void PgnReader::skip_comment(PgnGame& game) {
  const int begin = line_;
  get();
  while (peek() != kEnd)
    if (get() == '}') return;
  report(game, "the comment of line " + std::to_string(begin) + " is never closed");
}

std::string PgnReader::read_token() {
  std::string token;
  while (!ends_token(peek())) {
    const int c = get();
    if (token.size() <= kMaxToken) token += static_cast<char>(c);
  }
  return token;
}

void PgnReader::read_moves(PgnGame& game) {
  int depth = 0;
  while (true) {
    const int c = peek();
    if (c == kEnd) break;
    if (at_line_start_ && c == '[') break;  // the next game, whatever this one left open
    if (c == ';' || (at_line_start_ && c == '%')) {
      skip_line();
    } else if (c == '{') {
      skip_comment(game);
    } else if (c == '(') {
      get();
      ++depth;
    } else if (c == ')') {
      get();
      if (depth == 0) report(game, "a variation is closed that was never opened");
      depth = std::max(0, depth - 1);
    } else if (ends_token(c)) {
      get();
    } else if (take_token(game, read_token(), depth)) {
      return;
    }
  }
  if (depth > 0) report(game, "a variation is never closed");
}

// Returns whether the game is over.
bool PgnReader::take_token(PgnGame& game, std::string_view token, int depth) {
  if (depth > 0 || token.front() == '$') return false;
  if (is_result(token)) {
    if (game.result != "*" && token != "*" && game.result != token)
      report(game, "the result " + std::string(token) + " is not that of the tag, " + game.result);
    if (token != "*") game.result = token;
    return true;
  }
  if (token.substr(0, 3) != "0-0") token.remove_prefix(std::min(token.find_first_not_of("0123456789"), token.size()));
  token.remove_prefix(std::min(token.find_first_not_of('.'), token.size()));
  if (token.empty() || token == "e.p." || token.find_first_not_of("!?") == std::string_view::npos || !readable_) return false;
  if (game.moves.size() == kMaxMoves) {
    report(game, "more than " + std::to_string(kMaxMoves) + " moves");
    readable_ = false;
    return false;
  }
  try {
    const Move move = parse_san(position_, token);
    game.moves.push_back(to_uci(position_, move));
    position_.apply(move);
  } catch (const std::invalid_argument& error) {
    report(game, error.what());
    readable_ = false;
  }
  return false;
}

}  // namespace ludus::chess
