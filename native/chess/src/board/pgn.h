// Games from PGN, one after the other, from text or a file of any size. A bad game is a game with problems, never an exception.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "board/position.h"

namespace ludus::chess {

struct PgnGame {
  int number = 0;  // from 1
  int line = 0;    // where it begins, from 1
  std::vector<std::pair<std::string, std::string>> tags;
  std::string start_fen = kStartFen;
  std::vector<std::string> moves;  // UCI, the main line up to the first problem
  std::string result = "*";
  std::vector<std::string> problems;  // "line 12, game 3: ..."

  const std::string* tag(std::string_view name) const;
};

class PgnReader {
 public:
  explicit PgnReader(std::unique_ptr<std::istream> in) : in_(std::move(in)), buffer_(in_->rdbuf()) {}

  // Read the next game; false at the end.
  bool next(PgnGame& game);

 private:
  int peek() { return buffer_->sgetc(); }
  int get();
  bool skip_to_game();
  void skip_line();
  void read_tags(PgnGame& game);
  void read_tag(PgnGame& game);
  void read_moves(PgnGame& game);
  void skip_comment(PgnGame& game);
  std::string read_token();
  bool take_token(PgnGame& game, std::string_view token, int depth);
  void begin_position(PgnGame& game);
  void report(PgnGame& game, const std::string& what) const;

  std::unique_ptr<std::istream> in_;
  std::streambuf* buffer_;
  Position position_;
  bool readable_ = true;  // moves are taken: no problem so far
  bool at_line_start_ = true;
  int line_ = 1;
  int games_ = 0;
};

}  // namespace ludus::chess
