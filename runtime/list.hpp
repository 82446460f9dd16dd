// An intrusive doubly linked list: links without allocating, unlinks in O(1), and lets a node move.
#pragma once

#include <cordma/runtime/check.hpp>

namespace cordma {

namespace detail {
struct stack_layout;
}

// A node in at most one list at a time. Not thread-safe. Destroying a linked node unlinks it.
class list_node {
 public:
  list_node() noexcept = default;
  // Takes the other node's position in its list.
  list_node(list_node&& other) noexcept { take_place_of(other); }
  list_node& operator=(list_node&& other) noexcept {
    if (this != &other) {
      unlink();
      take_place_of(other);
    }
    return *this;
  }
  list_node(const list_node&) = delete;
  list_node& operator=(const list_node&) = delete;
  ~list_node() { unlink(); }

  [[nodiscard]] bool linked() const noexcept { return next_ != nullptr; }
  void unlink() noexcept {
    list_node* const next = next_;
    if (next == nullptr) return;
    list_node* const prev = prev_;
    prev->next_ = next;
    next->prev_ = prev;
    prev_ = next_ = nullptr;
  }

 private:
  template <class>
  friend class list;
  friend struct detail::stack_layout;
  void take_place_of(list_node& other) noexcept {
    if (other.next_ == nullptr) return;
    prev_ = other.prev_;
    next_ = other.next_;
    prev_->next_ = this;
    next_->prev_ = this;
    other.prev_ = other.next_ = nullptr;
  }
  list_node* prev_ = nullptr;
  list_node* next_ = nullptr;
};

// T derives from list_node. The list owns nothing; destroying it unlinks its nodes.
template <class T>
class list {
 public:
  list() noexcept { head_.prev_ = head_.next_ = &head_; }
  list(const list&) = delete;
  list& operator=(const list&) = delete;
  ~list() {
    while (!empty()) pop_front();
    head_.prev_ = head_.next_ = nullptr;
  }

  [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }
  [[nodiscard]] T& front() noexcept { return static_cast<T&>(*head_.next_); }
  void push_back(T& item) noexcept { insert(*head_.prev_, item); }
  void push_front(T& item) noexcept { insert(head_, item); }
  // Moves the item from its list to the back of this one. REQUIRES that it is in a list.
  void move_back(T& item) noexcept {
    list_node& n = item;
    CORDMA_ASSERT(n.linked());
    n.prev_->next_ = n.next_;
    n.next_->prev_ = n.prev_;
    list_node* const last = head_.prev_;
    n.prev_ = last;
    n.next_ = &head_;
    last->next_ = &n;
    head_.prev_ = &n;
  }
  // Inserts the item behind the last one for which `before(item, other)` is false, searching from
  // the back: an item that belongs at the back takes one step. Keeps a list sorted, and equal items
  // in the order of insertion.
  template <class Before>
  void insert_in_order(T& item, Before before) noexcept {
    list_node* place = head_.prev_;
    while (place != &head_ && before(item, static_cast<const T&>(*place))) place = place->prev_;
    insert(*place, item);
  }
  T& pop_front() noexcept {
    list_node& first = *head_.next_;
    head_.next_ = first.next_;
    first.next_->prev_ = &head_;
    first.prev_ = first.next_ = nullptr;
    return static_cast<T&>(first);
  }
  // Returns the first item for which `which(item)` is true, or null.
  template <class Which>
  [[nodiscard]] T* find(Which which) noexcept {
    for (list_node* n = head_.next_; n != &head_; n = n->next_) {
      T& item = static_cast<T&>(*n);
      if (which(static_cast<const T&>(item))) return &item;
    }
    return nullptr;
  }
  // Moves all items of `other` to the back of this list.
  void splice_back(list& other) noexcept {
    if (other.empty()) return;
    list_node* first = other.head_.next_;
    list_node* last = other.head_.prev_;
    other.head_.prev_ = other.head_.next_ = &other.head_;
    first->prev_ = head_.prev_;
    head_.prev_->next_ = first;
    last->next_ = &head_;
    head_.prev_ = last;
  }
  // For a signal handler, which may interrupt a change of the list: returns false as soon as two
  // links do not match. `visit(T&)` must not change a list.
  template <class Visit>
  [[nodiscard]] bool look_through(Visit visit) noexcept {
    for (list_node* at = &head_;;) {
      list_node* const next = at->next_;
      if (next == nullptr || next->prev_ != at) return false;
      if (next == &head_) return true;
      visit(static_cast<T&>(*next));
      at = next;
    }
  }
  // `visit(T&)` may unlink the item that is passed to it, and no other.
  template <class Visit>
  void for_each(Visit visit) {
    for (list_node* n = head_.next_; n != &head_;) {
      list_node* next = n->next_;
      visit(static_cast<T&>(*n));
      n = next;
    }
  }

 private:
  static void insert(list_node& after, T& item) noexcept {
    list_node& n = item;
    CORDMA_ASSERT(!n.linked());
    list_node* const next = after.next_;
    n.prev_ = &after;
    n.next_ = next;
    next->prev_ = &n;
    after.next_ = &n;
  }
  list_node head_;
};

}  // namespace cordma
