#include <cordma/net/transport/verbs/pair_table.hpp>

namespace cordma::transport::verbs {

table_place pair_table::enter(verbs_pair& p) {
  if (free_.empty()) {
    CORDMA_ASSERT_OP(seats_.size(), <=, twenty_bits);
    free_.reserve(seats_.size() + 1);  // so that leaving never allocates
    seats_.push_back({&p, 1});
    seated_ = seats_;
    return {static_cast<std::uint32_t>(seats_.size() - 1), 1};
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  CORDMA_ASSERT_OP(index, <, seats_.size());
  CORDMA_ASSERT(seats_[index].pair == nullptr);
  seats_[index].pair = &p;
  return {index, seats_[index].generation};
}

void pair_table::leave(verbs_pair& p, const table_place& at, std::uint32_t number) noexcept {
  CORDMA_REQUIRE_OP(at.index, <, seats_.size());
  CORDMA_REQUIRE(seats_[at.index].pair == &p);
  CORDMA_ASSERT_OP(seats_[at.index].generation, ==, at.generation);
  seats_[at.index] = {.pair = nullptr, .generation = (at.generation + 1) & twenty_bits};
  free_.push_back(at.index);
  if (found_ == &p) found_ = nullptr;
  const auto named = by_number_.find(number);
  if (named != by_number_.end() && named->second == &p) by_number_.erase(named);
}

// Most messages are from the same queue pair as the one before.
verbs_pair* pair_table::find(std::uint32_t number) noexcept {
  if (found_ != nullptr && found_number_ == number) return found_;
  const auto at = by_number_.find(number);
  if (at == by_number_.end()) return nullptr;
  found_number_ = number;
  return found_ = at->second;
}

}  // namespace cordma::transport::verbs
