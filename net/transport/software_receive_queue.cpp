#include <cordma/net/transport/software_receive_queue.hpp>

#include <algorithm>
#include <bit>
#include <string>

namespace cordma::transport {

software_receive_queue::software_receive_queue(receive_queue_home& home, std::uint32_t depth,
                                               std::uint32_t max_segments)
    : home_(home),
      depth_(depth),
      max_segments_(std::max(max_segments, 1U)),
      mask_(std::bit_ceil(depth) - 1),
      receives_(new recv_request[mask_ + std::size_t{1}]),
      segments_(new segment[(mask_ + std::size_t{1}) * max_segments_]) {}

software_receive_queue::~software_receive_queue() {
  CORDMA_REQUIRE_OP(pairs_, ==, 0U);
  CORDMA_ASSERT(waiting_.empty());
  home_.drop_events(*this);
}

void software_receive_queue::post_recv(const recv_request& request) noexcept {
  CORDMA_REQUIRE_OP(left(), <, depth_);
  CORDMA_REQUIRE_OP(request.segment_count, <=, max_segments_);
  const std::uint32_t place = posted_++ & mask_;
  segment* const kept = &segments_[std::size_t{place} * max_segments_];
  for (std::size_t i = 0; i < request.segment_count; ++i) kept[i] = request.segments[i];
  receives_[place] = {.id = request.id, .segment_count = request.segment_count, .segments = kept};
  if (left() == 1) next_turn();
}

const recv_request* software_receive_queue::lend() noexcept {
  if (left() == 0) return nullptr;
  CORDMA_ASSERT_OP(left(), <=, depth_);
  const recv_request& first = receives_[lent_++ & mask_];
  if (is_low()) [[unlikely]]
    tell_low();
  return &first;
}

const recv_request* software_receive_queue::lend(receive_waiter& w) noexcept {
  if (!lends_to(w)) {
    if (!w.linked()) waiting_.push_back(w);
    return nullptr;
  }
  w.unlink();
  const recv_request* const first = lend();
  next_turn();
  return first;
}

void software_receive_queue::withdraw(receive_waiter& w) noexcept {
  if (!w.linked()) return;
  const bool was_first = &waiting_.front() == &w;
  w.unlink();
  if (was_first) next_turn();
}

result<void> software_receive_queue::arm_limit(std::uint32_t fewer_than) noexcept {
  CORDMA_REQUIRE_OP(fewer_than, <=, depth_);
  home_.drop_events(*this);
  limit_ = fewer_than;
  if (is_low()) tell_low();
  return {};
}

void software_receive_queue::tell_low() noexcept {
  CORDMA_ASSERT_OP(limit_, <=, depth_);
  limit_ = 0;
  cm_event e;
  e.what = cm_event::type::receives_low;
  e.queue = this;
  home_.report(std::move(e));
}

reporting_receive_queue::reporting_receive_queue(receive_queue_home& home, event_queue& events,
                                                 list<reporting_link>& reporting,
                                                 std::uint32_t depth, std::uint32_t max_segments)
    : software_receive_queue(home, depth, max_segments),
      room_(events, 1),
      reporting_(reporting),
      done_(new completion[depth]) {}

reporting_receive_queue::~reporting_receive_queue() { home().drop_events(*this); }

void reporting_receive_queue::finish(const completion& c) noexcept {
  CORDMA_ASSERT_OP(finished_ - handed_, <, depth());
  done_[finished_++ % depth()] = c;
  mark();
}

void reporting_receive_queue::end(last_taken& by) noexcept {
  CORDMA_REQUIRE(by.pair != nullptr);
  if (std::exchange(by.told, true)) return;
  ended_.push_back(by);
  mark();
}

void reporting_receive_queue::leave(const queue_pair& gone) noexcept {
  software_receive_queue::leave();
  CORDMA_ASSERT_OP(finished_ - handed_, <=, depth());
  for (std::uint64_t i = handed_; i != finished_; ++i) {
    completion& c = done_[i % depth()];
    if (c.from == &gone) c.from = nullptr;
  }
}

// The caller may read events before the completions of the same poll, so these completions must be
// returned first.
void reporting_receive_queue::tell_ended() noexcept {
  while (!ended_.empty()) {
    cm_event last;
    last.what = cm_event::type::last_receive;
    last.pair = ended_.pop_front().pair;
    home().report(std::move(last));
  }
}

std::size_t reporting_receive_queue::take(std::span<completion> out) noexcept {
  tell_ended();
  std::size_t n = 0;
  for (; n < out.size() && handed_ != finished_; ++n) out[n] = done_[handed_++ % depth()];
  return n;
}

std::size_t take_reports(list<reporting_link>& reporting, std::span<completion> out) noexcept {
  list<reporting_link> all;
  all.splice_back(reporting);
  std::size_t n = 0;
  while (!all.empty()) {
    reporting_link& link = all.pop_front();
    n += link.owner->take(out.subspan(n));
    if (link.owner->has_reports()) reporting.push_back(link);
  }
  return n;
}

result<void> check_receive_queue(std::uint32_t depth, std::uint32_t max_segments,
                                 const capabilities& caps) {
  if (depth != 0 && depth <= caps.max_shared_depth && max_segments <= caps.max_segments) return {};
  return failure{errc::invalid_value, "a shared receive queue of " + std::to_string(depth) +
                                          " receives of " + std::to_string(max_segments) +
                                          " segments: " + std::string(name(caps.transport)) +
                                          " has 1 to " + std::to_string(caps.max_shared_depth) +
                                          " of at most " + std::to_string(caps.max_segments)};
}

result<void> check_shared(const queue_pair_options& options, const receive_queue_home& home) {
  if (options.shared == nullptr) return {};
  const auto* const queue = dynamic_cast<const software_receive_queue*>(options.shared);
  if (queue != nullptr && queue->is_of(home)) return {};
  return failure{errc::invalid_value, "`shared` is of another Worker or transport"};
}

}  // namespace cordma::transport
