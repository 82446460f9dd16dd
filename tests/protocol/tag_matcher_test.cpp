// Tag matching, compared with a matcher that checks everything in order.
#include <doctest/doctest.h>

#include <cordma/net/protocol/tag_matcher.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <utility>
#include <vector>

using namespace cordma::protocol;

namespace {

constexpr std::array<char, 3> peers{};  // their addresses identify them
const void* peer(std::size_t number) { return &peers[number]; }

struct numbered_receive : cordma::list_node {
  numbered_receive(int n, const tag_pattern& p) : number(n), wanted{.pattern = p} {}
  [[nodiscard]] tag_place& place() noexcept { return wanted; }
  [[nodiscard]] const tag_place& place() const noexcept { return wanted; }
  int number;
  tag_place wanted;
};
using matcher_of_numbered = tag_matcher<numbered_receive>;
struct numbered_message : tag_message {
  numbered_message(std::uint64_t tag, const void* from, int n)
      : tag_message(tag, from), number(n) {}
  int number;
};
int number_of(const numbered_receive& r) { return r.number; }
int number_of(const tag_message& m) { return static_cast<const numbered_message&>(m).number; }

// Reference implementation that the matcher must agree with.
struct reference {
  struct receive {
    tag_pattern pattern;
    int number;
  };
  struct message {
    std::uint64_t tag;
    const void* from;
    int number;
  };
  std::optional<int> post(const tag_pattern& p, int number) {
    const auto found = find(p);
    if (found == messages.end()) {
      receives.push_back({p, number});
      return std::nullopt;
    }
    const int taken = found->number;
    messages.erase(found);
    return taken;
  }
  std::optional<int> arrive(std::uint64_t tag, const void* from, int number) {
    const auto found = std::ranges::find_if(
        receives, [&](const receive& r) { return r.pattern.accepts(tag, from); });
    if (found == receives.end()) {
      messages.push_back({tag, from, number});
      return std::nullopt;
    }
    const int taker = found->number;
    receives.erase(found);
    return taker;
  }
  std::vector<message>::iterator find(const tag_pattern& p) {
    return std::ranges::find_if(messages,
                                [&](const message& m) { return p.accepts(m.tag, m.from); });
  }
  std::vector<receive> receives;
  std::vector<message> messages;
};

// Both matchers, with the same input.
class pair_of_matchers {
 public:
  void post(const tag_pattern& p) {
    numbered_receive& r = receives_.emplace_back(next_, p);
    const bool at_once = tested_.post_at_once(r);
    const tag_message* const got = at_once ? nullptr : tested_.post(r);
    const std::optional<int> expected = reference_.post(p, next_++);
    REQUIRE((got != nullptr) == expected.has_value());
    if (got != nullptr) CHECK(number_of(*got) == *expected);
    CHECK(r.linked() == (got == nullptr));
  }
  void arrive(std::uint64_t tag, const void* from) {
    const numbered_receive* const taker = tested_.arrive(tag, from);
    const std::optional<int> expected = reference_.arrive(tag, from, next_);
    REQUIRE((taker != nullptr) == expected.has_value());
    if (taker != nullptr) {
      CHECK(number_of(*taker) == *expected);
    } else {
      tested_.keep(messages_.emplace_back(tag, from, next_));
    }
    ++next_;
  }
  void withdraw_receive(std::size_t nth) {
    const auto waiting = [](const numbered_receive& r) { return r.linked(); };
    const auto found = nth_of(receives_, nth, waiting);
    if (found == receives_.end()) return;
    found->unlink();
    std::erase_if(reference_.receives, [&](const auto& r) { return r.number == found->number; });
  }
  void probe(const tag_pattern& p, bool claim) {
    tag_message* const seen = tested_.probe(p);
    const auto expected = reference_.find(p);
    REQUIRE((seen != nullptr) == (expected != reference_.messages.end()));
    if (seen == nullptr) return;
    CHECK(number_of(*seen) == expected->number);
    CHECK(seen->waits());
    if (!claim) return;
    tested_.claim(*seen);
    reference_.messages.erase(expected);
  }
  void peer_ends(const void* from) {
    std::vector<int> dropped;
    const tag_pattern all_of_it{.tag = 0, .mask = 0, .from = from};
    while (tag_message* const m = tested_.probe(all_of_it)) {
      dropped.push_back(number_of(*m));
      tested_.claim(*m);
    }
    std::vector<int> expected;
    for (const auto& m : reference_.messages) {
      if (m.from == from) expected.push_back(m.number);
    }
    std::erase_if(reference_.messages, [from](const auto& m) { return m.from == from; });
    CHECK(dropped == expected);
  }

 private:
  template <class Which>
  static std::deque<numbered_receive>::iterator nth_of(std::deque<numbered_receive>& all,
                                                       std::size_t nth, Which which) {
    auto at = std::ranges::find_if(all, which);
    while (at != all.end() && nth-- > 0) at = std::find_if(std::next(at), all.end(), which);
    return at;
  }
  matcher_of_numbered tested_;
  reference reference_;
  std::deque<numbered_receive> receives_;  // destroyed before the queues in which they wait
  std::deque<numbered_message> messages_;
  int next_ = 0;
};

tag_pattern random_pattern(std::mt19937_64& chance) {
  constexpr std::array<std::uint64_t, 5> masks{~0ULL, ~0ULL, 0, 0xFF, 0xFFFFFFFF00000000ULL};
  tag_pattern p{.tag = chance() % 4 | (chance() % 2) << 40, .mask = masks[chance() % masks.size()]};
  if (chance() % 3 == 0) p.from = peer(chance() % peers.size());
  return p;
}

void play(std::uint64_t seed) {
  CAPTURE(seed);
  std::mt19937_64 chance(seed);
  pair_of_matchers both;
  const std::uint64_t eagerness = 1 + chance() % 7;  // more messages than receives, or fewer
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    const std::uint64_t what = chance() % 20;
    if (what == 0) {
      both.withdraw_receive(chance() % 5);
    } else if (what == 1) {
      both.probe(random_pattern(chance), chance() % 2 == 0);
    } else if (what == 2 && chance() % 8 == 0) {
      both.peer_ends(peer(chance() % peers.size()));
    } else if (what % 8 < eagerness) {
      both.arrive(chance() % 4 | (chance() % 2) << 40, peer(chance() % peers.size()));
    } else {
      both.post(random_pattern(chance));
    }
  }
}

}  // namespace

TEST_CASE(
    "K6: tags, masks and senders in random order match as looking at all of them does [2000 "
    "seeds]") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) play(seed);
}

TEST_CASE("K6: messages of one sender and tag are taken in the order of arrival, by any receives") {
  matcher_of_numbered matcher;
  numbered_message first(7, peer(0), 1);
  numbered_message second(7, peer(0), 2);
  for (numbered_message* m : {&first, &second}) {
    REQUIRE(matcher.arrive(7, peer(0)) == nullptr);
    matcher.keep(*m);
  }
  numbered_receive by_mask(1, {.tag = 0, .mask = 0});
  numbered_receive by_tag(2, {.tag = 7});
  CHECK(matcher.post(by_mask) == &first);
  CHECK(matcher.post(by_tag) == &second);
}

TEST_CASE("K6: a receive with a mask that was posted first comes before one of the whole tag") {
  matcher_of_numbered matcher;
  numbered_receive by_mask(1, {.tag = 0, .mask = 0});
  numbered_receive by_tag(2, {.tag = 7});
  REQUIRE(matcher.post(by_mask) == nullptr);
  REQUIRE(matcher.post(by_tag) == nullptr);
  CHECK(matcher.arrive(7, peer(0)) == &by_mask);
  CHECK(matcher.arrive(7, peer(0)) == &by_tag);
  CHECK(matcher.arrive(7, peer(0)) == nullptr);
}

TEST_CASE("K6: what is destroyed while it waits is matched with nothing") {
  matcher_of_numbered matcher;
  {
    numbered_receive gone(1, {.tag = 7});
    REQUIRE(matcher.post(gone) == nullptr);
  }
  CHECK(matcher.arrive(7, peer(0)) == nullptr);
  {
    numbered_message gone(7, peer(0), 1);
    matcher.keep(gone);
  }
  numbered_receive late(2, {.tag = 7});
  CHECK(matcher.post(late) == nullptr);
}
