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
  // As ticks of this program's own: where it was stopped itself for a while, that is nobody's silence.
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
  // What is on its way to a peer that takes nothing could else be given up only when the transport gives it up.
  for (const std::unique_ptr<lane>& l : ways_) l->stream().endpoint().abort();
  cordma::throw_error({cordma::errc::timed_out, "nothing was heard of the other side for " +
                                                    std::to_string(silence_s_) +
                                                    " s, as --timeout has it"});
}

}  // namespace copy
