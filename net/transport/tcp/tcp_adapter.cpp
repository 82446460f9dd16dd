#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <cordma/net/transport/tcp/tcp_adapter.hpp>

namespace cordma::transport::tcp {

tcp_adapter::tcp_adapter(std::shared_ptr<tcp_domain> owner, reactor& home, unique_fd epoll)
    : owner_(std::move(owner)),
      home_(home),
      sockets_(std::move(epoll)),
      staging_bytes_(std::max<std::size_t>(owner_->options().buffer_bytes, 4096)),
      staging_(new std::byte[staging_bytes_]),
      virtual_time_(&home.time() != &real_clock()),
      may_skip_(home.mode() == wait_mode::event && !virtual_time_),
      only_polls_(home.mode() == wait_mode::polling && !virtual_time_) {}

tcp_adapter::~tcp_adapter() {
  incoming_.clear();
  attach_listener_.reset();
  CORDMA_REQUIRE_OP(connections_, ==, 0U);
  CORDMA_ASSERT_OP(active_count_, ==, 0U);
  CORDMA_ASSERT_OP(by_token_.size(), ==, 0U);
  CORDMA_ASSERT_OP(waiting_, ==, 0);
  CORDMA_ASSERT(events_.empty());
  CORDMA_ASSERT(completed_.empty() && due_.empty() && reporting_.empty() && pending_.empty());
}

result<std::unique_ptr<queue_pair>> tcp_adapter::create(const queue_pair_options& options) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  const result<token> drawn = random_token();
  if (!drawn) return drawn.why();
  auto made = std::make_unique<connection>(*this, *granted);
  made->name_by(*drawn);
  by_token_.push_back(made.get());
  return std::unique_ptr<queue_pair>(std::move(made));
}

std::size_t tcp_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  CORDMA_REQUIRE_OP(arrived_count_, ==, 0U);  // released
  ++polls_;
  polling_ = true;
  may_arrive_ = room_for_messages(out.size());
  const bool took = !pending_.empty() && take_pending();
  bool found = false;
  if (skip_ > 0) {
    --skip_;
  } else {
    found = try_active();
    if (look_due(found)) found = look_at_all() || found;
    if (found && may_skip_) skip_ = 1;
  }
  if (!due_.empty()) do_due(false);
  if (((found || took) && arrived_count_ == 0) || !events_.empty()) progressed = true;
  const std::size_t n = hand_out(out.first(out.size() - arrived_count_));
  polling_ = false;
  return n;
}

// Where there are completions, they have half of it.
std::size_t tcp_adapter::room_for_messages(std::size_t all) const noexcept {
  const bool shared = !completed_.empty() || !reporting_.empty();
  return std::min(shared ? (all + polls_ % 2) / 2 : all, most_arrived);
}

// Those for which there is no place are the first ones of the next poll.
bool tcp_adapter::take_pending() noexcept {
  list<connection_link> work;
  work.splice_back(pending_);
  bool any = false;
  while (!work.empty() && has_place()) any = work.pop_front().owner->receive() || any;
  work.splice_back(pending_);
  pending_.splice_back(work);
  return any;
}

void tcp_adapter::add_arrived(connection& from, std::span<const std::byte> message) noexcept {
  CORDMA_ASSERT_OP(arrived_count_, <, may_arrive_);
  arrived_[arrived_count_++] = {.from = &from,
                                .data = message.data(),
                                .bytes = static_cast<std::uint32_t>(message.size()),
                                .stays = false};
}

void tcp_adapter::release_arrived() noexcept {
  connection* last = nullptr;
  for (const arrived_message& m : arrived()) {
    auto* const from = static_cast<connection*>(m.from);
    if (from == nullptr) continue;
    if (last != nullptr && last != from) last->released();
    last = from;
    from->looked_at(m);
  }
  if (last != nullptr) last->released();
  arrived_count_ = 0;
}

bool tcp_adapter::try_active() noexcept {
  bool found = false;
  for (std::size_t i = 0; i < active_count_; ++i) {
    candidate& c = active_[i];
    connection& who = *c.who;
    if (who.receive()) {
      found = true;
      // It may have left the set meanwhile.
      if (i < active_count_ && active_[i].who == &who) active_[i].misses = 0;
    } else if (++c.misses > most_misses && active_count_ > 1) {
      retire(i);
    }
  }
  return found;
}

void tcp_adapter::retire(std::size_t place) noexcept {
  CORDMA_ASSERT_OP(place, <, active_count_);
  connection& who = *active_[place].who;
  mark_inactive(who);
  CORDMA_ASSERT_OP(active_count_, <, most_active);
  if (!who.follow()) active_[active_count_++] = {&who, 0};
}

bool tcp_adapter::tries(const connection& c) const noexcept {
  if (!only_polls_ || connections_ > most_active) return false;
  return std::any_of(active_.begin(), active_.begin() + active_count_,
                     [&c](const candidate& a) { return a.who == &c; });
}

bool tcp_adapter::follow_active() noexcept {
  bool all = true;
  for (std::size_t i = 0; i < active_count_; ++i) all = active_[i].who->follow().ok() && all;
  return all;
}

// From more of them than are tried on, all are followed: whoever is tried changes too often.
void tcp_adapter::enlist() noexcept {
  if (++connections_ == most_active + 1) static_cast<void>(follow_active());
}

bool tcp_adapter::look_due(bool found) noexcept {
  if (waiting_ > 0 || virtual_time_ || found_elsewhere_) return true;
  if (may_skip_ && !found) return true;
  if (polls_to_look_ > 0) {
    --polls_to_look_;
    return false;
  }
  polls_to_look_ = active_count_ == connections_ ? polls_per_look : polls_per_wide_look;
  if (may_skip_) polls_to_look_ = polls_per_event_look;
  return true;
}

bool tcp_adapter::look_at_all() noexcept {
  found_elsewhere_ = sockets_.look().any;
  return found_elsewhere_;
}

void tcp_adapter::do_due(bool now) noexcept {
  list<connection_link> work;
  work.splice_back(due_);
  while (!work.empty()) {
    connection_link& link = work.pop_front();
    const bool done =
        link.owner->tend(now ? connection::urgency::now : connection::urgency::when_idle);
    if (!done && !link.linked()) due_.push_back(link);
  }
}

std::size_t tcp_adapter::hand_out(std::span<completion> out) noexcept {
  std::size_t n = reporting_.empty() ? 0 : take_reports(reporting_, out);
  if (completed_.empty()) return n;
  list<connection_link> again;
  while (n < out.size() && !completed_.empty()) {
    connection_link& link = completed_.pop_front();
    n += link.owner->take(out.subspan(n));
    if (link.owner->has_completions()) again.push_back(link);
  }
  completed_.splice_back(again);
  return n;
}

cm_event tcp_adapter::next_event() {
  cm_event e = events_.take();
  events_ready_ = !events_.empty();
  return e;
}

arm_state tcp_adapter::arm() noexcept {
  // A polling reactor that sleeps after all.
  if (only_polls_) {
    only_polls_ = false;
    if (!follow_active()) {
      only_polls_ = true;
      return arm_state::busy;
    }
  }
  CORDMA_ASSERT_OP(arrived_count_, ==, 0U);
  if (!pending_.empty()) return arm_state::busy;
  do_due(true);
  const bool reports = !completed_.empty() || !reporting_.empty() || !events_.empty();
  if (reports || !due_.empty()) return arm_state::busy;
  for (std::size_t i = 0; i < active_count_; ++i) {
    if (!active_[i].who->drained()) return arm_state::busy;
  }
  // The epoll set is level-triggered: what is there now, or comes, makes it readable. The poll that
  // follows need not look.
  if (!virtual_time_) skip_ = 1;
  return arm_state::armed;
}

void tcp_adapter::disarm() noexcept {
  skip_ = 0;
  polls_to_look_ = std::min(polls_to_look_, 1U);
}

void tcp_adapter::push_event(cm_event event) {
  events_.push(std::move(event));
  events_ready_ = true;
}

void tcp_adapter::report(cm_event event) noexcept {
  events_.report(std::move(event));
  events_ready_ = true;
}

void tcp_adapter::drop_events(const queue_pair* pair, const listener* from) noexcept {
  events_.drop([pair, from](const cm_event& e) {
    return (pair != nullptr && e.pair == pair) || (from != nullptr && e.from == from);
  });
  events_ready_ = !events_.empty();
}

void tcp_adapter::drop_events(const receive_queue& of) noexcept {
  events_.drop([&of](const cm_event& e) { return e.queue == &of; });
  events_ready_ = !events_.empty();
}

void tcp_adapter::mark_completed(connection& c) noexcept {
  if (!c.completed_link.linked()) completed_.push_back(c.completed_link);
}

void tcp_adapter::mark_due(connection& c) noexcept {
  if (!c.due_link.linked()) due_.push_back(c.due_link);
}

void tcp_adapter::mark_pending(connection& c) noexcept {
  if (!c.pending_link.linked()) pending_.push_back(c.pending_link);
}

void tcp_adapter::mark_active(connection& c) noexcept {
  CORDMA_ASSERT_OP(active_count_, <=, most_active);
  for (std::size_t i = 0; i < active_count_; ++i) {
    if (active_[i].who == &c) {
      active_[i].misses = 0;
      return;
    }
  }
  if (active_count_ < most_active) {
    active_[active_count_++] = {&c, 0};
    static_cast<void>(c.follow());
    return;
  }
  const auto idlest =
      std::max_element(active_.begin(), active_.end(),
                       [](const candidate& a, const candidate& b) { return a.misses < b.misses; });
  if (idlest->misses != 0 && idlest->who->follow()) *idlest = {&c, 0};
}

void tcp_adapter::mark_inactive(connection& c) noexcept {
  for (std::size_t i = 0; i < active_count_; ++i) {
    if (active_[i].who != &c) continue;
    active_[i] = active_[--active_count_];
    return;
  }
}

void tcp_adapter::forget(connection& c) noexcept {
  mark_inactive(c);
  forget_arrived(c);
  std::erase(by_token_, &c);
  CORDMA_ASSERT_OP(connections_, >, 0U);
  CORDMA_ASSERT_OP(active_count_, <, connections_);
  --connections_;
}

}  // namespace cordma::transport::tcp
