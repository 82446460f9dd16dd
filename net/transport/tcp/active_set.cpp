#include <algorithm>
#include <cordma/net/transport/tcp/active_set.hpp>
#include <cordma/net/transport/tcp/connection.hpp>

namespace cordma::transport::tcp {

bool active_set::has(const connection& c) const noexcept {
  return std::any_of(at_.begin(), at_.begin() + count_,
                     [&c](const candidate& a) { return a.who == &c; });
}

void active_set::add(connection& c) noexcept {
  CORDMA_ASSERT_OP(count_, <=, most);
  for (std::size_t i = 0; i < count_; ++i) {
    if (at_[i].who != &c) continue;
    at_[i].misses = 0;
    return;
  }
  if (count_ < most) {
    at_[count_++] = {&c, 0};
    static_cast<void>(c.follow());
    return;
  }
  const auto idlest =
      std::max_element(at_.begin(), at_.end(),
                       [](const candidate& a, const candidate& b) { return a.misses < b.misses; });
  if (idlest->misses != 0 && idlest->who->follow()) *idlest = {&c, 0};
}

void active_set::remove(const connection& c) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (at_[i].who != &c) continue;
    at_[i] = at_[--count_];
    return;
  }
}

bool active_set::receive() noexcept {
  bool found = false;
  for (std::size_t i = 0; i < count_; ++i) {
    candidate& c = at_[i];
    connection& who = *c.who;
    if (who.receive()) {
      found = true;
      // It may have left the set meanwhile.
      if (i < count_ && at_[i].who == &who) at_[i].misses = 0;
    } else if (++c.misses > most_misses && count_ > 1) {
      retire(i);
    }
  }
  return found;
}

void active_set::retire(std::size_t place) noexcept {
  CORDMA_ASSERT_OP(place, <, count_);
  connection& who = *at_[place].who;
  remove(who);
  CORDMA_ASSERT_OP(count_, <, most);
  if (!who.follow()) at_[count_++] = {&who, 0};
}

bool active_set::follow() noexcept {
  bool all = true;
  for (std::size_t i = 0; i < count_; ++i) all = at_[i].who->follow().ok() && all;
  return all;
}

bool active_set::are_drained() const noexcept {
  return std::all_of(at_.begin(), at_.begin() + count_,
                     [](const candidate& a) { return a.who->drained(); });
}

}  // namespace cordma::transport::tcp
