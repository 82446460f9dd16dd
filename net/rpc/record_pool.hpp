// Reusable records: each is created if none is free, and keeps its address.
#pragma once

#include <cordma/runtime/list.hpp>

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace cordma::detail {

template <class Record>
class record_pool;

// Base class of a record: its link in a list of used records, or among the free ones.
template <class Record>
class pooled : public list_node {
  friend class record_pool<Record>;
  Record* next_free_ = nullptr;
};

// Bound to one thread. Records live as long as it does.
template <class Record>
class record_pool {
 public:
  // A new record is constructed from `owner` and its index. Null: no memory.
  template <class Owner>
  [[nodiscard]] Record* take(Owner& owner) noexcept {
    if (Record* const free = free_; free != nullptr) {
      free_ = free->next_free_;
      return free;
    }
    try {
      all_.push_back(std::make_unique<Record>(owner, static_cast<std::uint32_t>(all_.size())));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    return all_.back().get();
  }
  // REQUIRES that it was taken.
  void put_back(Record& r) noexcept { r.next_free_ = std::exchange(free_, &r); }
  // Null if there is no such record.
  [[nodiscard]] Record* find(std::uint32_t index) const noexcept {
    return index < all_.size() ? all_[index].get() : nullptr;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& r : all_) visit(*r);
  }

 private:
  std::vector<std::unique_ptr<Record>> all_;  // by index
  Record* free_ = nullptr;
};

}  // namespace cordma::detail
