// Requests that do not wait for the previous one: several at a time, or at scheduled times.
#include "kinds.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <vector>

namespace perf {
namespace {

using cordma::task;

// Requests to which the peer's program responds with a message of the same kind.
template <class Kind>
class echoed {
 public:
  explicit echoed(lane& l) : lane_(l), answers_(l.what.outstanding), sends_(l.what.outstanding) {}
  [[nodiscard]] auto& answers() noexcept { return answers_; }
  // The transport may still use the buffers of sends that were already answered.
  [[nodiscard]] bool room() const noexcept { return !sends_.full(); }
  void make(std::uint64_t i) {
    const std::uint64_t slot = i % lane_.slots;
    lane_.fill_out(slot, i);
    answers_.start([&] { return Kind::receive(lane_, slot); });
    sends_.start([&] { return Kind::send(lane_, slot, i); });
  }
  template <class Got>
  void look(std::uint64_t i, const Got& got) noexcept {
    if (!lane_.what.check) return;
    const auto message = lane_.in(i % lane_.slots).bytes();
    if (got.bytes != message.size() || !matches(message, i)) ++lane_.wrong;
  }
  // Removes completed sends; throws the error of a failed one.
  task<void> tidy() {
    while (!sends_.empty() && sends_.oldest().done()) {
      auto& oldest = sends_.oldest();
      co_await oldest;
      sends_.pop();
    }
  }
  [[nodiscard]] bool untidy() noexcept { return !sends_.empty() && sends_.oldest().done(); }
  task<void> finish() { return drain(sends_); }
  // The peer waits for `missing` more requests: sends an empty message for each of its receives to
  // release it.
  task<void> end_early(std::uint64_t missing) {
    const auto waiting = std::min<std::uint64_t>(missing, lane_.what.outstanding);
    for (std::uint64_t i = 0; i < waiting; ++i) co_await Kind::send_empty(lane_);
  }

 private:
  lane& lane_;
  typename Kind::recv_ring answers_;
  typename Kind::send_ring sends_;
};

// Requests that do not involve the peer's program.
template <class Kind>
class one_sided {
 public:
  explicit one_sided(lane& l) : lane_(l), operations_(l.what.outstanding) {}
  [[nodiscard]] auto& answers() noexcept { return operations_; }
  [[nodiscard]] bool room() const noexcept { return true; }
  void make(std::uint64_t i) {
    operations_.start([&] { return Kind::make(lane_, i % lane_.slots, i); });
  }
  template <class... Value>
  void look(std::uint64_t i, Value... value) noexcept {
    Kind::look(lane_, i % lane_.slots, i, value...);
  }
  [[nodiscard]] bool untidy() const noexcept { return false; }
  task<void> tidy() { co_return; }
  task<void> finish() { co_return; }
  task<void> end_early(std::uint64_t) { co_return; }

 private:
  lane& lane_;
  support::op_ring<typename Kind::operation> operations_;
};

// Waits for the oldest response and checks it.
template <class Requests>
task<void> take_answer(Requests& requests, std::uint64_t i) {
  auto& oldest = requests.answers().oldest();
  using value = typename std::remove_reference_t<decltype(oldest)>::value_type;
  if constexpr (std::is_void_v<value>) {
    co_await oldest;
    requests.look(i);
  } else {
    const value got = co_await oldest;
    requests.look(i, got);
  }
  requests.answers().pop();
}

// The closed loop: starts another request as soon as one completes.
template <class Requests>
task<void> as_many_at_once(lane& l, std::uint64_t count) {
  Requests requests(l);
  const std::uint64_t window = l.what.outstanding;
  std::vector<std::uint64_t> made(window);
  std::vector<std::uint64_t> ended(window);  // end of the previous request in the same slot
  std::uint64_t sent = 0;
  std::uint64_t done = 0;
  while (done < count) {
    {
      const cordma::Endpoint::Batch batch = l.endpoint().batch();
      for (; sent < count && sent - done < window && requests.room(); ++sent) {
        const std::uint64_t place = sent % window;
        made[place] = ticks();
        if (sent >= window) l.between += static_cast<double>(made[place] - ended[place]);
        requests.make(sent);
      }
    }
    if (requests.answers().empty()) {  // all are answered, but some sends are incomplete
      co_await requests.finish();
      continue;
    }
    co_await take_answer(requests, done);
    ended[done % window] = ticks();
    l.samples.record(ended[done % window] - made[done % window]);
    ++done;
    l.progress.store(done, std::memory_order_relaxed);
    if (requests.untidy()) co_await requests.tidy();
  }
  co_await requests.finish();
}

// Time of the next request, in ticks.
class schedule {
 public:
  explicit schedule(lane& l)
      : lane_(l), gap_(1e9 / l.hz / l.ns_per_tick), next_(static_cast<double>(ticks())) {
    // Distributes the flows evenly, too.
    if (l.what.arrives == arrival::constant) next_ -= gap_ * l.index / l.what.flows;
    advance();
  }
  [[nodiscard]] std::uint64_t next() const noexcept { return static_cast<std::uint64_t>(next_); }
  void advance() noexcept {
    next_ += lane_.what.arrives == arrival::poisson ? random_gap(lane_.random, gap_) : gap_;
  }

 private:
  lane& lane_;
  double gap_;
  double next_;
};

// The open loop: makes each request at its time, independent of earlier ones. Polls, so that none
// is late.
template <class Requests>
task<void> at_their_times(lane& l, std::uint64_t count) {
  struct moment {
    std::uint64_t intended = 0;
    std::uint64_t made = 0;
  };
  Requests requests(l);
  schedule times(l);
  const std::uint64_t window = l.what.outstanding;
  std::vector<moment> moments(window);
  std::uint64_t sent = 0;
  std::uint64_t done = 0;
  std::uint64_t room_since = ticks();
  const std::uint64_t began = room_since;
  std::uint64_t changed_at = room_since;
  const auto in_flight_until = [&](std::uint64_t now) {
    l.in_flight_area += static_cast<double>(sent - done) * static_cast<double>(now - changed_at);
    changed_at = now;
  };
  std::uint64_t last = count;
  while (done < last) {
    while (!requests.answers().empty() && requests.answers().oldest().done()) {
      co_await take_answer(requests, done);
      const std::uint64_t now = ticks();
      const moment& m = moments[done % window];
      l.samples.record(now - m.made);
      l.intended.record(now - m.intended);
      in_flight_until(now);
      if (sent - done == window) room_since = now;
      ++done;
      l.progress.store(done, std::memory_order_relaxed);
    }
    if (requests.untidy()) co_await requests.tidy();
    const std::uint64_t due = times.next();
    if (sent < last && sent - done < window && requests.room() && ticks() >= due) {
      const std::uint64_t now = ticks();
      moments[sent % window] = {due, now};
      in_flight_until(now);
      requests.make(sent);
      l.lag.record(now - std::min(now, std::max(due, room_since)));
      ++sent;
      l.due_for = static_cast<double>(due) - static_cast<double>(began);
      times.advance();
      continue;
    }
    if (l.stop->load(std::memory_order_relaxed)) last = sent;
    co_await cordma::yield();
  }
  co_await requests.finish();
  co_await requests.end_early(count - last);
}

template <class Requests>
task<void> request(lane& l, std::uint64_t count) {
  return l.hz > 0 ? at_their_times<Requests>(l, count) : as_many_at_once<Requests>(l, count);
}

template <class Kind>
task<void> answer(lane& l, std::uint64_t count) {
  const std::uint64_t window = l.what.outstanding;
  typename Kind::recv_ring receives(l.what.outstanding);
  typename Kind::send_ring sends(l.what.outstanding);
  for (std::uint64_t i = 0; i < window && i < count; ++i) {
    receives.start([&] { return Kind::receive(l, i % l.slots); });
  }
  bool ended = false;
  for (std::uint64_t i = 0; !receives.empty(); ++i) {
    auto& oldest = receives.oldest();
    const auto got = co_await oldest;
    receives.pop();
    ended = ended || got.bytes == 0;
    if (ended) continue;
    const std::uint64_t slot = i % l.slots;
    while (sends.full() || (!sends.empty() && sends.oldest().done())) {
      auto& sent = sends.oldest();
      co_await sent;
      sends.pop();
    }
    if (l.what.check) {
      const auto message = l.in(slot).bytes();
      if (got.bytes != message.size() || !matches(message, i)) ++l.wrong;
      l.fill_out(slot, i);
    }
    stall_if_due(l, i);
    if (i + window < count) receives.start([&] { return Kind::receive(l, slot); });
    sends.start([&] { return Kind::send(l, slot, i); });
  }
  co_await drain(sends);
}

}  // namespace

task<void> request_many(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return request<echoed<tagged>>(l, count);
    case verb::write_imm: return request<echoed<imm>>(l, count);
    case verb::read: return request<one_sided<reading>>(l, count);
    case verb::fetch_add: return request<one_sided<adding>>(l, count);
    case verb::compare_swap: return request<one_sided<swapping>>(l, count);
    default: return request<echoed<plain>>(l, count);
  }
}

task<void> echo_many(lane& l, std::uint64_t count) {
  switch (l.what.facts().what) {
    case verb::tag: return answer<tagged>(l, count);
    case verb::write_imm: return answer<imm>(l, count);
    default: return answer<plain>(l, count);
  }
}

}  // namespace perf
