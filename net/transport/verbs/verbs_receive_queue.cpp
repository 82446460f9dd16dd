#include <cordma/net/transport/verbs/verbs_receive_queue.hpp>

#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

namespace cordma::transport::verbs {

verbs_receive_queue::verbs_receive_queue(verbs_adapter& home, std::uint32_t depth,
                                         std::uint32_t segments)
    : home_(home),
      depth_(depth),
      segments_(segments),
      slots_(new slot[depth]),
      free_(new std::uint32_t[depth]),
      free_count_(depth),
      finished_(new completion[depth]) {
  CORDMA_REQUIRE_OP(depth, >, 0U);
  CORDMA_REQUIRE_OP(depth, <=, twenty_bits);
  for (std::uint32_t i = 0; i < depth; ++i) free_[i] = depth - 1 - i;
}

result<void> verbs_receive_queue::make() {
  const result<ibv_cq*> queue = home_.promise(depth_);
  if (!queue) return queue.why();
  queue_ = *queue;
  place_ = home_.enter(*this);
  ids_ = pack(
      {.what = work::shared_receive, .generation = place_->generation, .place = place_->index});
  ibv_srq_init_attr init{};
  init.srq_context = &home_;
  init.attr.max_wr = depth_;
  init.attr.max_sge = segments_;
  const verbs_domain& domain = home_.owner();
  srq_.reset(ibv_create_srq(domain.pd(), &init));
  if (srq_ != nullptr) return {};
  return failure::from_os(errno, "making a shared receive queue on " + domain.hardware().name);
}

verbs_receive_queue::~verbs_receive_queue() {
  CORDMA_REQUIRE_OP(pairs_, ==, 0U);
  CORDMA_ASSERT_OP(ended_.size(), ==, 0U);
  if (place_) home_.leave(*this, *place_);
  home_.home().remove(timer_);
  for (retired_pair& gone : retired_) destroy(gone);
  const ibv_srq* const was = srq_.get();
  srq_.reset();
  home_.drop_told(was);  // not earlier: another thread may have read an event meanwhile
  home_.drop_events(*this);
  if (queue_ == nullptr) return;
  home_.drain(queue_);
  home_.release(queue_, depth_);
}

// ---- receives ----

void verbs_receive_queue::post_recv(const recv_request& r) noexcept {
  CORDMA_REQUIRE_OP(free_count_, >, 0U);
  CORDMA_REQUIRE_OP(r.segment_count, <=, segments_);
  const std::uint32_t place = free_[--free_count_];
  CORDMA_ASSERT_OP(place, <, depth_);
  CORDMA_ASSERT(!slots_[place].on_device);
  slots_[place] = {.id = r.id, .on_device = true};
  ++on_device_;
  ibv_recv_wr wr = to_wr(r, ids_ | place);
  ibv_recv_wr* bad = nullptr;
  const int code = ibv_post_srq_recv(srq_.get(), &wr, &bad);
  if (code != 0) [[unlikely]]
    finish(place, {.vendor_err = static_cast<std::uint32_t>(code),
                   .status = wc_status::general_err,
                   .op = opcode::recv});
}

void verbs_receive_queue::on_completion(std::uint32_t place, const ibv_wc& wc,
                                        verbs_pair* from) noexcept {
  if (place >= depth_ || !slots_[place].on_device) {
    if (from != nullptr) from->device_gone({errc::driver, "a receive that was never posted"});
    return;
  }
  completion c{.op = opcode::recv, .from = from};
  c.status = from != nullptr               ? from->on_shared_receive(wc)
             : wc.status == IBV_WC_SUCCESS ? wc_status::success
                                           : wc_status::wr_flush_err;
  if (c.status == wc_status::success) {
    c.byte_len = wc.byte_len;
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) c.op = opcode::recv_write_imm;
    if (wc.wc_flags != 0) note_flags(c, wc, home_.owner().hardware());
  } else {
    c.vendor_err = wc.vendor_err;
  }
  finish(place, c);
  tell_if_low();
}

void verbs_receive_queue::finish(std::uint32_t place, completion c) noexcept {
  CORDMA_ASSERT_OP(on_device_, >, 0U);
  CORDMA_ASSERT_OP(free_count_, <, depth_);
  slots_[place].on_device = false;
  --on_device_;
  c.id = slots_[place].id;
  free_[free_count_++] = place;
  if (home_.outlet().has_room() && !has_completions()) [[likely]]
    return home_.outlet().tell(c);
  CORDMA_ASSERT_OP(finished_count_, <, depth_);
  finished_[(first_finished_ + finished_count_++) % depth_] = c;
  home_.mark_completed(completed_link_);
}

std::size_t verbs_receive_queue::take(std::span<completion> out) noexcept {
  if (!ended_.empty()) tell_ended();
  std::size_t n = 0;
  for (; n < out.size() && finished_count_ != 0; ++n, --finished_count_) {
    out[n] = finished_[first_finished_];
    first_finished_ = (first_finished_ + 1) % depth_;
  }
  taken_ += n;
  return n;
}

// ---- the limit ----

result<void> verbs_receive_queue::arm_limit(std::uint32_t fewer_than) noexcept {
  CORDMA_REQUIRE_OP(fewer_than, <=, depth_);
  home_.drain(queue_);
  limit_ = fewer_than;
  ibv_srq_attr attr{};
  attr.srq_limit = fewer_than;
  const int code = ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT);
  if (code != 0) {
    limit_ = 0;
    return failure{errc::driver, "the RDMA device did not take a limit of its shared receives"}
        .with_errno(code);
  }
  // Messages that arrived meanwhile may have passed the limit unnoticed.
  home_.drain(queue_);
  tell_if_low();
  return {};
}

void verbs_receive_queue::tell_if_low() noexcept {
  if (limit_ != 0 && on_device_ < limit_) tell_low();
}

void verbs_receive_queue::tell_low() noexcept {
  if (limit_ == 0) return;  // already reported
  try {
    cm_event e;
    e.what = cm_event::type::receives_low;
    e.queue = this;
    home_.push_event(std::move(e));
    limit_ = 0;
  } catch (const std::bad_alloc&) {
    return;  // the next completion reports it
  }
}

void verbs_receive_queue::on_async(ibv_event_type what) noexcept {
  if (what == IBV_EVENT_SRQ_LIMIT_REACHED) return tell_low();
  home_.end_users_of(
      *this, failure::of(errc::driver, {"the RDMA device reports: ", ibv_event_type_str(what)}));
}

// ---- its queue pairs ----

void verbs_receive_queue::enter() {
  ended_.reserve(pairs_ + 1);
  ++pairs_;
}

void verbs_receive_queue::end(verbs_pair& p) noexcept {
  CORDMA_ASSERT_OP(ended_.size(), <, ended_.capacity());
  ended_.push_back({.pair = &p, .after = taken_ + finished_count_, .waited = false});
  home_.mark_completed(completed_link_);
}

// The caller may read events before the completions of the same poll, so completions returned in
// this poll do not count.
void verbs_receive_queue::tell_ended() noexcept {
  const auto first_later = std::ranges::find_if(
      ended_, [this](const ending& e) { return !e.waited || e.after > taken_; });
  std::for_each(ended_.begin(), first_later, [](const ending& e) { e.pair->tell_last_receive(); });
  ended_.erase(ended_.begin(), first_later);
  for (ending& e : ended_) e.waited = true;
}

void verbs_receive_queue::leave(const verbs_pair& p) noexcept {
  CORDMA_REQUIRE_OP(pairs_, >, 0U);
  --pairs_;
  std::erase_if(ended_, [&p](const ending& e) { return e.pair == &p; });
  for (std::uint32_t i = 0; i < finished_count_; ++i) {
    completion& c = finished_[(first_finished_ + i) % depth_];
    if (c.from == &p) c.from = nullptr;
  }
}

void verbs_receive_queue::retire(retired_pair gone) noexcept {
  gone.until = home_.home().now() + last_receive_patience;
  try {
    retired_.push_back(std::move(gone));
  } catch (const std::bad_alloc&) {
    return destroy(gone);
  }
  if (retired_.size() == 1) home_.home().add(timer_, retired_.front().until);
}

void verbs_receive_queue::destroy(retired_pair& gone) noexcept {
  if (gone.pair == nullptr) return;
  const std::uint32_t number = gone.pair->qp_num;
  home_.drain(queue_);
  gone.pair.reset();
  home_.drop_told(number);
  home_.drain(queue_);
  home_.drain(gone.sends);
  home_.release(gone.sends, gone.room);
}

void verbs_receive_queue::on_last(std::uint32_t pair) noexcept {
  for (retired_pair& gone : retired_) {
    if (gone.pair != nullptr && gone.pair->qp_num == pair) return destroy(gone);
  }
}

void verbs_receive_queue::on_timer() noexcept {
  // Ordered by their time.
  const auto now = home_.home().now();
  const auto later =
      std::ranges::find_if(retired_, [now](const retired_pair& gone) { return gone.until > now; });
  std::for_each(retired_.begin(), later, [this](retired_pair& gone) { destroy(gone); });
  retired_.erase(retired_.begin(), later);
  if (!retired_.empty()) home_.home().add(timer_, retired_.front().until);
}

// ---- the adapter's part ----

result<std::unique_ptr<receive_queue>> verbs_adapter::make_receive_queue(
    std::uint32_t depth, std::uint32_t max_segments) {
  const capabilities& caps = owner_->caps();
  if (!caps.shared_receive_queues) {
    return failure{errc::not_supported, owner_->hardware().name + " has no shared receive queues"};
  }
  if (depth == 0 || depth > caps.max_shared_depth || max_segments > caps.max_segments) {
    return failure{errc::invalid_value, "a shared receive queue of " + std::to_string(depth) +
                                            " receives of " + std::to_string(max_segments) +
                                            " segments: " + owner_->hardware().name + " has 1 to " +
                                            std::to_string(caps.max_shared_depth) + " of at most " +
                                            std::to_string(caps.max_segments)};
  }
  auto made = std::make_unique<verbs_receive_queue>(*this, depth, std::max(max_segments, 1U));
  const result<void> ready = made->make();
  if (!ready) return ready.why();
  return std::unique_ptr<receive_queue>(std::move(made));
}

table_place verbs_adapter::enter(verbs_receive_queue& q) {
  const auto is_free = [](const shared_seat& s) { return s.queue == nullptr; };
  auto at = std::ranges::find_if(shared_seats_, is_free);
  if (at == shared_seats_.end()) at = shared_seats_.insert(at, shared_seat());
  at->queue = &q;
  return {static_cast<std::uint32_t>(at - shared_seats_.begin()), at->generation};
}

void verbs_adapter::leave(const verbs_receive_queue& q, const table_place& at) noexcept {
  CORDMA_ASSERT_OP(at.index, <, shared_seats_.size());
  shared_seat& here = shared_seats_[at.index];
  CORDMA_ASSERT(here.queue == &q);
  here = {.queue = nullptr, .generation = (at.generation + 1) & twenty_bits};
}

verbs_receive_queue* verbs_adapter::find(const receive_queue* q) noexcept {
  for (const shared_seat& s : shared_seats_) {
    if (s.queue == q) return s.queue;
  }
  return nullptr;
}

void verbs_adapter::end_users_of(const verbs_receive_queue& q, const failure& why) noexcept {
  pairs_.for_each([&q, &why](verbs_pair& p) {
    if (p.receives_from(q)) p.device_gone(why);
  });
}

void verbs_adapter::on_shared_receive(const work_id& id, const ibv_wc& wc) noexcept {
  if (id.place >= shared_seats_.size()) return;
  const shared_seat& s = shared_seats_[id.place];
  if (s.queue == nullptr || s.generation != id.generation) return;  // of a destroyed queue
  verbs_pair* const from = find(wc.qp_num);
  s.queue->on_completion(id.number, wc, from);
}

// For an event of a receive queue, or of a queue pair that one of them keeps.
void verbs_adapter::on_told_of_shared(const async_event& e) noexcept {
  for (const shared_seat& s : shared_seats_) {
    if (s.queue == nullptr) continue;
    if (e.what == IBV_EVENT_QP_LAST_WQE_REACHED) s.queue->on_last(e.pair);
    if (s.queue->native() == e.element) s.queue->on_async(e.what);
  }
}

void verbs_adapter::drop_told(const ibv_srq* queue) noexcept {
  told_.drop_if([queue](const async_event& e) {
    return e.about == async_event::subject::own && e.pair == 0 && e.element == queue;
  });
}

void verbs_adapter::drop_events(const receive_queue& queue) noexcept {
  std::erase_if(events_, [&queue](const cm_event& e) { return e.queue == &queue; });
  events_ready_ = !events_.empty();
}

// ---- special behaviour of a queue pair with such a queue ----

bool verbs_pair::awaits_last() const noexcept {
  return shared_.state == drawing::begun && native_.pair != nullptr;
}

wc_status verbs_pair::on_shared_receive(const ibv_wc& wc) noexcept {
  watch_.on_completion();
  if (phase_ == phase::open && wc.status == IBV_WC_SUCCESS) [[likely]]
    return wc_status::success;
  const wc_status status = begin_receive(wc);
  if (status != wc_status::success) fail_request(status, opcode::recv, wc.vendor_err);
  return status;
}

// The receive queue completes no more receives of this queue pair.
void verbs_pair::last_receive() noexcept {
  if (shared_.state == drawing::apart || shared_.state == drawing::ended) return;
  home_.drain(shared_.from->completions());
  shared_.state.become(drawing::ended);
  shared_.from->end(*this);
}

void verbs_pair::tell_last_receive() noexcept {
  cm_event last;
  last.what = cm_event::type::last_receive;
  last.pair = this;
  home_.push_event(events_.last, std::move(last));
}

bool verbs_pair::let_go() noexcept {
  const bool early = awaits_last();
  if (early && !has_failed()) set_error_state();
  home_.drain(shared_.from->completions());
  shared_.from->leave(*this);
  if (!early || !sends_.idle()) return false;
  shared_.from->retire({.pair = std::move(native_.pair), .sends = queue_, .room = completions()});
  return true;
}

}  // namespace cordma::transport::verbs
