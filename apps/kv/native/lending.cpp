#include "lending.hpp"

#include <utility>

namespace kv::native {

using cordma::task;

lending::loan::loan(lending& from, cordma::Buffer buffer) noexcept
    : from_(&from), buffer_(std::move(buffer)) {
  from.counters_.bytes.add(all().size());
}

lending::loan::loan(lending& from, cordma::MemoryRegion longer, cordma::semaphore& turn) noexcept
    : from_(&from), longer_(std::move(longer)), turn_(&turn) {
  from.counters_.bytes.add(all().size());
}

lending::loan::loan(loan&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)),
      buffer_(std::move(other.buffer_)),
      longer_(std::move(other.longer_)),
      turn_(std::exchange(other.turn_, nullptr)) {}

lending::loan& lending::loan::operator=(loan&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  from_ = std::exchange(other.from_, nullptr);
  buffer_ = std::move(other.buffer_);
  longer_ = std::move(other.longer_);
  turn_ = std::exchange(other.turn_, nullptr);
  return *this;
}

void lending::loan::give_back() noexcept {
  if (from_ == nullptr) return;
  lending& from = *std::exchange(from_, nullptr);
  from.counters_.bytes.add(0 - std::uint64_t{all().size()});
  buffer_.reset();
  if (turn_ == nullptr) return;
  if (longer_) from.longer_.put_back(std::exchange(longer_, cordma::MemoryRegion()));
  std::exchange(turn_, nullptr)->release();
}

lending::lending(cordma::Context& context, long_memory& longer, lending_counters& counters)
    : context_(context),
      counters_(counters),
      buffers_(context, buffer_bytes, buffers),
      longer_(longer) {}

lending::loan lending::lend_now(std::size_t bytes) {
  if (bytes > buffer_bytes) return {};
  cordma::result<cordma::Buffer> free = buffers_.take();
  if (!free) return {};
  return {*this, std::move(free).value()};
}

task<lending::loan> lending::lend(share* to, std::size_t bytes) {
  loan made = lend_now(bytes);
  if (made) co_return made;
  if (bytes <= buffer_bytes) {
    cordma::Buffer own = co_await to->buffer_.get();
    co_return loan(*this, std::move(own));
  }
  co_await to->turn_.acquire();
  made = loan(*this, cordma::MemoryRegion(), to->turn_);  // releases the turn even if get() throws
  const std::uint64_t before = longer_.registrations();
  made.longer_ = longer_.get(bytes);
  counters_.registrations.add(longer_.registrations() - before);
  counters_.bytes.add(made.longer_.size());
  co_return made;
}

}  // namespace kv::native
