// Which part of the data a chunk belongs to. Its key alone decides, so that a chunk never changes sides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ludus::chess::loader {

class Split {
 public:
  Split() = default;  // Everything is taken.
  Split(const std::vector<std::pair<std::string, double>>& weights, const std::string& part);

  bool takes(std::string_view chunk_key) const;

 private:
  double from_ = 0;
  double to_ = 1;
};

}  // namespace ludus::chess::loader
