#include <cordma/net/messaging/open_offer.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace cordma::detail {

void open_offer::open(std::uint32_t number, message_send& op, std::uint64_t total) noexcept {
  CORDMA_ASSERT_OP(in_flight_, ==, 0U);
  CORDMA_ASSERT(at_ == stage::free && !linked());
  *this = open_offer{};
  number_ = number;
  op_ = &op;
  total_ = total;
  at_ = stage::announced;
}

void open_offer::outlive(std::span<const Slice> slices) noexcept {
  CORDMA_ASSERT_OP(pinned_ + slices.size(), <=, pins_.size());
  op_ = nullptr;
  for (const Slice& s : slices) {
    retain(*s.region());
    pins_[pinned_++] = s.region();
  }
}

void open_offer::send(std::span<const Slice> slices) noexcept {
  sends_ = static_cast<std::uint16_t>(slices.size());
  std::ranges::copy(slices, slices_.begin());
}

bool open_offer::want(const protocol::want& more) noexcept {
  const bool same = wanted_.bytes == 0 || (wanted_.addr == more.addr && wanted_.rkey == more.rkey);
  if (!same || more.bytes <= wanted_.bytes || more.bytes > total_) return false;
  wanted_ = more;
  return true;
}

std::size_t open_offer::take(std::uint64_t most, std::span<Slice> out) noexcept {
  CORDMA_ASSERT_OP(sent_, <=, wanted_.bytes);
  CORDMA_ASSERT_OP(wanted_.bytes, <=, total_);
  most = std::min(most, wanted_.bytes - sent_);
  ++in_flight_;
  std::size_t count = 0;
  while (most != 0 && slice_ < sends_ && count < out.size()) {
    const Slice& s = slices_[slice_];
    const std::uint64_t n = std::min<std::uint64_t>(most, s.size() - in_slice_);
    out[count++] = s.part(in_slice_, n);
    most -= n;
    sent_ += n;
    in_slice_ += n;
    if (in_slice_ == s.size()) {
      ++slice_;
      in_slice_ = 0;
    }
  }
  return count;
}

void open_offer::answer(protocol::offer_outcome outcome) noexcept {
  CORDMA_ASSERT(at_ == stage::announced);
  at_ = stage::answered;
  outcome_ = outcome;
  unlink();
}

// An offer that is answered keeps its outcome.
void open_offer::cut() noexcept {
  if (at_ == stage::announced) at_ = stage::cut;
  unlink();
}

message_send* open_offer::end() noexcept {
  CORDMA_ASSERT(is_over() && !linked());
  CORDMA_ASSERT_OP(pinned_, <=, pins_.size());
  for (std::uint8_t i = 0; i < pinned_; ++i) release(*pins_[i]);
  at_ = stage::free;
  return std::exchange(op_, nullptr);
}

open_offer* offer_table::open(message_send& op, std::uint64_t total) noexcept {
  auto free = std::ranges::find_if(all_, [](const auto& o) { return !o->is_open(); });
  if (free == all_.end()) {
    try {
      all_.push_back(std::make_unique<open_offer>());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    free = all_.end() - 1;
  }
  CORDMA_ASSERT_OP(free - all_.begin(), <=, place_mask);
  (*free)->open(next_++ << place_bits | static_cast<std::uint32_t>(free - all_.begin()), op, total);
  ++open_;
  return free->get();
}

open_offer* offer_table::find(std::uint32_t number) noexcept {
  const std::uint32_t place = number & place_mask;
  if (place >= all_.size()) return nullptr;
  open_offer& o = *all_[place];
  return o.awaits_answer() && o.number() == number ? &o : nullptr;
}

}  // namespace cordma::detail
