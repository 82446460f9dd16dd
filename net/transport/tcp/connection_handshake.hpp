// State of a connection that is needed only until it is open.
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
  // The next candidate to try; null if all were tried. The first always exists.
  [[nodiscard]] const socket_address* next() noexcept {
    return next_ < candidates_.size() ? &candidates_[next_++] : nullptr;
  }
  // The candidate that next() returned last.
  [[nodiscard]] const socket_address& current() const noexcept { return candidates_[next_ - 1]; }
  [[nodiscard]] int first_family() const noexcept { return candidates_.front().family(); }
  // Connects to the current candidate again, with a new socket, after a pause.
  void try_again(reactor& home, failure broken_off) noexcept {
    why_ = std::move(broken_off);
    reader_ = {};
    CORDMA_ASSERT_OP(next_, >, 0U);
    --next_;
    home.add(again_, home.now() + pause_);
    pause_ = std::min(2 * pause_, longest_pause);
  }
  // Connects to the next candidate, which has not received this side's hello.
  void give_up_current(failure why) noexcept {
    why_ = std::move(why);
    reader_ = {};
  }
  [[nodiscard]] bool was_broken_off() const noexcept { return pause_ > first_pause; }
  // The last attempt counts, unless this machine could not even try: a name may have addresses of a
  // disabled family.
  void note(failure why) noexcept {
    const int code = why.os_errno();
    const bool no_family = code == EAFNOSUPPORT || code == ENETUNREACH ||
                           (code == EADDRNOTAVAIL && why.code() != errc::no_memory);
    if (!no_family || why_.code() == errc::ok) why_ = std::move(why);
  }
  // The failure of the previous candidate.
  [[nodiscard]] const failure& why() const noexcept { return why_; }

  // This side's hello, with its receives as they are now.
  [[nodiscard]] const hello& greeting(std::uint32_t receives) noexcept {
    first_.credit = static_cast<std::uint16_t>(receives);
    return first_;
  }
  [[nodiscard]] bool attaches() const noexcept { return first_.kind == hello_kind::attach; }
  void said_hello(time_point now) noexcept { said_hello_ = now; }
  // No data has arrived for long: a listener gives up a client whose hello does not arrive, and one
  // with a full backlog may have lost it.
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
  timer_of<&connection::try_next_candidate> again_;  // pending: connects to the host once more
  duration pause_ = first_pause;
};

}  // namespace cordma::transport::tcp
