#include "loader/split/split.h"

#include "loader/random.h"

namespace ludus::chess::loader {

Split::Split(const std::vector<std::pair<std::string, double>>& weights, const std::string& part) {
  if (weights.empty()) return;
  double total = 0;
  for (const auto& [name, weight] : weights) total += weight;
  double before = 0;
  for (const auto& [name, weight] : weights) {
    if (name == part) {
      from_ = before / total;
      to_ = (before + weight) / total;
    }
    before += weight;
  }
}

bool Split::takes(std::string_view chunk_key) const {
  const double place = static_cast<double>(hash_of(chunk_key) >> 11) * 0x1.0p-53;
  return place >= from_ && place < to_;
}

}  // namespace ludus::chess::loader
