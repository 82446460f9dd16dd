#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace cordma::transport::verbs {
namespace {

constexpr int most_ready = 8;

void make_nonblocking(int fd) noexcept { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// The hint is for causes other than the limit of `ulimit -n`.
failure without(int code, const std::string& what, const char* hint) {
  const failure why = failure::from_os(reason_behind(code), what);
  if (why.code() == errc::no_memory) return why;
  return failure::from_os(code, what + " (" + hint + ")");
}

}  // namespace

verbs_adapter::verbs_adapter(std::shared_ptr<verbs_domain> owner, reactor& home)
    : owner_(std::move(owner)), home_(home), handles_(owner_->pd()) {}

result<void> verbs_adapter::prepare() {
  epoll_ = unique_fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_ || !told_.open()) {
    return failure::from_os(errno, "opening a verbs adapter");
  }
  channel_.reset(ibv_create_comp_channel(owner_->context()));
  if (channel_ == nullptr) {
    return without(errno, "making a completion channel on " + owner_->hardware().name,
                   "is it still here? see cordma-info --devices");
  }
  make_nonblocking(channel_->fd);
  result<owned_channel> cm = open_channel();
  if (!cm) return cm.why();
  cm_ = std::move(*cm);
  make_nonblocking(cm_->fd);
  const int device_fd = owner_->reads_async_events() ? owner_->context()->async_fd : -1;
  for (const auto& [fd, what] : {std::pair{channel_->fd, watch_channel},
                                 {cm_->fd, watch_cm},
                                 {device_fd, watch_device},
                                 {told_.fd(), watch_told}}) {
    if (fd < 0) continue;
    const result<void> watching = watch(fd, what);
    if (!watching) return watching;
  }
  const result<completion_queue*> first = make_queue(owner_->options().cq_entries);
  if (!first) return first.why();
  stand_ = stand_at_device();
  owner_->enter(*this);
  return {};
}

verbs_adapter::~verbs_adapter() {
  owner_->leave(*this);
  incoming_.clear();
  control_.reset();
  CORDMA_REQUIRE(pairs_.empty());
  CORDMA_REQUIRE_OP(listeners_.size(), ==, 0U);
  CORDMA_ASSERT_OP(look_.waiting(), ==, 0);
  CORDMA_ASSERT(!has_list());
  CORDMA_ASSERT(completed_.empty() && completed_shared_.empty());
  for (const auto& q : queues_) {
    CORDMA_ASSERT_OP(q->promised, ==, 0U);
    if (q->unacknowledged != 0) ibv_ack_cq_events(q->queue.get(), q->unacknowledged);
  }
}

void verbs_adapter::close_descriptors() noexcept {
  epoll_.reset();
  told_.close();
  ::close(channel_->fd);
  ::close(cm_->fd);
}

result<void> verbs_adapter::watch(int fd, std::uint64_t what) noexcept {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &e) == 0) return {};
  return failure::from_os(errno, "watching a descriptor of the RDMA device");
}

// Called for a removed device: its descriptor would be ready forever.
void verbs_adapter::watch_no_more(std::uint64_t what) noexcept {
  const int fd = what == watch_channel ? channel_->fd : owner_->context()->async_fd;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// ---- completion queues ----

result<completion_queue*> verbs_adapter::make_queue(std::uint32_t least) {
  const std::uint32_t entries =
      std::min(std::max(least, owner_->options().cq_entries.get()), most_entries());
  auto q = std::make_unique<completion_queue>(
      polled_queue(owner_->hardware(), entries, channel_.get(), this));
  if (!q->queue.is_open()) {
    return failure::from_os(errno, "making a completion queue of " + std::to_string(entries) +
                                       " entries on " + owner_->hardware().name +
                                       " (lower verbs.cq_entries, or ask for smaller depths)");
  }
  if (q->queue.entries() < least) {
    return failure{errc::full, "a completion queue of " + owner_->hardware().name +
                                   " has at most " + std::to_string(q->queue.entries()) +
                                   " entries, and " + std::to_string(least) +
                                   " are needed: ask for smaller depths, or for less with "
                                   "verbs.cq_entries"};
  }
  notices_.asked = notice::none;
  queues_.push_back(std::move(q));
  return queues_.back().get();
}

bool verbs_adapter::grow(completion_queue& q, std::uint32_t completions) noexcept {
  const std::uint32_t most = std::min(owner_->options().cq_limit.get(), most_entries());
  const std::uint32_t least = q.promised + completions;
  if (least > most || !q.queue.grow(std::clamp(2 * q.queue.entries(), least, most))) return false;
  notices_.asked = notice::none;
  return q.queue.entries() >= least;
}

result<ibv_cq*> verbs_adapter::promise(std::uint32_t completions) {
  const auto find = [this](auto has_room) {
    return std::ranges::find_if(queues_, [&](const auto& q) { return has_room(*q); });
  };
  auto at = find([completions](const completion_queue& q) {
    return !q.dead && q.queue.entries() - q.promised >= completions;
  });
  if (at == queues_.end()) {
    at = find([&](completion_queue& q) { return !q.dead && grow(q, completions); });
  }
  completion_queue* chosen = at != queues_.end() ? at->get() : nullptr;
  if (chosen == nullptr) {
    const result<completion_queue*> made = make_queue(completions);
    if (!made) return made.why();
    chosen = *made;
  }
  chosen->promised += completions;
  CORDMA_ASSERT_OP(chosen->promised, <=, chosen->queue.entries());
  return chosen->queue.get();
}

void verbs_adapter::release(ibv_cq* queue, std::uint32_t completions) noexcept {
  for (const auto& q : queues_) {
    if (q->queue.get() != queue) continue;
    CORDMA_REQUIRE_OP(q->promised, >=, completions);
    q->promised -= completions;
    return;
  }
  CORDMA_ASSERT(queue == nullptr);
}

// ---- waiting ----

arm_state verbs_adapter::arm() noexcept {
  if (staged_.owner != nullptr) staged_.owner->ring();
  const bool nothing_left = completed_.empty() && completed_shared_.empty() && events_.empty();
  if (!nothing_left) return arm_state::busy;
  const bool is_armed = notices_.asked != notice::none;
  if (notices_.taken_since && is_armed)
    read_channel();  // the notification of completions taken already
  notices_.taken_since = false;
  const notice wanted = notice_wanted();
  if (notices_.asked >= wanted) return arm_state::armed;
  const int solicited_only = wanted == notice::solicited ? 1 : 0;
  for (const auto& q : queues_) {
    if (q->dead) continue;
    if (ibv_req_notify_cq(q->queue.get(), solicited_only) != 0) return arm_state::busy;
  }
  notices_.asked = wanted;
  return arm_state::armed;
}

// The completion of a request of this side is never solicited: while there are any, every
// completion wakes.
verbs_adapter::notice verbs_adapter::notice_wanted() const noexcept {
  if (notices_.wake_for == wake_reason::everything) return notice::everything;
  const bool sending = pairs_.any_of([](const verbs_pair& p) { return p.is_sending(); });
  return sending ? notice::everything : notice::solicited;
}

// An armed queue notifies once: after one notification of each, another system call would find
// nothing. A notification that remains anyway keeps the descriptor readable.
bool verbs_adapter::read_channel() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  for (std::size_t told = 0; told < queues_.size(); ++told) {
    if (ibv_get_cq_event(channel_.get(), &queue, &context) != 0) return told != 0;
    notices_.asked = notice::none;
    for (const auto& q : queues_) {
      if (q->queue.get() != queue || ++q->unacknowledged < acknowledged_at_once) continue;
      ibv_ack_cq_events(queue, std::exchange(q->unacknowledged, 0U));
    }
  }
  return true;
}

bool verbs_adapter::look() noexcept {
  std::array<epoll_event, most_ready> ready;
  const int n = ::epoll_wait(epoll_.get(), ready.data(), most_ready, 0);
  bool found = false;
  for (const epoll_event& e : std::span(ready).first(static_cast<std::size_t>(std::max(n, 0)))) {
    const std::uint64_t what = e.data.u64;
    switch (what) {
      // Also if its completions are taken already: before sleeping, arm() must request the next
      // notification.
      case watch_channel: found = read_channel() || found; break;
      case watch_cm: found = read_cm() || found; break;
      case watch_device: owner_->read_async_events(); break;
      default: read_told(); break;
    }
    const bool of_device = what == watch_channel || what == watch_device;
    if (of_device && (e.events & EPOLLERR) != 0) watch_no_more(what);
  }
  return found;
}

// ---- asynchronous events of the device ----

void verbs_adapter::read_told() noexcept {
  for (const async_event& e : told_.take()) on_told(e);
}

void verbs_adapter::drop_told(std::uint32_t pair) noexcept {
  told_.drop_if([pair](const async_event& e) {
    return e.about == async_event::subject::own && e.pair == pair;
  });
}

void verbs_adapter::on_told(const async_event& e) noexcept {
  const bool own = e.about == async_event::subject::own;
  if (own && e.pair != 0) {
    verbs_pair* const p = find(e.pair);
    if (p != nullptr) return p->on_async(e.what);
  }
  if (own) on_told_of_shared(e);
  if (own && e.pair != 0) return;
  const bool known = lost_ && e.what == IBV_EVENT_DEVICE_FATAL;
  if (!own && !known) report(e);
  const bool own_queue = own && e.what == IBV_EVENT_CQ_ERR;
  if (!own_queue && e.what != IBV_EVENT_DEVICE_FATAL) return;
  if (own_queue) bury(e.element);
  const failure why =
      failure::of(errc::driver, {"the RDMA device reports: ", ibv_event_type_str(e.what)});
  pairs_.for_each([&why](verbs_pair& p) { p.device_gone(why); });
  if (!own_queue) lose_device();
}

// rdma_cm reports a removal only to its own connections. On Soft-RoCE no program receives
// DEVICE_FATAL from the device either: its kernel module waits until its last file is closed.
owned_id verbs_adapter::stand_at_device() noexcept {
  const std::optional<ibv_gid_entry> own = owner_->choose_gid(nullptr);
  rdma_cm_id* raw = nullptr;
  if (!own || rdma_create_id(cm_.get(), &raw, cm_token{}.packed(), RDMA_PS_UDP) != 0) return {};
  owned_id id(raw);
  if (rdma_bind_addr(raw, to_address(*own).get()) != 0) id.reset();
  return id;
}

void verbs_adapter::on_removal() noexcept {
  if (lost_) return;
  async_event told{};
  told.what = IBV_EVENT_DEVICE_FATAL;
  report(told);
  pairs_.for_each([](verbs_pair& p) { p.device_removed(); });
  lose_device();
}

void verbs_adapter::lose_device() noexcept {
  if (lost_) return;
  lost_ = failure::of(errc::unreachable,
                      {"the RDMA device has gone: a new Context finds it once it is back"});
  stand_.reset();
  for (const auto& [number, l] : listeners_) l->end(*lost_);
}

void verbs_adapter::bury(const void* queue) noexcept {
  for (const auto& q : queues_) {
    if (q->queue.get() != queue) continue;
    q->dead = true;
    if (control_ != nullptr && control_->queue() == queue) control_.reset();
  }
}

void verbs_adapter::report(const async_event& e) noexcept {
  try {
    cm_event told;
    told.what = cm_event::type::device;
    told.about = to_device_event(e);
    push_event(std::move(told));
  } catch (const std::bad_alloc&) {
    return;  // no event is reported; the connections end by themselves
  }
}

// ---- queue pairs and events ----

post_list& verbs_adapter::list_for(verbs_pair& p) noexcept {
  if (staged_.owner != nullptr && staged_.owner != &p) staged_.owner->ring();
  if (staged_.owner == nullptr) {
    staged_.owner = &p;
    staged_.count = 0;
  }
  return staged_;
}

cm_event verbs_adapter::next_event() {
  CORDMA_REQUIRE_OP(events_.size(), >, 0U);
  cm_event e = std::move(events_.front());
  events_.pop_front();
  events_ready_ = !events_.empty();
  return e;
}

void verbs_adapter::push_event(cm_event event) {
  events_.push_back(std::move(event));
  events_ready_ = true;
  look_.stir();
}

void verbs_adapter::push_event(event_place& reserved, cm_event event) noexcept {
  CORDMA_REQUIRE_OP(reserved.size(), ==, 1U);
  reserved.front() = std::move(event);
  events_.splice(events_.end(), reserved);
  events_ready_ = true;
  look_.stir();
}

void verbs_adapter::drop_events(const queue_pair* pair, const listener* from) noexcept {
  std::erase_if(events_, [pair, from](const cm_event& e) {
    return (pair != nullptr && e.pair == pair) || (from != nullptr && e.from == from);
  });
  events_ready_ = !events_.empty();
}

control_port* verbs_adapter::control() {
  const bool never = no_control_ && no_control_->code() == errc::not_supported;
  if (control_ == nullptr && !never) {
    auto made = std::make_unique<control_port>(*this);
    const result<void> done = made->make();
    if (done) {
      control_ = std::move(made);
    } else {
      no_control_ = done.why();
    }
  }
  return control_.get();
}

requests_so_far verbs_adapter::control_requests() const noexcept {
  return control_ != nullptr ? control_->requests() : requests_so_far();
}

address_handle* verbs_adapter::hold_handle(const ibv_ah_attr& where) noexcept {
  const handle_key key{.gid = to_bytes(where.grh.dgid),
                       .rest = (std::uint32_t{where.dlid} << 16) |
                               (std::uint32_t{where.grh.sgid_index} << 8) | where.sl};
  address_handle* h = handles_.find(key, control_requests());
  if (h == nullptr) h = handles_.make(key, where, control_requests());
  if (h != nullptr) handles_.hold(*h);
  return h;
}

void verbs_adapter::let_go(address_handle& h) noexcept { handles_.let_go(h, control_requests()); }

address_handle* verbs_adapter::known_handle(const datagram_address& peer) noexcept {
  address_handle* const known = handles_.find_any(peer.gid, peer.lid, control_requests());
  if (known != nullptr || !owner_->has_gid(peer.gid)) return known;
  return handles_.make(key_to(peer), path_to(*owner_, peer), control_requests());
}

}  // namespace cordma::transport::verbs
