// Ping-pong by remote writes; each side polls its memory.
#include "kinds.hpp"
#include "tests.hpp"
#include "ticks.hpp"

#include <cordma/runtime/sleep.hpp>

namespace perf {
namespace {

using write_ring = support::op_ring<cordma::send_operation>;

// The number of slots is a power of two.
std::uint64_t slot_of(const lane& l, std::uint64_t number) noexcept {
  return number & (l.slots - 1);
}

// The end of a message, where its writer stores its number: in eight bytes, or in one if the size
// does not allow eight.
class flag {
 public:
  explicit flag(std::span<std::byte> message) noexcept
      : wide_(message.size() >= 8 && message.size() % 8 == 0),
        at_(message.data() + message.size() - (wide_ ? 8 : 1)) {}
  void set(std::uint64_t number) const noexcept {
    if (wide_) {
      word().store(number, std::memory_order_release);
    } else {
      byte().store(static_cast<std::uint8_t>(number), std::memory_order_release);
    }
  }
  [[nodiscard]] bool is(std::uint64_t number) const noexcept {
    if (wide_) return word().load(std::memory_order_acquire) == number;
    return byte().load(std::memory_order_acquire) == static_cast<std::uint8_t>(number);
  }

 private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> word() const noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at_));
  }
  [[nodiscard]] std::atomic_ref<std::uint8_t> byte() const noexcept {
    return std::atomic_ref<std::uint8_t>(*reinterpret_cast<std::uint8_t*>(at_));
  }
  bool wide_;
  std::byte* at_;
};

void prepare_write(lane& l, write_ring& ring, std::uint64_t number) {
  const cordma::Slice& from = l.out(slot_of(l, number));
  flag(from.bytes()).set(number);
  ring.prepare([&] { return l.endpoint().write(l.peer_in(0), from); });
}

}  // namespace

cordma::task<void> write_and_look(lane& l, std::uint64_t count) {
  write_ring writes(l.slots);
  const flag mine(l.in(0).bytes());
  if (count != 0) prepare_write(l, writes, l.number + 1);
  std::uint64_t written_at = ticks();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = ++l.number;
    writes.start_newest();
    while (writes.full() || (!writes.empty() && writes.oldest().done())) {
      auto& oldest = writes.oldest();
      co_await oldest;
      writes.pop();
    }
    if (i != 0 && !l.thinks()) {
      const std::uint64_t now = ticks();
      l.samples.record(now - written_at);
      written_at = now;
      l.progress.store(i, std::memory_order_relaxed);
    }
    if (i + 1 < count) prepare_write(l, writes, number + 1);
    for (int looks = 1; !mine.is(number); ++looks) {
      if (looks < l.looks_per_turn) continue;
      looks = 0;
      require_connected(l.endpoint());
      co_await cordma::yield();
    }
    if (l.thinks()) {
      l.end_request(written_at);
      l.progress.store(i, std::memory_order_relaxed);
      co_await l.think();
      written_at = l.begin_request();
    }
  }
  if (count != 0 && !l.thinks()) l.samples.record(ticks() - written_at);
  co_await drain(writes);
}

cordma::task<void> look_and_write(lane& l, std::uint64_t count) {
  write_ring writes(l.slots);
  const flag mine(l.in(0).bytes());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = ++l.number;
    prepare_write(l, writes, number);
    for (int looks = 1; !mine.is(number); ++looks) {
      if (looks < l.looks_per_turn) continue;
      looks = 0;
      require_connected(l.endpoint());
      co_await cordma::yield();
    }
    stall_if_due(l, i);
    writes.start_newest();
    while (writes.full() || (!writes.empty() && writes.oldest().done())) {
      auto& oldest = writes.oldest();
      co_await oldest;
      writes.pop();
    }
  }
  co_await drain(writes);
}

}  // namespace perf
