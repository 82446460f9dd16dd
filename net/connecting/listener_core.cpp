#include <cordma/net/connecting/listener_core.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/worker.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace cordma::detail {

pending_request::pending_request(std::shared_ptr<worker_anchor> anchor, adapter_poller& over,
                                 transport::peer_kind peer_is, transport::cm_event event) noexcept
    : anchor_(std::move(anchor)),
      via_(&over),
      kind_(over.domain().caps().transport),
      id_(event.request),
      peer_(std::move(event.peer)),
      peer_is_(peer_is),
      data_(std::move(event.data)) {}

bool pending_request::off_thread() const noexcept {
  return worker() != nullptr && !worker()->home().on_owner_thread();
}

result<std::shared_ptr<pending_request>> pending_request::hand_over(worker_core& to) {
  for (const auto& via : to.adapters()) {
    if (&via->domain() != &via_->domain()) continue;
    const result<std::uint64_t> id = via_->adapter().hand_over(id_, via->adapter());
    if (!id) return id.why();
    at_ = stage::answered;  // on this Worker; the other Worker has it now
    transport::cm_event client;
    client.request = *id;
    client.peer = peer_;
    client.data = data_;
    return std::make_shared<pending_request>(to.anchor(), *via, peer_is_, std::move(client));
  }
  return failure{errc::invalid_value, "that Worker belongs to another Context"};
}

result<void> pending_request::reject(std::span<const std::byte> private_data) {
  if (at_ > stage::taken) return failure{errc::bad_state, "the request was answered before"};
  if (worker() == nullptr) return failure{errc::shutdown, "the Worker is gone"};
  const std::uint32_t most = via_->domain().caps().max_accept_data;
  if (private_data.size() > most) {
    return failure{errc::invalid_value, std::to_string(private_data.size()) +
                                            " bytes of private data with a reject, the transport "
                                            "carries " +
                                            std::to_string(most)};
  }
  at_ = stage::answered;
  return via_->adapter().reject(id_, private_data);
}

pending_request::~pending_request() {
  if (at_ > stage::taken || worker() == nullptr) return;
  if (worker()->home().enter_to_destroy()) static_cast<void>(reject({}));
}

result<void> listener_core::open(worker_core& w, const transport::address& where,
                                 const listen_options& options) {
  CORDMA_ASSERT(worker_ == nullptr && listeners_.empty());
  worker_ = &w;
  home_ = &w.home();
  bound_ = where;
  how_ = {.peers = options.peers, .ipv6_only = options.ipv6_only};
  chooses_port_ = where.port == 0;
  anchor_ = w.anchor();
  const bool plain = how_.peers == transport::peer_kind::plain;
  // Transports of the network first: for port 0 they choose a free one.
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
  // The port that is free on one transport may be taken on the next: try another one.
  for (int tries = 1; opened.code() == errc::in_use && where.port == 0 && tries < most_ports_tried;
       ++tries) {
    listeners_.clear();
    bound_.port = 0;
    opened = open_all(order);
  }
  if (!options.transport) missing_.insert(missing_.end(), w.missing().begin(), w.missing().end());
  CORDMA_ASSERT(!opened || !listeners_.empty());
  if (opened) w.add(*this);
  return opened;
}

result<void> listener_core::open_all(const std::vector<adapter_poller*>& order) {
  std::optional<failure> first;
  missing_.clear();
  for (adapter_poller* a : order) {
    const transport::capabilities& caps = a->domain().caps();
    const transport::kind k = caps.transport;
    result<std::unique_ptr<transport::listener>> l = a->adapter().listen_as(bound_, how_);
    if (l) {
      CORDMA_ASSERT((*l)->user == nullptr);
      CORDMA_ASSERT(bound_.port == 0 || bound_.port == (*l)->bound().port);
      bound_.port = (*l)->bound().port;
      (*l)->user = static_cast<request_acceptor*>(this);
      listeners_.emplace_back(a, std::move(*l));
      continue;
    }
    if (l.code() == errc::not_supported && how_.ipv6_only) {
      return failure{errc::not_supported,
                     std::string(transport::name(k)) +
                         " cannot leave IPv4 out: set listen_options::transport to verbs"};
    }
    // The address itself, or the chosen port, is in use by another socket.
    const bool taken = l.code() == errc::in_use && (!caps.own_ports || chooses_port_);
    // A transport that does not have every address may only lack this one.
    const bool mistaken = l.code() == errc::invalid_value && caps.every_address;
    if (taken || mistaken || l.code() == errc::bad_state) return l.why();
    // A transport that fails does not stop the others. An address outside its network is no
    // failure.
    if (l.code() != errc::unreachable) missing_.emplace_back(k, l.why());
    if (!first || first->code() == errc::unreachable) first = l.why();
  }
  CORDMA_ASSERT_OP(listeners_.size(), <=, order.size());
  CORDMA_ASSERT(!listeners_.empty() || first);
  if (listeners_.empty()) return *first;
  return {};
}

void listener_core::on_request(transport::cm_event event) noexcept {
  const auto from = std::find_if(listeners_.begin(), listeners_.end(),
                                 [&](const auto& l) { return l.second.get() == event.from; });
  CORDMA_ASSERT(from != listeners_.end());
  CORDMA_ASSERT(!closed_ && worker_ != nullptr);
  try {
    take_in(*from->first, std::move(event));
  } catch (const std::bad_alloc&) {
    // Rejecting is better than leaving the client waiting; a request that was already rejected does
    // no harm.
    static_cast<void>(from->first->adapter().reject(event.request, {}));
  }
}

void listener_core::take_in(adapter_poller& via, transport::cm_event event) {
  auto request = std::make_shared<pending_request>(anchor_, via, how_.peers, std::move(event));
  if (pending_.size() >= most_pending) return;  // the destructor of the request rejects it
  if (waiting_.empty()) {
    pending_.emplace_back(std::move(request));
    return;
  }
  CORDMA_ASSERT(pending_.empty());
  next_operation& op = waiting_.pop_front();
  op.request_ = ConnectionRequest(std::move(request));
  op.finish();
}

void listener_core::lose(const adapter_poller& via, const failure& why) noexcept {
  const auto gone = std::erase_if(listeners_, [&via](const auto& l) { return l.first == &via; });
  CORDMA_ASSERT_OP(gone, <=, 1U);  // each transport listens once
  if (gone == 0 || !listeners_.empty()) return;
  ended_ = why;
  fail_waiting(why);
}

std::vector<transport::address> listener_core::bound_all() const {
  std::vector<transport::address> all;
  for (const auto& [via, listening] : listeners_) {
    for (transport::address& one : listening->bound_all()) {
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
    }
  }
  return all;
}

failure listener_core::was_closed() noexcept {
  return failure::of(errc::shutdown, {"the Listener was closed"});
}

void listener_core::next(next_operation& op) noexcept {
  if (!pending_.empty()) {
    op.request_ = std::move(pending_.front());
    pending_.pop_front();
  } else if (closed_) {
    op.failure_ = was_closed();
  } else if (ended_) {
    op.failure_ = *ended_;
  } else {
    op.set_phase(operation_base::phase::queued);
    waiting_.push_back(op);
    return;
  }
  op.finish();
}

void listener_core::fail_waiting(const failure& why) noexcept {
  while (!waiting_.empty()) {
    next_operation& op = waiting_.pop_front();
    op.failure_ = why;
    op.finish();
  }
}

void listener_core::shut_down() noexcept {
  if (closed_) return;
  closed_ = true;
  pending_.clear();
  listeners_.clear();
  fail_waiting(was_closed());
  if (worker_ != nullptr) worker_->remove(*this);
  worker_ = nullptr;
}

void listener_core::on_worker_gone() noexcept {
  home_ = nullptr;
  shut_down();
}

void listener_core::leave_to_parent() noexcept {
  for (auto& [via, listening] : listeners_) {
    if (via->kept()) static_cast<void>(listening.release());
  }
}

listener_core::~listener_core() {
  if (worker_ != nullptr) worker_->enter_to_destroy();
  shut_down();
  CORDMA_ASSERT(waiting_.empty() && pending_.empty());
  CORDMA_ASSERT(listeners_.empty() && worker_ == nullptr);
}

}  // namespace cordma::detail
