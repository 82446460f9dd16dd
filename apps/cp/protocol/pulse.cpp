#include "pulse.hpp"

#include <cordma/runtime/timeout.hpp>

#include <chrono>
#include <string>

namespace copy {

using cordma::task;

std::uint64_t pulse::heard() const noexcept {
  std::uint64_t bytes = 0;
  for (const std::unique_ptr<lane>& l : ways_) bytes += l->heard();
  return bytes;
}

task<void> pulse::beat() {
  if (silence_s_ == 0) co_return;
  // Counts own ticks: if this process was stopped for a while, that time does not count as silence.
  constexpr int most_silent = 4;  // ticks
  const cordma::duration tick = cordma::duration(std::chrono::seconds(silence_s_)) / most_silent;
  std::uint64_t before = heard();
  for (int silent = 0; silent < most_silent;) {
    bool over = true;
    try {
      co_await cordma::with_timeout(tick, over_.wait());
    } catch (const cordma::error& e) {
      over = e.condition() != cordma::errc::timed_out;
      if (over) throw;
    }
    if (over) co_return;
    lane& first = *ways_.front();
    if (!first.finishing()) {
      frame_writer(first.out(), frame_kind::alive);
      first.kick();
    }
    const std::uint64_t now = heard();
    silent = now == before ? silent + 1 : 0;
    before = now;
  }
  // Operations to a peer that reads nothing would otherwise wait for the transport's own timeout.
  for (const std::unique_ptr<lane>& l : ways_) l->stream().endpoint().abort();
  cordma::throw_error({cordma::errc::timed_out, "nothing was heard of the other side for " +
                                                    std::to_string(silence_s_) +
                                                    " s, as --timeout has it"});
}

}  // namespace copy
