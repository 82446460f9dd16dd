// What a connection needs only until it is up.
#pragma once

#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>

#include <cerrno>

namespace cordma::transport::tcp {

// Bound to the adapter's thread.
class handshake {
 public:
  // REQUIRES a candidate.
  handshake(connection& c, std::vector<socket_address> candidates, const hello& first)
      : candidates_(std::move(candidates)), first_(first), again_(c) {
    CORDMA_REQUIRE(!candidates_.empty());
  }
  // The next one to try; null: all were. The first is there.
  [[nodiscard]] const socket_address* next() noexcept {
    return next_ < candidates_.size() ? &candidates_[next_++] : nullptr;
  }
  // That next() returned last.
  [[nodiscard]] const socket_address& current() const noexcept { return candidates_[next_ - 1]; }
  [[nodiscard]] int first_family() const noexcept { return candidates_.front().family(); }
  // Calls it once more, by a socket of its own, after a pause.
  void try_again(reactor& home, failure broken_off) noexcept {
    why_ = std::move(broken_off);
    reader_ = {};
    CORDMA_ASSERT_OP(next_, >, 0U);
    --next_;
    home.add(again_, home.now() + pause_);
    pause_ = std::min(2 * pause_, longest_pause);
  }
  // Calls the next one, which does not know what was said to this one.
  void give_up_current(failure why) noexcept {
    why_ = std::move(why);
    reader_ = {};
  }
  [[nodiscard]] bool was_broken_off() const noexcept { return pause_ > first_pause; }
  // The last attempt counts, except where this machine could not even try: a name may have addresses of a family that
  // is off.
  void note(failure why) noexcept {
    const int code = why.os_errno();
    const bool no_family = code == EAFNOSUPPORT || code == ENETUNREACH ||
                           (code == EADDRNOTAVAIL && why.code() != errc::no_memory);
    if (!no_family || why_.code() == errc::ok) why_ = std::move(why);
  }
  // Why the candidate before was no good.
  [[nodiscard]] const failure& why() const noexcept { return why_; }

  // What this side says, with its receives as they are now.
  [[nodiscard]] const hello& greeting(std::uint32_t receives) noexcept {
    first_.credit = static_cast<std::uint16_t>(receives);
    return first_;
  }
  [[nodiscard]] bool attaches() const noexcept { return first_.kind == hello_kind::attach; }
  void said_hello(time_point now) noexcept { said_hello_ = now; }
  // Nothing has come for long: a listener gives up a client whose hello does not come, and one with a full backlog may
  // have lost it.
  [[nodiscard]] bool may_be_lost(time_point now) const noexcept {
    return reader_.empty() && now - said_hello_ > at_once;
  }
  [[nodiscard]] hello_reader& reader() noexcept { return reader_; }

 private:
  static constexpr duration first_pause = std::chrono::milliseconds(10);
  static constexpr duration longest_pause = std::chrono::milliseconds(500);
  static constexpr duration at_once = std::chrono::seconds(1);

  std::vector<socket_address> candidates_;
  std::size_t next_ = 0;
  failure why_{errc::ok};
  hello first_;
  hello_reader reader_;
  time_point said_hello_{};
  timer_of<&connection::try_next_candidate> again_;  // pending: the host is called once more
  duration pause_ = first_pause;
};

}  // namespace cordma::transport::tcp
