// FEN in and out: X-FEN and Shredder-FEN castling; everything unsound is refused with a reason.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "board/position.h"

namespace ludus::chess {
namespace {

constexpr std::string_view kLetters = "pnbrqk";

[[noreturn]] void refuse(std::string_view fen, const std::string& why) {
  throw std::invalid_argument("FEN \"" + std::string(fen.substr(0, 120)) + "\": " + why);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  while (fields.size() < 7) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    const auto end = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return fields;
}

void read_pieces(Position& p, std::string_view field, std::string_view fen) {
  int file = 0, rank = 7;
  for (const char c : field) {
    if (c == '/') {
      if (file != 8 || rank == 0) refuse(fen, "the board needs eight ranks of eight squares");
      file = 0;
      --rank;
    } else if (c >= '1' && c <= '8') {
      file += c - '0';
    } else {
      const auto piece = kLetters.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      if (piece == std::string_view::npos) refuse(fen, std::string("\"") + c + "\" is no piece");
      if (file > 7) refuse(fen, "a rank has more than eight squares");
      const Square s = square(file++, rank);
      p.pieces[piece] |= bit(s);
      p.colors[std::isupper(static_cast<unsigned char>(c)) ? kWhite : kBlack] |= bit(s);
    }
    if (file > 8) refuse(fen, "a rank has more than eight squares");
  }
  if (file != 8 || rank != 0) refuse(fen, "the board needs eight ranks of eight squares");
}

void check_pieces(const Position& p, std::string_view fen) {
  for (const Color color : {kWhite, kBlack}) {
    const std::string name = color == kWhite ? "White" : "Black";
    const auto count = [&](Piece piece) { return std::popcount(p.of(color, piece)); };
    if (count(kKing) != 1) refuse(fen, name + " needs exactly one king");
    const int promoted = std::max(0, count(kQueen) - 1) + std::max(0, count(kRook) - 2) + std::max(0, count(kBishop) - 2) +
                         std::max(0, count(kKnight) - 2);
    if (count(kPawn) + promoted > 8) refuse(fen, name + " has more pieces than eight pawns can become");
  }
  if (p.pieces[kPawn] & (kRank1 | (kRank1 << 56))) refuse(fen, "a pawn stands on the first or last rank");
}

void read_castling(Position& p, std::string_view field, std::string_view fen) {
  if (field == "-") return;
  for (const char c : field) {
    const Color color = std::isupper(static_cast<unsigned char>(c)) ? kWhite : kBlack;
    const int rank = color == kWhite ? 0 : 7;
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const Square king = p.king(color);
    const Bitboard rooks = p.of(color, kRook) & (kRank1 << (8 * rank));
    int file = -1;
    if (letter == 'k' || letter == 'q') {
      // X-FEN: the outermost rook of that side.
      for (int f = 0; f < 8; ++f) {
        if (!(rooks & bit(square(f, rank)))) continue;
        if (letter == 'k' && f > file_of(king)) file = f;
        if (letter == 'q' && f < file_of(king) && file < 0) file = f;
      }
    } else if (letter >= 'a' && letter <= 'h') {
      file = letter - 'a';
    } else {
      refuse(fen, std::string("castling right \"") + c + "\" is unknown");
    }
    if (rank_of(king) != rank || file < 0 || file == file_of(king) || !(rooks & bit(square(file, rank))))
      refuse(fen, std::string("castling right \"") + c + "\" without its king and rook");
    p.castling[color][file > file_of(king) ? kKingside : kQueenside] = static_cast<std::int8_t>(file);
    if (file_of(king) != 4 || (file != 0 && file != 7)) p.chess960 = true;
  }
}

void read_en_passant(Position& p, std::string_view field, std::string_view fen) {
  if (field == "-") return;
  const int rank = p.to_move == kWhite ? 5 : 2;
  if (field.size() != 2 || field[0] < 'a' || field[0] > 'h' || field[1] != '1' + rank)
    refuse(fen, "the en-passant square " + std::string(field.substr(0, 8)) + " is impossible");
  const Square s = square(field[0] - 'a', rank);
  const int ahead = p.to_move == kWhite ? -8 : 8;
  const Color them = static_cast<Color>(1 - p.to_move);
  if (!(p.of(them, kPawn) & bit(s + ahead)) || (p.occupied() & (bit(s) | bit(s - ahead))))
    refuse(fen, "no pawn can have passed " + std::string(field));
  if (pawn_attacks(them, s) & p.of(p.to_move, kPawn)) p.en_passant = static_cast<std::int8_t>(s);
}

int read_number(std::string_view field, int lowest_value, int highest, const char* what, std::string_view fen) {
  int value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || value < lowest_value || value > highest)
    refuse(fen, std::string("the ") + what + " is no number from " + std::to_string(lowest_value) + " to " + std::to_string(highest));
  return value;
}

std::string castling_text(const Position& p) {
  std::string out;
  for (const Color color : {kWhite, kBlack}) {
    const Bitboard rank = kRank1 << (color == kWhite ? 0 : 56);
    for (const Side side : {kKingside, kQueenside}) {
      const int file = p.castling[color][side];
      if (file < 0) continue;
      Bitboard outer = p.of(color, kRook) & rank;
      for (int f = 0; f < 8; ++f)
        if (side == kKingside ? f <= file : f >= file) outer &= ~(kFileA << f);
      const char letter = outer ? static_cast<char>('A' + file) : (side == kKingside ? 'K' : 'Q');
      out += color == kWhite ? letter : static_cast<char>(letter - 'A' + 'a');
    }
  }
  return out.empty() ? "-" : out;
}

}  // namespace

Position Position::from_fen(std::string_view fen) {
  const auto fields = split(fen);
  if (fields.size() < 4 || fields.size() > 6) refuse(fen, "it needs four to six fields");
  Position p;
  read_pieces(p, fields[0], fen);
  check_pieces(p, fen);
  if (fields[1] != "w" && fields[1] != "b") refuse(fen, "the side to move is neither w nor b");
  p.to_move = fields[1] == "w" ? kWhite : kBlack;
  read_castling(p, fields[2], fen);
  read_en_passant(p, fields[3], fen);
  p.rule50 = fields.size() > 4 ? read_number(fields[4], 0, 9999, "halfmove clock", fen) : 0;
  const int move = fields.size() > 5 ? read_number(fields[5], 0, 99999, "move number", fen) : 1;
  p.ply = 2 * (std::max(move, 1) - 1) + p.to_move;
  const Color them = static_cast<Color>(1 - p.to_move);
  if (p.attackers(p.king(them), p.to_move, p.occupied())) refuse(fen, "the side not to move is in check");
  return p;
}

std::string Position::fen() const {
  std::string out;
  for (int rank = 7; rank >= 0; --rank) {
    int empty = 0;
    for (int file = 0; file < 8; ++file) {
      const Square s = square(file, rank);
      const Piece piece = piece_at(s);
      if (piece == kNoPiece) {
        ++empty;
        continue;
      }
      if (empty) out += static_cast<char>('0' + empty);
      empty = 0;
      const char letter = kLetters[piece];
      out += colors[kWhite] & bit(s) ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    if (empty) out += static_cast<char>('0' + empty);
    if (rank) out += '/';
  }
  out += to_move == kWhite ? " w " : " b ";
  out += castling_text(*this) + ' ' + (has_legal_en_passant() ? square_name(en_passant) : "-");
  return out + ' ' + std::to_string(rule50) + ' ' + std::to_string(ply / 2 + 1);
}

}  // namespace ludus::chess
