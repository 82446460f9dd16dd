#include <algorithm>
#include <cordma/net/transport/tcp/connection.hpp>
#include <cordma/net/transport/tcp/descriptor.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <cordma/net/transport/tcp/tcp_adapter.hpp>

namespace cordma::transport::tcp {

tcp_adapter::tcp_adapter(std::shared_ptr<tcp_domain> owner, reactor& home, unique_fd epoll)
    : reporting_adapter(owner->caps()),
      owner_(std::move(owner)),
      home_(home),
      sockets_(std::move(epoll)),
      staging_bytes_(std::max<std::size_t>(owner_->options().buffer_bytes, 4096)),
      staging_(new std::byte[staging_bytes_]),
      look_(home) {}

tcp_adapter::~tcp_adapter() {
  incoming_.clear();
  attach_listener_.reset();
  CORDMA_REQUIRE_OP(connections_, ==, 0U);
  CORDMA_ASSERT_OP(active_.size(), ==, 0U);
  CORDMA_ASSERT_OP(by_token_.size(), ==, 0U);
  CORDMA_ASSERT_OP(look_.waiting(), ==, 0);
  CORDMA_ASSERT(events().empty());
  for (const list<connection_link>& all : work_) CORDMA_ASSERT(all.empty());
  CORDMA_ASSERT(!has_reports());
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
  CORDMA_REQUIRE_OP(arrived_count_, ==, 0U);  // all were released
  ++polls_;
  polling_ = true;
  may_arrive_ = room_for_messages(out.size());
  const bool took = !to_do(work::pending).empty() && take_pending();
  bool found = false;
  if (!look_.skips()) {
    found = active_.receive();
    if (look_.due(found, active_.size() != connections_)) found = look_at_all() || found;
    look_.polled(found);
  }
  if (!to_do(work::due).empty()) do_due(false);
  if (((found || took) && arrived_count_ == 0) || has_events()) progressed = true;
  const std::size_t n = has_completions() ? hand_out(out.first(out.size() - arrived_count_)) : 0;
  polling_ = false;
  return n;
}

// With completions pending, messages get half of the entries.
std::size_t tcp_adapter::room_for_messages(std::size_t all) noexcept {
  if (has_completions()) [[unlikely]]
    all = (all + polls_ % 2) / 2;
  return std::min(all, most_arrived);
}

// Connections without a free entry are the first ones of the next poll.
bool tcp_adapter::take_pending() noexcept {
  list<connection_link>& pending = to_do(work::pending);
  list<connection_link> now;
  now.splice_back(pending);
  bool any = false;
  while (!now.empty() && has_place()) any = now.pop_front().owner.receive() || any;
  now.splice_back(pending);
  pending.splice_back(now);
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

// With more connections than the active set holds, all are watched by epoll: the active ones change
// too often.
void tcp_adapter::enlist() noexcept {
  if (++connections_ == active_set::most + 1) static_cast<void>(active_.follow());
}

bool tcp_adapter::look_at_all() noexcept {
  const bool any = sockets_.look().any;
  look_.looked(any);
  return any;
}

void tcp_adapter::do_due(bool now) noexcept {
  list<connection_link>& due = to_do(work::due);
  list<connection_link> all;
  all.splice_back(due);
  while (!all.empty()) {
    connection_link& link = all.pop_front();
    const bool done =
        link.owner.tend(now ? connection::urgency::now : connection::urgency::when_idle);
    if (!done && !link.linked()) due.push_back(link);
  }
}

std::size_t tcp_adapter::hand_out(std::span<completion> out) noexcept {
  std::size_t n = has_reports() ? hand_out_reports(out) : 0;
  list<connection_link>& completed = to_do(work::completed);
  const connection_link* again = nullptr;  // the first of those that are not done in this poll
  while (n < out.size() && !completed.empty() && &completed.front() != again) {
    connection_link& link = completed.pop_front();
    n += link.owner.take(out.subspan(n));
    if (!link.owner.has_completions()) continue;
    completed.push_back(link);
    if (again == nullptr) again = &link;
  }
  return n;
}

arm_state tcp_adapter::arm() noexcept {
  // A polling reactor that sleeps after all.
  if (look_.only_polls()) {
    look_.sleeps();
    if (!active_.follow()) {
      look_.cannot_sleep();
      return arm_state::busy;
    }
  }
  CORDMA_ASSERT_OP(arrived_count_, ==, 0U);
  if (!to_do(work::pending).empty()) return arm_state::busy;
  do_due(true);
  if (has_completions() || has_events() || !to_do(work::due).empty() || !active_.are_drained())
    return arm_state::busy;
  look_.arm();
  return arm_state::armed;
}

void tcp_adapter::disarm() noexcept { look_.disarm(); }

void tcp_adapter::mark(connection& c, work w) noexcept {
  connection_link& link = c.link(w);
  if (!link.linked()) to_do(w).push_back(link);
}

void tcp_adapter::forget(connection& c) noexcept {
  active_.remove(c);
  forget_arrived(c);
  std::erase(by_token_, &c);
  CORDMA_ASSERT_OP(connections_, >, 0U);
  CORDMA_ASSERT_OP(active_.size(), <, connections_);
  --connections_;
}

}  // namespace cordma::transport::tcp
