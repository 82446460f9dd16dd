#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>

#include <sys/eventfd.h>

namespace cordma::transport::sim {
namespace {

constexpr std::size_t first_ring = 256;
// No request has this id: it is flipped into the id of a completion that is to be corrupted.
constexpr std::uint64_t garbage = 0x5AA55AA5DEADBEEFULL;

}  // namespace

// ---- domain ----

result<memory_keys> sim_domain::register_memory(const memory_range& range) {
  const result<void> taken = check_memory(range, caps());
  if (!taken) return taken.why();
  const result<void> paid = host_->charge();
  if (!paid) return paid.why();
  return host_->regions().add(range);
}

result<std::unique_ptr<adapter>> sim_domain::open(reactor& home) {
  CORDMA_REQUIRE(&home == &net_->home());
  const result<void> paid = host_->charge();
  if (!paid) return paid.why();
  // Never written to: every event of the network is a timer of the reactor.
  unique_fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) {
    return failure::from_os(errno, "opening a sim adapter, which needs a file descriptor");
  }
  return std::unique_ptr<adapter>(std::make_unique<sim_adapter>(shared_from_this(), std::move(fd)));
}

// ---- listener ----

sim_listener::~sim_listener() { owner_.remove(*this); }

// ---- receive queue ----

sim_receive_queue::sim_receive_queue(sim_adapter& owner, std::uint32_t depth,
                                     std::uint32_t max_segments)
    : software_receive_queue(owner, depth, max_segments), owner_(owner) {}

sim_receive_queue::~sim_receive_queue() { owner_.remove(*this); }

// ---- adapter ----

sim_adapter::sim_adapter(std::shared_ptr<sim_domain> of, unique_fd event_fd)
    : domain_(std::move(of)), event_fd_(std::move(event_fd)), ring_(first_ring) {}

sim_adapter::~sim_adapter() {
  CORDMA_REQUIRE_OP(pairs_, ==, 0U);
  CORDMA_ASSERT_OP(done_count_, ==, 0U);
  CORDMA_ASSERT_OP(events_.size(), ==, 0U);
  home().refuse_all(nullptr, this);
}

std::size_t sim_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  host& h = home();
  if (h.stalled(domain_->net_->now())) {
    events_ready_ = false;
    return 0;
  }
  CORDMA_REQUIRE_OP(arrived_count_, ==, 0U);
  const bool together = domain_->net_->options().events_with_completions;
  std::size_t n = 0;
  while (n + arrived_count_ < out.size() && done_count_ != 0 && (together || !event_is_next())) {
    const finished& f = ring_[first_done_];
    if (f.sender != nullptr) {
      if (arrived_count_ == most_arrived) break;
      add_arrived(f.sender->hand_out());
    } else {
      out[n] = f.what;
      if (h.charge_completion()) {
        ++domain_->net_->faults().corrupted_completions;
        out[n].id ^= garbage;
      }
      ++n;
    }
    first_done_ = (first_done_ + 1) & (ring_.size() - 1);
    --done_count_;
  }
  // Otherwise separately: the order is kept whether the caller processes events or completions
  // first.
  events_ready_ = (together || n + arrived_count_ == 0) && may_tell();
  if (events_ready_) progressed = true;
  return n;
}

// Messages of one sender are adjacent: a caller that lets one stay then finds all later ones behind
// it.
void sim_adapter::add_arrived(const arrived_message& m) noexcept {
  const auto end = arrived_.begin() + static_cast<std::ptrdiff_t>(arrived_count_);
  auto at = end;
  while (at != arrived_.begin() && std::prev(at)->from != m.from) --at;
  if (at == arrived_.begin()) at = end;
  std::move_backward(at, end, std::next(end));
  *at = m;
  ++arrived_count_;
}

void sim_adapter::release_arrived() noexcept {
  const std::span<arrived_message> all = arrived();
  for (std::size_t i = 0; i < all.size();) {
    auto* const from = static_cast<sim_pair*>(all[i].from);
    std::size_t taken = 0;
    std::size_t stay = 0;
    for (; i < all.size() && all[i].from == from; ++i) {
      CORDMA_REQUIRE(all[i].stays || stay == 0 || from == nullptr);
      ++(all[i].stays ? stay : taken);
    }
    if (from != nullptr) from->looked_at(taken, stay);
  }
  arrived_count_ = 0;
}

bool sim_adapter::may_tell() const noexcept {
  return domain_->net_->options().events_with_completions ? !events_.empty() : event_is_next();
}

cm_event sim_adapter::next_event() {
  CORDMA_REQUIRE(events_ready_);
  cm_event e = std::move(events_.front().what);
  events_.pop_front();
  events_ready_ = may_tell();
  return e;
}

arm_state sim_adapter::arm() noexcept {
  const bool nothing = done_count_ == 0 && events_.empty();
  return nothing || home().stalled(domain_->net_->now()) ? arm_state::armed : arm_state::busy;
}

void sim_adapter::push(std::uint32_t number, const completion& c,
                       const receive_queue* from) noexcept {
  add({order_++, number, c, from, nullptr});
}

void sim_adapter::push(sim_pair& from) noexcept {
  add({order_++, from.id().number, {}, nullptr, &from});
}

void sim_adapter::withdraw(const sim_pair& from) noexcept {
  sift([&from](const finished& f) { return f.sender != &from; });
}

void sim_adapter::add(const finished& f) noexcept {
  if (done_count_ == ring_.size()) grow();
  ring_[(first_done_ + done_count_) & (ring_.size() - 1)] = f;
  ++done_count_;
}

void sim_adapter::push(cm_event e) { events_.push_back({order_++, std::move(e)}); }

void sim_adapter::grow() {
  std::vector<finished> larger(ring_.size() * 2);
  for (std::size_t i = 0; i < done_count_; ++i) {
    larger[i] = ring_[(first_done_ + i) & (ring_.size() - 1)];
  }
  ring_ = std::move(larger);
  CORDMA_ASSERT_OP(std::popcount(ring_.size()), ==, 1);
  first_done_ = 0;
}

template <class Keep>
void sim_adapter::sift(Keep keep) noexcept {
  const std::size_t mask = ring_.size() - 1;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < done_count_; ++i) {
    finished& f = ring_[(first_done_ + i) & mask];
    if (keep(f)) ring_[(first_done_ + kept++) & mask] = f;
  }
  CORDMA_ASSERT_OP(kept, <=, done_count_);
  done_count_ = kept;
}

void sim_adapter::remove(sim_pair& p) noexcept {
  CORDMA_REQUIRE_OP(pairs_, >, 0U);
  --pairs_;
  sift([&p](finished& f) {
    if (f.what.from == &p) f.what.from = nullptr;
    return f.number != p.id().number || f.from != nullptr;
  });
  forget_arrived(p);
  std::erase_if(events_, [&p](const happened& h) { return h.what.pair == &p; });
  events_ready_ = events_ready_ && may_tell();
}

void sim_adapter::remove(const sim_receive_queue& q) noexcept {
  sift([&q](const finished& f) { return f.from != &q; });
}

void sim_adapter::drop_events(const receive_queue& of) noexcept {
  std::erase_if(events_, [&of](const happened& h) { return h.what.queue == &of; });
  events_ready_ = events_ready_ && may_tell();
}

void sim_adapter::remove(const sim_listener& l) noexcept {
  home().free_port(l.bound().port);
  home().refuse_all(&l, nullptr);
  std::erase_if(events_, [&l](const happened& h) { return h.what.from == &l; });
  events_ready_ = events_ready_ && may_tell();
}

result<queue_pair_options> sim_adapter::admit(const queue_pair_options& asked) const {
  const capabilities& c = home().caps();
  result<queue_pair_options> granted = grant(asked, c);
  if (!granted) return granted;
  const result<void> ours = check_shared(asked, *this);
  if (!ours) return ours.why();
  if (pairs_ >= c.max_queue_pairs) {
    ++domain_->net_->faults().full_adapters;
    return failure{errc::full, "this adapter has its " + std::to_string(c.max_queue_pairs) +
                                   " queue pairs (network_options.max_queue_pairs)"};
  }
  if (!home().has_slot()) {
    return failure{errc::full, "host " + home().name() + " has its " +
                                   std::to_string(host::most_pairs) + " queue pairs"};
  }
  const result<void> paid = home().charge();
  if (!paid) return paid.why();
  return granted;
}

result<std::unique_ptr<listener>> sim_adapter::listen(const address& where) {
  if (!where.host.empty() && where.host != home().name()) {
    return failure{errc::not_found,
                   "host " + home().name() + " does not own the address " + where.text()};
  }
  const result<void> paid = home().charge();
  if (!paid) return paid.why();
  const result<std::uint16_t> port = home().take_port(where.port);
  if (!port) return port.why();
  auto l = std::make_unique<sim_listener>(*this, address{home().name(), port.value()});
  home().open_port(*l);
  return std::unique_ptr<listener>(std::move(l));
}

result<std::unique_ptr<queue_pair>> sim_adapter::connect(const address& to,
                                                         const queue_pair_options& options,
                                                         std::span<const std::byte> data) {
  CORDMA_REQUIRE_OP(data.size(), <=, most_connect_data);
  if (options.type == service::ud) {
    return failure{errc::invalid_value, "datagram ports are not connected: create() one"};
  }
  const std::uint32_t peer = to.host.empty() ? home().index() : domain_->net_->find(to.host);
  if (peer == fabric::no_host) {
    return failure{errc::unreachable, "there is no host " + to.host + " in this network"};
  }
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  auto p = std::make_unique<sim_pair>(*this, *granted);
  p->begin_connect(peer, to.port, data);
  return std::unique_ptr<queue_pair>(std::move(p));
}

host::request* sim_adapter::own_request(std::uint64_t id) noexcept {
  host::request* const r = home().find_request(id);
  const bool mine = r != nullptr && r->is == host::request::state::waiting && r->owner == this;
  return mine ? r : nullptr;
}

result<std::unique_ptr<queue_pair>> sim_adapter::accept(std::uint64_t request,
                                                        const queue_pair_options& options,
                                                        std::span<const std::byte> data) {
  CORDMA_REQUIRE_OP(data.size(), <=, most_accept_data);
  host::request* const r = own_request(request);
  if (r == nullptr) return failure{errc::bad_state, "the request was answered or is gone"};
  if (options.type != r->theirs.type) {
    return failure{errc::invalid_value, "the client asks for service " +
                                            std::string(name(r->theirs.type)) + ", not " +
                                            std::string(name(options.type))};
  }
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  auto p = std::make_unique<sim_pair>(*this, *granted);
  r->is = host::request::state::accepted;
  p->begin_accept(*r, data);
  home().answered(request);
  return std::unique_ptr<queue_pair>(std::move(p));
}

result<void> sim_adapter::reject(std::uint64_t request, std::span<const std::byte> data) {
  CORDMA_REQUIRE_OP(data.size(), <=, most_accept_data);
  if (own_request(request) == nullptr) {
    return failure{errc::bad_state, "the request was answered or is gone"};
  }
  home().refuse(request, errc::rejected, data);
  return {};
}

result<std::uint64_t> sim_adapter::hand_over(std::uint64_t request, adapter& target) {
  auto* const to = dynamic_cast<sim_adapter*>(&target);
  if (to == nullptr || to->domain_->host_ != domain_->host_) {
    return failure{errc::not_supported, "only adapters of one host hand requests over"};
  }
  host::request* const r = own_request(request);
  if (r == nullptr) return failure{errc::bad_state, "the request was answered or is gone"};
  r->owner = to;
  r->from = nullptr;
  return request;
}

result<std::unique_ptr<queue_pair>> sim_adapter::create(const queue_pair_options& options) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  return std::unique_ptr<queue_pair>(std::make_unique<sim_pair>(*this, *granted));
}

result<std::unique_ptr<receive_queue>> sim_adapter::make_receive_queue(std::uint32_t depth,
                                                                       std::uint32_t max_segments) {
  const result<void> fits = check_receive_queue(depth, max_segments, home().caps());
  if (!fits) return fits.why();
  const result<void> paid = home().charge();
  if (!paid) return paid.why();
  return std::unique_ptr<receive_queue>(
      std::make_unique<sim_receive_queue>(*this, depth, max_segments));
}

}  // namespace cordma::transport::sim
