#include <cordma/net/listener.hpp>

#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/worker.hpp>

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

const std::string& ConnectionRequest::peer_address() const noexcept { return pending_->peer(); }
std::span<const std::byte> ConnectionRequest::private_data() const noexcept {
  return pending_->data();
}
transport::kind ConnectionRequest::transport() const noexcept { return pending_->kind(); }

connect_operation ConnectionRequest::accept(const connect_options& options) {
  CORDMA_REQUIRE(pending_ != nullptr);
  detail::worker_core* const worker = pending_->worker();
  if (worker == nullptr) return connect_operation(nullptr, {errc::shutdown, "the Worker is gone"});
  if (!pending_->is_open()) {
    return connect_operation(worker, {errc::bad_state, "the request was answered before"});
  }
  pending_->take();
  return connect_operation(*worker, pending_, options);
}

result<ConnectionRequest> ConnectionRequest::hand_over(Worker& to) {
  if (!pending_->is_open()) {
    return failure{errc::bad_state, "the request was answered or handed over before"};
  }
  if (pending_->worker() == nullptr) return failure{errc::shutdown, "the Worker is gone"};
  if (pending_->off_thread()) {
    return pending_->worker()->home().wrong_thread(bound_to_thread);
  }
  result<std::shared_ptr<detail::pending_request>> moved = pending_->hand_over(to.core());
  if (!moved) return moved.why();
  return ConnectionRequest(std::move(*moved));
}

result<void> ConnectionRequest::reject(std::span<const std::byte> private_data) {
  if (pending_->is_taken()) return failure{errc::bad_state, "the request was accepted before"};
  if (pending_->off_thread()) {
    return pending_->worker()->home().wrong_thread(bound_to_thread);
  }
  return pending_->reject(private_data);
}

next_operation::next_operation(detail::listener_core& listener) noexcept
    : operation(listener.home()), listener_(&listener) {}

void next_operation::do_start() noexcept {
  if (listener_->is_closed() || home()->on_owner_thread()) return listener_->next(*this);
  failure_.emplace(home()->wrong_thread("a Listener may only be used on the thread of its Worker"));
  finish();
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
  if (core_->home() != nullptr && !core_->home()->enter()) return;
  core_->shut_down();
}
const transport::address& Listener::bound() const noexcept { return core_->bound(); }

const std::vector<std::pair<transport::kind, failure>>& Listener::missing() const noexcept {
  return core_->missing();
}

std::vector<transport::address> Listener::bound_all() const { return core_->bound_all(); }

}  // namespace cordma
