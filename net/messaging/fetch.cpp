#include <cordma/net/messaging/fetch.hpp>

#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <utility>

namespace cordma::detail {

using protocol::offer_outcome;
using transport::wc_status;

bool fetch::all_here() const noexcept {
  if (way != by::reads) return asked == wanted && got == wanted;
  const auto here = [](const fetch_piece& p) { return p.begin == p.end; };
  return std::ranges::all_of(std::span(pieces).first(piece_count), here);
}

// Ends it, where nothing of it is in flight and there is no more to come.
void fetch::settle() noexcept {
  if (reading || reads != 0 || (!broken && !all_here())) return;
  CORDMA_ASSERT(linked());
  CORDMA_ASSERT_OP(wanted, <=, from.total);
  peer_core& from_peer = *peer;
  message_receive* const done = std::exchange(op, nullptr);
  const bool truncated = wanted < from.total;
  const offer_outcome outcome = broken      ? offer_outcome::failed
                                : truncated ? offer_outcome::truncated
                                            : offer_outcome::taken;
  if (done != nullptr) {
    CORDMA_ASSERT(done->fetch_ == this);
    done->fetch_ = nullptr;
    done->received_ = {.bytes = wanted, .tag = tag, .from = from_peer.handle()};
    if (broken) {
      done->fail(std::move(*broken));
    } else if (truncated) {
      done->fail(failure::of(errc::truncated,
                             {"a message of ", from.total, " bytes, the receive has ", wanted}));
    } else {
      done->finish();
    }
  }
  const std::uint32_t number = from.number;
  from_peer.port->core->release(*this);
  from_peer.say_done(number, outcome);
}

// On one connection reads end in the order in which they were posted, and none after one that failed succeeds.
void fetch::read_done(const frame_entry& e, const transport::completion& c) noexcept {
  CORDMA_ASSERT_OP(e.piece, <, piece_count);
  fetch_piece& p = pieces[e.piece];
  CORDMA_ASSERT_OP(p.reads, >, 0U);
  CORDMA_ASSERT_OP(reads, >=, p.reads);
  --reads;
  --p.reads;
  std::uint64_t& under_way = e.over != nullptr ? e.over->under_way : peer->bytes_under_way;
  CORDMA_ASSERT_OP(under_way, >=, e.length);
  under_way -= e.length;
  if (c.status == wc_status::success) {
    p.begin += e.length;
    CORDMA_ASSERT_OP(p.begin, <=, p.at);
    (e.over != nullptr ? e.over->bytes : peer->bytes_read) += e.length;
  } else if (e.over != nullptr) {
    p.again = e.over->failed = true;
  } else if (!broken) {
    broken.emplace(c.status == wc_status::wr_flush_err ? peer->endpoint->flushed("tag_recv")
                                                       : failure(transport::to_errc(c.status)));
  }
}

}  // namespace cordma::detail
