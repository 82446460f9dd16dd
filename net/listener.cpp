#include <cordma/net/listener.hpp>

#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/worker.hpp>

#include <algorithm>
#include <new>

namespace cordma {
namespace {

constexpr const char* bound_to_thread =
    "a ConnectionRequest may only be used on the thread of its Worker";

}  // namespace

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
    failure_ = detail::listener_core::was_closed();
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
    failure_ = *listener_->ended;
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
