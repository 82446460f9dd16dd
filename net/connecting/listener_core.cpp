#include <cordma/net/connecting/listener_core.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/worker.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace cordma::detail {

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
  CORDMA_ASSERT(via != nullptr);
  answered = true;
  return via->adapter().reject(id, private_data);
}

pending_request::~pending_request() {
  if (answered || anchor->worker == nullptr) return;
  if (anchor->worker->home().enter_to_destroy()) static_cast<void>(reject({}));
}

result<void> listener_core::open(worker_core& w, const transport::address& where,
                                 const listen_options& options) {
  CORDMA_ASSERT(worker == nullptr && listeners.empty());
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
    const transport::capabilities& caps = a->domain().caps();
    if (options.transport && *options.transport != caps.transport) continue;
    if (plain && !caps.plain_peers) continue;
    order.insert(caps.own_ports ? order.end() : order.begin(), a.get());
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
  CORDMA_ASSERT(!opened || !listeners.empty());
  if (opened) w.add(*this);
  return opened;
}

result<void> listener_core::open_all(const std::vector<adapter_poller*>& order) {
  std::optional<failure> first;
  missing.clear();
  for (adapter_poller* a : order) {
    const transport::capabilities& caps = a->domain().caps();
    const transport::kind k = caps.transport;
    result<std::unique_ptr<transport::listener>> l = a->adapter().listen_as(bound, how);
    if (l) {
      CORDMA_ASSERT((*l)->user == nullptr);
      CORDMA_ASSERT(bound.port == 0 || bound.port == (*l)->bound().port);
      bound.port = (*l)->bound().port;
      (*l)->user = static_cast<request_acceptor*>(this);
      listeners.emplace_back(a, std::move(*l));
      continue;
    }
    if (l.code() == errc::not_supported && how.ipv6_only) {
      return failure{errc::not_supported,
                     std::string(transport::name(k)) +
                         " cannot leave IPv4 out: set listen_options::transport to verbs"};
    }
    // The address itself, or the port that was chosen, is somebody else's.
    const bool taken = l.code() == errc::in_use && (!caps.own_ports || chooses_port);
    // A transport without every address may just not have this one.
    const bool mistaken = l.code() == errc::invalid_value && caps.every_address;
    if (taken || mistaken || l.code() == errc::bad_state) return l.why();
    // A transport that fails does not stop the others. What is not its network's address is no failure.
    if (l.code() != errc::unreachable) missing.emplace_back(k, l.why());
    if (!first || first->code() == errc::unreachable) first = l.why();
  }
  CORDMA_ASSERT_OP(listeners.size(), <=, order.size());
  CORDMA_ASSERT(!listeners.empty() || first);
  if (listeners.empty()) return *first;
  return {};
}

void listener_core::on_request(transport::cm_event event) noexcept {
  const auto from = std::find_if(listeners.begin(), listeners.end(),
                                 [&](const auto& l) { return l.second.get() == event.from; });
  CORDMA_ASSERT(from != listeners.end());
  CORDMA_ASSERT(!closed && worker != nullptr);
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
  CORDMA_ASSERT(pending.empty());
  next_operation& op = waiting.pop_front();
  op.request_ = ConnectionRequest(std::move(request));
  op.finish();
}

void listener_core::lose(const adapter_poller& via, const failure& why) noexcept {
  const auto gone = std::erase_if(listeners, [&via](const auto& l) { return l.first == &via; });
  CORDMA_ASSERT_OP(gone, <=, 1U);  // each transport listens once
  if (gone == 0 || !listeners.empty()) return;
  ended = why;
  fail_waiting(why);
}

failure listener_core::was_closed() noexcept {
  return failure::of(errc::shutdown, {"the Listener was closed"});
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
  if (worker != nullptr) worker->remove(*this);
  worker = nullptr;
}

void listener_core::on_worker_gone() noexcept {
  home = nullptr;
  shut_down();
}

void listener_core::leave_to_parent() noexcept {
  for (auto& [via, listening] : listeners) {
    if (via->kept()) static_cast<void>(listening.release());
  }
}

listener_core::~listener_core() {
  if (worker != nullptr) worker->enter_to_destroy();
  shut_down();
  CORDMA_ASSERT(waiting.empty() && pending.empty());
  CORDMA_ASSERT(listeners.empty() && worker == nullptr);
}

}  // namespace cordma::detail
