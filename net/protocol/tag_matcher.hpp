// Which posted receive a tagged message is for. Pure: it moves no byte and knows no connection but by
// its address. Bound to one thread. Allocates when it is made, and never again.
#pragma once

#include <cordma/runtime/list.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cordma::protocol {

// Accepts a message where (its tag ^ tag) & mask is 0, and it is from `from`; null: from anybody.
struct tag_pattern {
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  const void* from = nullptr;
  [[nodiscard]] bool accepts(std::uint64_t other, const void* sender) const noexcept {
    return ((other ^ tag) & mask) == 0 && (from == nullptr || from == sender);
  }
};

// A receive that waits for its message. Destroying it withdraws it.
class tag_receive : public list_node {
 public:
  tag_receive() noexcept = default;
  explicit tag_receive(const tag_pattern& p) noexcept : pattern_(p) {}
  [[nodiscard]] const tag_pattern& pattern() const noexcept { return pattern_; }
  [[nodiscard]] bool waits() const noexcept { return linked(); }

 private:
  friend class tag_matcher;
  tag_pattern pattern_;
  std::uint64_t turn_ = 0;  // of posting
};

// A message, or the announcement of one, that nobody has asked for yet. Destroying it withdraws it.
class tag_message {
 public:
  tag_message(std::uint64_t tag, const void* from) noexcept : tag_(tag), from_(from) {}
  tag_message(const tag_message&) = delete;
  tag_message& operator=(const tag_message&) = delete;
  [[nodiscard]] std::uint64_t tag() const noexcept { return tag_; }
  [[nodiscard]] const void* from() const noexcept { return from_; }
  [[nodiscard]] bool waits() const noexcept { return among_all_.linked(); }

 private:
  friend class tag_matcher;
  struct place : list_node {
    explicit place(tag_message& m) noexcept : owner(&m) {}
    tag_message* owner;
  };
  std::uint64_t tag_;
  const void* from_;
  place among_like_{*this};
  place among_all_{*this};
};

// Two rules give every message to one receive, and together keep messages of one sender and tag in
// order: a message goes to the first posted of the receives that accept it, a receive takes the
// first arrived of the messages that it accepts. Patterns of a whole tag are found by hashing; those with
// a mask, and the messages that they look at, one after the other.
class tag_matcher {
 public:
  tag_matcher();

  // The message that this receive takes, which does not wait any more; null: it waits from now on.
  // REQUIRES that it does not wait yet.
  [[nodiscard]] tag_message* post(tag_receive& r) noexcept;
  // The receive that this message is for, which does not wait any more; null: nobody's yet, keep() it.
  [[nodiscard]] tag_receive* arrive(std::uint64_t tag, const void* from) noexcept;
  // REQUIRES that arrive() has just found nobody for it.
  void keep(tag_message& m) noexcept;

  // The message that a receive posted now would take; it waits on.
  [[nodiscard]] tag_message* probe(const tag_pattern& p) noexcept;
  // For whoever probed it: nobody else gets it. REQUIRES that it waits.
  void claim(tag_message& m) noexcept;
  void withdraw(tag_receive& r) noexcept { r.unlink(); }

  // Visits all receives that wait; it may withdraw what it is given.
  template <class Visit>
  void for_each_receive(Visit visit) {
    for (bucket& b : *buckets_) b.receives.for_each(visit);
    masked_.for_each(visit);
  }
  // Visits, in the order of arrival, what came from there and waits; it may claim or destroy what it is
  // given.
  template <class Visit>
  void for_each_from(const void* from, Visit visit) {
    all_.for_each([&](tag_message::place& p) {
      if (p.owner->from_ == from) visit(*p.owner);
    });
  }

 private:
  static constexpr std::size_t buckets = 1024;
  static_assert((buckets & (buckets - 1)) == 0);
  struct bucket {
    list<tag_receive> receives;  // of a whole tag, by turn
    list<tag_message::place> messages;
  };
  [[nodiscard]] bucket& bucket_of(std::uint64_t tag) noexcept;
  [[nodiscard]] static tag_receive* first_for(list<tag_receive>& among, std::uint64_t tag,
                                              const void* from) noexcept;
  [[nodiscard]] static tag_message* first_of(list<tag_message::place>& among,
                                             const tag_pattern& p) noexcept;

  std::unique_ptr<std::array<bucket, buckets>> buckets_;
  list<tag_receive> masked_;  // by turn
  list<tag_message::place> all_;
  std::uint64_t next_turn_ = 0;
};

}  // namespace cordma::protocol
