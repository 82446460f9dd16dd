#include "path.hpp"

#include <utility>

namespace instructions {

counted per_operation(stepping::counted c, int operations_of_a_round) {
  counted all{.each = {}, .where = std::move(c.where)};
  for (const std::uint64_t round : c.rounds) {
    all.each.push_back(static_cast<double>(round) / operations_of_a_round);
  }
  return all;
}

}  // namespace instructions
