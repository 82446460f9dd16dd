// Checks that the observations of one key are linearizable: each operation took effect at one
// moment between its start and its end. Uses the search of Wing and Gong with Lowe's cache of tried
// states (Testing for Linearizability, 2016).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace kv::test {

// Every value written to a key has a different number; 0 means no value.
using value_id = std::uint64_t;
inline constexpr value_id nothing = 0;
using instant = std::int64_t;  // nanoseconds, of one clock
inline constexpr instant not_yet = std::numeric_limits<instant>::max();

struct event {
  enum class kind : std::uint8_t { get, set, erase, swap };
  kind what = kind::get;
  value_id written = nothing;   // set, swap
  value_id expected = nothing;  // swap: the value to be replaced
  // get: the value read. erase: not `nothing` if a value was erased. swap: `written` if it
  // succeeded; otherwise the value that prevented it, if known, or `nothing`.
  value_id seen = nothing;
  bool swapped = false;
  // not_yet: it is unknown whether the operation took effect or will.
  instant start = 0;
  instant end = not_yet;
};

// Values that may vanish without an operation: evicted values at any time, expired values from
// their expiry on.
struct may_vanish {
  bool any_time = false;
  // Expiry of a value, at its number modulo the length; not_yet if it has none.
  std::vector<instant> expiry;
  [[nodiscard]] bool by(value_id v, instant when) const noexcept {
    if (any_time) return true;
    return v < expiry.size() && expiry[v] <= when;
  }
};

class linearizer {
 public:
  linearizer(std::vector<event> history, may_vanish vanishing = {})
      : history_(std::move(history)), vanishing_(std::move(vanishing)) {}

  // Returns an empty string if the history is linearizable, otherwise a message.
  [[nodiscard]] std::string check() {
    build();
    if (search()) return {};
    return "no order of these " + std::to_string(history_.size()) +
           " operations explains what was seen; the longest that does has " +
           std::to_string(longest_);
  }

 private:
  static constexpr std::size_t head = 0;  // of the list; an entry's number otherwise
  struct entry {
    std::size_t operation = 0;
    bool is_call = false;
    instant at = 0;
    std::size_t other = 0;  // of a call: its return
    std::size_t before = 0;
    std::size_t after = 0;
  };

  void build() {
    for (std::size_t i = 0; i < history_.size(); ++i) {
      entries_.push_back({.operation = i, .is_call = true, .at = history_[i].start});
      entries_.push_back({.operation = i, .is_call = false, .at = history_[i].end});
    }
    std::sort(entries_.begin(), entries_.end(), [](const entry& a, const entry& b) {
      return std::pair(a.at, !a.is_call) < std::pair(b.at, !b.is_call);
    });
    entries_.insert(entries_.begin(), entry());
    std::vector<std::size_t> calls(history_.size());
    for (std::size_t n = 0; n < entries_.size(); ++n) {
      entries_[n].before = n == 0 ? entries_.size() - 1 : n - 1;
      entries_[n].after = n + 1 == entries_.size() ? head : n + 1;
      if (n == head) continue;
      if (entries_[n].is_call) {
        calls[entries_[n].operation] = n;
      } else {
        entries_[calls[entries_[n].operation]].other = n;
      }
    }
    done_.assign((history_.size() + 63) / 64, 0);
  }

  // Returns the state after the event, or nullopt if the event is impossible in `state`.
  [[nodiscard]] std::optional<value_id> apply(const event& e, value_id state) const {
    const bool may_be_gone = state != nothing && vanishing_.by(state, e.end);
    switch (e.what) {
      case event::kind::set: return e.written;
      case event::kind::get:
        if (e.seen == state) return state;
        return e.seen == nothing && may_be_gone ? std::optional<value_id>(nothing) : std::nullopt;
      case event::kind::erase:
        if (e.end == not_yet) return nothing;
        if (e.seen != nothing)
          return state != nothing ? std::optional<value_id>(nothing) : std::nullopt;
        return state == nothing || may_be_gone ? std::optional<value_id>(nothing) : std::nullopt;
      case event::kind::swap: break;
    }
    if (e.swapped) return state == e.expected ? std::optional<value_id>(e.written) : std::nullopt;
    if (e.end == not_yet) return state == e.expected ? e.written : state;
    if (e.seen == nothing) {
      return state == nothing || may_be_gone ? std::optional<value_id>(nothing) : std::nullopt;
    }
    return state == e.seen ? std::optional<value_id>(state) : std::nullopt;
  }

  [[nodiscard]] bool first_time(value_id state) {
    std::string key(reinterpret_cast<const char*>(done_.data()), done_.size() * sizeof done_[0]);
    key.append(reinterpret_cast<const char*>(&state), sizeof state);
    return tried_.insert(std::move(key)).second;
  }
  void flip(std::size_t operation) { done_[operation / 64] ^= std::uint64_t{1} << operation % 64; }
  void take_out(std::size_t n) {
    entries_[entries_[n].before].after = entries_[n].after;
    entries_[entries_[n].after].before = entries_[n].before;
  }
  void put_back(std::size_t n) {
    entries_[entries_[n].before].after = n;
    entries_[entries_[n].after].before = n;
  }

  [[nodiscard]] bool search() {
    struct step {
      std::size_t call;
      value_id before;
    };
    std::vector<step> taken;
    value_id state = nothing;
    std::size_t at = entries_[head].after;
    while (entries_[head].after != head) {
      const entry& e = entries_[at];
      if (e.is_call) {
        const std::optional<value_id> next = apply(history_[e.operation], state);
        if (next) {
          flip(e.operation);
          if (first_time(*next)) {
            taken.push_back({at, state});
            longest_ = std::max(longest_, taken.size());
            state = *next;
            take_out(at);
            take_out(e.other);
            at = entries_[head].after;
            continue;
          }
          flip(e.operation);
        }
        at = e.after;
        continue;
      }
      if (e.at == not_yet) return true;  // the remaining operations may never have happened
      if (taken.empty()) return false;
      const step back = taken.back();
      taken.pop_back();
      put_back(entries_[back.call].other);
      put_back(back.call);
      flip(entries_[back.call].operation);
      state = back.before;
      at = entries_[back.call].after;
    }
    return true;
  }

  std::vector<event> history_;
  may_vanish vanishing_;
  std::vector<entry> entries_;
  std::vector<std::uint64_t> done_;
  std::unordered_set<std::string> tried_;
  std::size_t longest_ = 0;
};

}  // namespace kv::test
