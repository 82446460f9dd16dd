#include <cordma/net/messaging/fetch.hpp>

#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cordma::detail {

using protocol::offer_outcome;
using transport::wc_status;

// More bytes are requested once half of the permitted bytes in flight have arrived.
std::uint64_t fetch::due(std::uint64_t ahead) const noexcept {
  CORDMA_ASSERT_OP(got_, <=, asked_);
  CORDMA_ASSERT_OP(asked_, <=, wanted_);
  const std::uint64_t upto = std::min(wanted_, got_ + ahead);
  const bool is_due = asked_ < upto && (upto == wanted_ || upto - asked_ >= ahead / 2);
  return is_due && !broken_ ? upto : 0;
}

bool fetch::take_part(std::span<const std::byte> bytes) noexcept {
  if (bytes.empty() || asked_ - got_ < bytes.size()) return false;
  CORDMA_ASSERT_OP(got_ + bytes.size(), <=, into_.size());
  std::memcpy(into_.data() + got_, bytes.data(), bytes.size());
  got_ += bytes.size();
  return true;
}

bool fetch::take_written() noexcept {
  if (asked_ != wanted_) return false;
  got_ = wanted_;
  return true;
}

void fetch::plan(const protocol::rail_split& how) noexcept {
  CORDMA_ASSERT_OP(how.parts, <=, pieces_.size());
  piece_count_ = static_cast<std::uint8_t>(how.parts);
  std::uint64_t planned = 0;
  for (std::size_t i = 0; i < how.parts; ++i) {
    const protocol::rail_part& part = how.part[i];
    CORDMA_ASSERT_OP(part.offset, ==, planned);
    planned += part.bytes;
    pieces_[i] = {.begin = part.offset,
                  .at = part.offset,
                  .end = part.offset + part.bytes,
                  .rail = static_cast<std::uint8_t>(part.rail)};
  }
  CORDMA_ASSERT_OP(planned, ==, wanted_);
}

bool fetch::all_here() const noexcept {
  if (way_ != by::reads) return asked_ == wanted_ && got_ == wanted_;
  const auto here = [](const fetch_piece& p) { return p.begin == p.end; };
  return std::ranges::all_of(std::span(pieces_).first(piece_count_), here);
}

void fetch::settle() noexcept {
  if (reading_ || reads_ != 0 || (!broken_ && !all_here())) return;
  CORDMA_ASSERT(linked());
  CORDMA_ASSERT_OP(wanted_, <=, from_.total);
  peer_core& from_peer = *peer_;
  message_receive* const done = std::exchange(op_, nullptr);
  const bool truncated = wanted_ < from_.total;
  const offer_outcome outcome = broken_     ? offer_outcome::failed
                                : truncated ? offer_outcome::truncated
                                            : offer_outcome::taken;
  if (done != nullptr) {
    CORDMA_ASSERT(done->fetch_ == this);
    done->fetch_ = nullptr;
    done->received_ = {.bytes = wanted_, .tag = tag_, .from = from_peer.handle()};
    if (broken_) {
      done->fail(std::move(*broken_));
    } else if (truncated) {
      done->fail(failure::of(errc::truncated,
                             {"a message of ", from_.total, " bytes, the receive has ", wanted_}));
    } else {
      done->finish();
    }
  }
  const std::uint32_t number = from_.number;
  from_peer.port()->core().release(*this);
  from_peer.say_done(number, outcome);
}

// On one connection reads end in the order of posting, and no read succeeds after one that failed.
void fetch::read_done(const frame_entry& e, const transport::completion& c) noexcept {
  CORDMA_ASSERT_OP(e.piece, <, piece_count_);
  fetch_piece& p = pieces_[e.piece];
  CORDMA_ASSERT_OP(p.reads, >, 0U);
  CORDMA_ASSERT_OP(reads_, >=, p.reads);
  --reads_;
  --p.reads;
  read_load& load = e.over != nullptr ? e.over->load() : peer_->load();
  if (c.status == wc_status::success) {
    load.arrive(e.length);
    p.begin += e.length;
    CORDMA_ASSERT_OP(p.begin, <=, p.at);
    return;
  }
  load.lose(e.length);
  if (e.over != nullptr) {
    p.again = true;
    e.over->on_read_failed();
  } else if (!broken_) {
    broken_.emplace(c.status == wc_status::wr_flush_err ? peer_->endpoint().flushed("tag_recv")
                                                        : failure(transport::to_errc(c.status)));
  }
}

}  // namespace cordma::detail
