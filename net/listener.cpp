#include <cordma/net/listener.hpp>

#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/worker.hpp>

#include <algorithm>
#include <new>

namespace cordma {
namespace {

constexpr const char* bound_to_thread =
    "a ConnectionRequest may only be used on the thread of its Worker";

failure was_closed() noexcept { return failure::of(errc::shutdown, {"the Listener was closed"}); }

}  // namespace

namespace detail {

bool pending_request::off_thread() const noexcept {
  return anchor->worker != nullptr && !anchor->worker->home().on_owner_thread();
}

result<void> pending_request::reject(std::span<const std::byte> private_data) {
  if (answered) return failure{errc::bad_state, "the request was answered before"};
  if (anchor->worker == nullptr) return failure{errc::shutdown, "the Worker is gone"};
  const std::uint32_t most = via->domain().caps().max_accept_data;
  if (private_data.size() > most) {
    return failure{errc::invalid_value, std::to_string(private_data.size()) +
                                            " bytes of private data with a reject, the transport "
                                            "carries " +
                                            std::to_string(most)};
  }
  answered = true;
  return via->adapter().reject(id, private_data);
}

pending_request::~pending_request() {
  if (answered || anchor->worker == nullptr) return;
  if (anchor->worker->home().enter_to_destroy()) static_cast<void>(reject({}));
}

result<void> listener_core::open(worker_core& w, const transport::address& where,
                                 const listen_options& options) {
  worker = &w;
  home = &w.home();
  bound = where;
  how = {.peers = options.peers, .ipv6_only = options.ipv6_only};
  chooses_port = where.port == 0;
  anchor = w.anchor();
  const bool plain = how.peers == transport::peer_kind::plain;
  // The network's transports first: where port 0 is asked for they choose one that is free.
  std::vector<adapter_poller*> order;
  for (const auto& a : w.adapters()) {
    const transport::kind k = a->domain().caps().transport;
    if (options.transport && *options.transport != k) continue;
    if (plain && !a->domain().caps().plain_peers) continue;
    order.insert(k == transport::kind::shm ? order.end() : order.begin(), a.get());
  }
  if (order.empty()) {
    return failure{errc::not_supported,
                   w.left_out(options.transport) +
                       (plain ? "plain peers are reached over verbs only"
                              : "this Context does not have the transport asked for")};
  }
  result<void> opened = open_all(order);
  // The port that one transport found free may be taken on the next: ask for another.
  for (int tries = 1; opened.code() == errc::in_use && where.port == 0 && tries < most_ports_tried;
       ++tries) {
    listeners.clear();
    bound.port = 0;
    opened = open_all(order);
  }
  if (!options.transport) missing.insert(missing.end(), w.missing.begin(), w.missing.end());
  if (opened) w.add(*this);
  return opened;
}

result<void> listener_core::open_all(const std::vector<adapter_poller*>& order) {
  std::optional<failure> first;
  missing.clear();
  for (adapter_poller* a : order) {
    const transport::kind k = a->domain().caps().transport;
    result<std::unique_ptr<transport::listener>> l = a->adapter().listen_as(bound, how);
    if (l) {
      bound.port = (*l)->bound().port;
      (*l)->user = this;
      listeners.emplace_back(a, std::move(*l));
      continue;
    }
    if (l.code() == errc::not_supported && how.ipv6_only) {
      return failure{errc::not_supported,
                     std::string(transport::name(k)) +
                         " cannot leave IPv4 out: set listen_options::transport to verbs"};
    }
    // The address itself, or the port that was chosen, is somebody else's.
    const bool taken = l.code() == errc::in_use && (k != transport::kind::shm || chooses_port);
    // What TCP calls no address is none; a device of RDMA may just not have it.
    const bool mistaken = l.code() == errc::invalid_value && k != transport::kind::verbs;
    if (taken || mistaken || l.code() == errc::bad_state) return l.why();
    // A transport that fails does not stop the others. What is not its network's address is no failure.
    if (l.code() != errc::unreachable) missing.emplace_back(k, l.why());
    if (!first || first->code() == errc::unreachable) first = l.why();
  }
  if (listeners.empty()) return *first;
  return {};
}

void listener_core::on_request(transport::cm_event event) noexcept {
  const auto from = std::find_if(listeners.begin(), listeners.end(),
                                 [&](const auto& l) { return l.second.get() == event.from; });
  CORDMA_ASSERT(from != listeners.end());
  try {
    take_in(*from->first, std::move(event));
  } catch (const std::bad_alloc&) {
    // Refused is better than left waiting; that it may already have been is no harm.
    static_cast<void>(from->first->adapter().reject(event.request, {}));
  }
}

void listener_core::take_in(adapter_poller& via, transport::cm_event event) {
  auto request = std::make_shared<pending_request>();
  request->anchor = anchor;
  request->via = &via;
  request->kind = via.domain().caps().transport;
  request->id = event.request;
  request->peer = std::move(event.peer);
  request->peer_is = how.peers;
  request->data = std::move(event.data);
  if (pending.size() >= most_pending) return;  // its destructor rejects it
  if (waiting.empty()) {
    pending.emplace_back(std::move(request));
    return;
  }
  next_operation& op = waiting.pop_front();
  op.request_ = ConnectionRequest(std::move(request));
  op.finish();
}

void listener_core::lose(const adapter_poller& via, const failure& why) noexcept {
  const auto gone = std::erase_if(listeners, [&via](const auto& l) { return l.first == &via; });
  if (gone == 0 || !listeners.empty()) return;
  ended = why;
  fail_waiting(why);
}

void listener_core::fail_waiting(const failure& why) noexcept {
  while (!waiting.empty()) {
    next_operation& op = waiting.pop_front();
    op.failure_ = why;
    op.finish();
  }
}

void listener_core::shut_down() noexcept {
  if (closed) return;
  closed = true;
  pending.clear();
  listeners.clear();
  fail_waiting(was_closed());
  if (worker != nullptr) std::erase(worker->listeners_, this);
  worker = nullptr;
}

listener_core::~listener_core() {
  if (worker != nullptr) worker->enter_to_destroy();
  shut_down();
}

}  // namespace detail

ConnectionRequest::ConnectionRequest() noexcept = default;
ConnectionRequest::ConnectionRequest(std::shared_ptr<detail::pending_request> pending) noexcept
    : pending_(std::move(pending)) {}
ConnectionRequest::ConnectionRequest(ConnectionRequest&&) noexcept = default;
ConnectionRequest& ConnectionRequest::operator=(ConnectionRequest&&) noexcept = default;
ConnectionRequest::~ConnectionRequest() = default;

const std::string& ConnectionRequest::peer_address() const noexcept { return pending_->peer; }
std::span<const std::byte> ConnectionRequest::private_data() const noexcept {
  return pending_->data;
}
transport::kind ConnectionRequest::transport() const noexcept { return pending_->kind; }

connect_operation ConnectionRequest::accept(const connect_options& options) {
  CORDMA_REQUIRE(pending_ != nullptr);
  detail::worker_core* const worker = pending_->anchor->worker;
  if (worker == nullptr) return connect_operation(nullptr, {errc::shutdown, "the Worker is gone"});
  if (pending_->taken || pending_->answered) {
    return connect_operation(worker, {errc::bad_state, "the request was answered before"});
  }
  pending_->taken = true;
  return connect_operation(*worker, pending_, options);
}

result<ConnectionRequest> ConnectionRequest::hand_over(Worker& to) {
  if (pending_->taken || pending_->answered) {
    return failure{errc::bad_state, "the request was answered or handed over before"};
  }
  if (pending_->anchor->worker == nullptr) return failure{errc::shutdown, "the Worker is gone"};
  if (pending_->off_thread()) {
    return pending_->anchor->worker->home().wrong_thread(bound_to_thread);
  }
  detail::worker_core& target = to.core();
  for (const auto& via : target.adapters()) {
    if (&via->domain() != &pending_->via->domain()) continue;
    const result<std::uint64_t> id =
        pending_->via->adapter().hand_over(pending_->id, via->adapter());
    if (!id) return id.why();
    pending_->answered = true;  // here; the other Worker's now
    auto moved = std::make_shared<detail::pending_request>();
    moved->anchor = target.anchor();
    moved->via = via.get();
    moved->kind = pending_->kind;
    moved->id = *id;
    moved->peer = pending_->peer;
    moved->peer_is = pending_->peer_is;
    moved->data = pending_->data;
    return ConnectionRequest(std::move(moved));
  }
  return failure{errc::invalid_value, "that Worker belongs to another Context"};
}

result<void> ConnectionRequest::reject(std::span<const std::byte> private_data) {
  if (pending_->taken) return failure{errc::bad_state, "the request was accepted before"};
  if (pending_->off_thread()) {
    return pending_->anchor->worker->home().wrong_thread(bound_to_thread);
  }
  return pending_->reject(private_data);
}

next_operation::next_operation(detail::listener_core& listener) noexcept
    : operation(listener.home), listener_(&listener) {}

void next_operation::do_start() noexcept {
  if (listener_->closed) {
    failure_ = was_closed();
    finish();
  } else if (!home()->on_owner_thread()) {
    failure_.emplace(
        home()->wrong_thread("a Listener may only be used on the thread of its Worker"));
    finish();
  } else if (!listener_->pending.empty()) {
    request_ = std::move(listener_->pending.front());
    listener_->pending.pop_front();
    finish();
  } else if (listener_->ended) {
    failure_ = listener_->ended;
    finish();
  } else {
    set_phase(phase::queued);
    listener_->waiting.push_back(*this);
  }
}

void next_operation::do_cancel() noexcept {
  unlink();
  failure_.emplace(errc::canceled);
  finish();
}

Listener::Listener() noexcept = default;
Listener::Listener(std::unique_ptr<detail::listener_core> core) noexcept : core_(std::move(core)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

next_operation Listener::next() noexcept { return next_operation(*core_); }
void Listener::close() noexcept {
  if (core_->home != nullptr && !core_->home->enter()) return;
  core_->shut_down();
}
const transport::address& Listener::bound() const noexcept { return core_->bound; }

const std::vector<std::pair<transport::kind, failure>>& Listener::missing() const noexcept {
  return core_->missing;
}

std::vector<transport::address> Listener::bound_all() const {
  std::vector<transport::address> all;
  for (const auto& [via, listening] : core_->listeners) {
    for (transport::address& one : listening->bound_all()) {
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace cordma
