#include "reconnect.hpp"

#include <algorithm>
#include <string_view>

namespace copy {
namespace {

using cordma::errc;

// Codes of network errors, also if a system call reported them.
bool is_of_network(errc code) noexcept {
  switch (code) {
    case errc::timed_out:
    case errc::shutdown:
    case errc::connection_reset:
    case errc::connection_aborted:
    case errc::not_connected:
    case errc::unreachable: return true;
    default: return false;
  }
}

}  // namespace

bool is_transient(const cordma::failure& why, stage during) noexcept {
  if (during == stage::first_connect) return false;
  // A flushed operation carries the cause that ended the connection.
  const bool is_flushed = why.code() == errc::flushed;
  if (is_flushed && why.cause() != nullptr) return is_transient(*why.cause(), during);
  if (is_flushed || is_of_network(why.code())) return true;
  switch (why.code()) {
    // A process that ends deregisters its memory before its connection closes, perhaps within a
    // frame.
    case errc::truncated:
    case errc::remote_access:
    case errc::remote_not_ready:
    case errc::io_failed: return why.os_errno() == 0;
    // A listener that ends, or has no free entry, rejects connect(). A refusal by a server names no
    // operation.
    case errc::rejected:
      return during == stage::reconnect && std::string_view(why.operation()) == "connect";
    default: return false;
  }
}

reconnect_policy::verdict reconnect_policy::failed(cordma::time_point now,
                                                   std::uint64_t progress) noexcept {
  verdict v;
  v.is_new = !is_interrupted_ || progress > progress_;
  if (v.is_new) {
    is_interrupted_ = true;
    progress_ = progress;
    end_ = cordma::after(now, longest_);
    pause_ = first_pause;
    attempts_ = 0;
  }
  if (now >= end_) return v;
  v.goes_on = true;
  v.pause = std::min(pause_, end_ - now);
  pause_ = std::min(2 * pause_, longest_pause);
  ++attempts_;
  return v;
}

cordma::duration reconnect_policy::time_to_connect(cordma::time_point now) const noexcept {
  if (!is_interrupted_) return cordma::duration::max();
  return std::max(end_ - now, shortest_attempt);
}

}  // namespace copy
