// Finds the posted receive for a tagged message. Pure: it moves no byte, and identifies a
// connection only by its address. Bound to one thread. Allocates when it is constructed, and never
// again.
#pragma once

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/list.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cordma::protocol {

// Accepts a message if (its tag ^ tag) & mask is 0, and it is from `from`; null: from any peer.
struct tag_pattern {
  std::uint64_t tag = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  const void* from = nullptr;
  [[nodiscard]] bool accepts(std::uint64_t other, const void* sender) const noexcept {
    return ((other ^ tag) & mask) == 0 && (from == nullptr || from == sender);
  }
};

// Part of a receive: its pattern, and the order of its posting.
struct tag_place {
  tag_pattern pattern;
  std::uint64_t turn = 0;  // order of posting; set by the matcher
};

// An unexpected message or offer. Destroying it withdraws it.
class tag_message {
 public:
  tag_message(std::uint64_t tag, const void* from) noexcept : tag_(tag), from_(from) {}
  tag_message(const tag_message&) = delete;
  tag_message& operator=(const tag_message&) = delete;
  [[nodiscard]] std::uint64_t tag() const noexcept { return tag_; }
  [[nodiscard]] const void* from() const noexcept { return from_; }
  [[nodiscard]] bool waits() const noexcept { return among_all_.linked(); }

 private:
  template <class>
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

// Two rules assign every message to one receive, and together keep messages of one sender and tag
// in order: a message goes to the first posted of the receives that accept it, and a receive takes
// the first arrived of the messages that it accepts. Patterns of a complete tag are found by
// hashing; patterns with a mask, and the messages they are compared with, one after the other.
// `Receive` derives from list_node, and place() is its tag_place; while linked, it waits, and
// destroying it withdraws it.
template <class Receive>
class tag_matcher {
 public:
  tag_matcher() : buckets_(std::make_unique<std::array<bucket, buckets>>()) {}

  // Returns the message for this receive, and removes it from the waiting ones; null: the receive
  // waits from now on. REQUIRES that it does not wait yet.
  [[nodiscard]] tag_message* post(Receive& r) noexcept {
    CORDMA_REQUIRE(!r.linked());
    tag_place& p = r.place();
    tag_message* const here = probe(p.pattern);
    if (here != nullptr) {
      claim(*here);
      return here;
    }
    p.turn = next_turn_++;
    (is_whole(p.pattern) ? bucket_of(p.pattern.tag).receives : masked_).push_back(r);
    return nullptr;
  }
  // As post(), if no message of this tag waits, which takes one check. False: nothing has changed,
  // call post().
  [[nodiscard, gnu::always_inline]] bool post_at_once(Receive& r) noexcept {
    tag_place& p = r.place();
    bucket& of_tag = bucket_of(p.pattern.tag);
    if (!is_whole(p.pattern) || !of_tag.messages.empty()) [[unlikely]]
      return false;
    p.turn = next_turn_++;
    of_tag.receives.push_back(r);
    return true;
  }
  // The receive for a message of that tag; it keeps waiting.
  [[nodiscard]] Receive* first_for(std::uint64_t tag, const void* from) noexcept {
    Receive* const whole = first_of(bucket_of(tag).receives, tag, from);
    if (masked_.empty()) [[likely]]
      return whole;
    Receive* const masked = first_of(masked_, tag, from);
    const bool is_first =
        whole == nullptr || (masked != nullptr && masked->place().turn < whole->place().turn);
    return is_first ? masked : whole;
  }
  // As first_for(), but the receive no longer waits; null: the message is unexpected, call keep().
  [[nodiscard]] Receive* arrive(std::uint64_t tag, const void* from) noexcept {
    Receive* const found = first_for(tag, from);
    if (found != nullptr) found->unlink();
    return found;
  }
  // REQUIRES that arrive() has just found no receive for it.
  void keep(tag_message& m) noexcept {
    bucket_of(m.tag_).messages.push_back(m.among_like_);
    all_.push_back(m.among_all_);
  }

  // The message that a receive posted now would take; it keeps waiting.
  [[nodiscard]] tag_message* probe(const tag_pattern& p) noexcept {
    return first_of(is_whole(p) ? bucket_of(p.tag).messages : all_, p);
  }
  // Reserves a probed message for the caller: no receive gets it. REQUIRES that it waits.
  void claim(tag_message& m) noexcept {
    CORDMA_REQUIRE(m.waits());
    m.among_like_.unlink();
    m.among_all_.unlink();
  }

  // Visits all waiting receives; `visit` may withdraw the receive that is passed to it.
  template <class Visit>
  void for_each_receive(Visit visit) {
    for (bucket& b : *buckets_) b.receives.for_each(visit);
    masked_.for_each(visit);
  }

 private:
  static constexpr std::size_t buckets = 1024;
  static_assert(std::has_single_bit(buckets));
  struct bucket {
    list<Receive> receives;  // with a complete tag, in the order of posting
    list<tag_message::place> messages;
  };
  [[nodiscard]] static constexpr bool is_whole(const tag_pattern& p) noexcept {
    return p.mask == ~std::uint64_t{0};
  }
  [[nodiscard]] bucket& bucket_of(std::uint64_t tag) noexcept {
    // Tags are counters or consist of fields: the high bits of a product depend on all bits of the
    // tag.
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
    constexpr int shift = 64 - std::countr_zero(buckets);
    return (*buckets_)[static_cast<std::size_t>((tag * golden) >> shift)];
  }
  [[nodiscard]] static Receive* first_of(list<Receive>& among, std::uint64_t tag,
                                         const void* from) noexcept {
    return among.find([&](const Receive& r) { return r.place().pattern.accepts(tag, from); });
  }
  [[nodiscard]] static tag_message* first_of(list<tag_message::place>& among,
                                             const tag_pattern& p) noexcept {
    const tag_message::place* const found = among.find(
        [&](const tag_message::place& m) { return p.accepts(m.owner->tag_, m.owner->from_); });
    return found != nullptr ? found->owner : nullptr;
  }

  std::unique_ptr<std::array<bucket, buckets>> buckets_;
  list<Receive> masked_;  // in the order of posting
  list<tag_message::place> all_;
  std::uint64_t next_turn_ = 0;
};

}  // namespace cordma::protocol
