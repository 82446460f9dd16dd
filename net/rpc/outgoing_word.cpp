#include <cordma/net/rpc/outgoing_word.hpp>

#include <span>

namespace cordma::detail {

using protocol::request_header;

failure breach_of_requests(const char* what) {
  return failure::of(errc::connection_aborted, {"the peer broke the protocol of requests: ", what});
}

void outgoing_word::send(endpoint_core& to, const request_header& h, const Slice& data,
                         bool announced, void (*when_done)(void*) noexcept, void* with) noexcept {
  CORDMA_ASSERT(!busy());
  const std::size_t n = protocol::bytes_of(h);
  CORDMA_ASSERT_OP(n, <=, header_.size());
  protocol::encode(h, header_);
  told_ = when_done;
  context_ = with;
  const auto id = protocol::to_word(
      {.id = protocol::request_id_of_messages, .header = static_cast<std::uint16_t>(n)});
  op_.emplace(to, protocol::frame_kind::am_eager, id, std::span(&data, 1));
  op_->set_header(std::span<const std::byte>(header_).first(n));
  op_->set_own();
  if (announced) op_->announce();
  op_->start();
  if (op_->done()) return told_(context_);
  op_->observe(
      [](operation_base&, void* at) noexcept {
        const auto& self = *static_cast<outgoing_word*>(at);
        self.told_(self.context_);
      },
      this);
}

result<void> outgoing_word::take() noexcept {
  result<void> sent = outcome();
  op_.reset();
  return sent;
}

result<void> outgoing_word::outcome() noexcept {
  CORDMA_ASSERT(done());
  return op_->take_result();
}

bool outgoing_word::cancel_if_queued() noexcept {
  if (!busy() || op_->state() != operation_base::phase::queued) return false;
  op_->cancel();
  return true;
}

void keep(MemoryRegion& place, const Slice& s) noexcept {
  if (s.region() == nullptr) return;
  retain(*s.region());
  place = MemoryRegion(s.region());
}

bool went_out(const result<void>& sent) noexcept {
  switch (sent.code()) {
    case errc::ok:
    case errc::rejected:
    case errc::truncated:
    case errc::io_failed: return true;
    default: return false;
  }
}

failure cut_off() noexcept {
  return {errc::connection_reset, "the connection ended before the answer"};
}

failure too_late() { return {errc::timed_out, "no answer within its timeout"}; }

}  // namespace cordma::detail
