// The queue pairs of an adapter, by their index, which requests carry, and by their numbers.
#pragma once

#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/runtime/check.hpp>

#include <span>
#include <unordered_map>
#include <vector>

namespace cordma::transport::verbs {

class verbs_pair;

// An index in a table, and its generation: the number of its earlier users.
struct table_place {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
};

// Bound to the adapter's thread.
class pair_table {
 public:
  [[nodiscard]] table_place enter(verbs_pair& p);
  void leave(verbs_pair& p, const table_place& at, std::uint32_t number) noexcept;
  void name(std::uint32_t number, verbs_pair& p) { by_number_[number] = &p; }
  [[nodiscard]] verbs_pair* at(std::uint32_t index) const noexcept {
    return index < seated_.size() ? seated_[index].pair : nullptr;
  }
  [[nodiscard]] verbs_pair* find(std::uint32_t number) noexcept;
  [[nodiscard]] bool empty() const noexcept {
    return by_number_.empty() && free_.size() == seats_.size();
  }
  // True if `visit` is true for one of them.
  template <class Visit>
  bool any_of(Visit visit) const {
    for (const seat& s : seats_) {
      if (s.pair != nullptr && visit(*s.pair)) return true;
    }
    return false;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const seat& s : seats_) {
      if (s.pair != nullptr) visit(*s.pair);
    }
  }

 private:
  struct seat {
    verbs_pair* pair = nullptr;
    std::uint32_t generation = 0;
  };
  std::vector<seat> seats_;
  std::span<const seat> seated_;  // all of them, for look-ups by completions
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint32_t, verbs_pair*> by_number_;
  verbs_pair* found_ = nullptr;  // result of the last find(); null: none
  std::uint32_t found_number_ = 0;
};

}  // namespace cordma::transport::verbs
