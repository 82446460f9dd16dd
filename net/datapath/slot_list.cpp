#include <cordma/net/datapath/slot_list.hpp>

namespace cordma::detail {

void slot_list::remove_later(const slot& s) noexcept {
  slot* before = first_;
  while (before != nullptr && before->next != &s) before = before->next;
  CORDMA_ASSERT(before != nullptr);
  before->next = s.next;
  if (s.next == nullptr) end_ = &before->next;
}

}  // namespace cordma::detail
