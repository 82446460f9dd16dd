#include <cordma/net/datagram.hpp>

#include <cordma/net/address.hpp>
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <new>
#include <string>

namespace cordma {

using transport::opcode;

namespace detail {

datagram_base::datagram_base(endpoint_core& endpoint, opcode op,
                             const transport::datagram_peer& peer) noexcept
    : post_base(endpoint, op, aside::peer), peer_(peer) {}

}  // namespace detail

DatagramEndpoint::DatagramEndpoint() noexcept = default;
DatagramEndpoint::DatagramEndpoint(std::unique_ptr<detail::endpoint_core> core) noexcept
    : core_(std::move(core)) {}
DatagramEndpoint::DatagramEndpoint(DatagramEndpoint&&) noexcept = default;

DatagramEndpoint& DatagramEndpoint::operator=(DatagramEndpoint&& other) noexcept {
  if (this != &other) {
    DatagramEndpoint old(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

DatagramEndpoint::~DatagramEndpoint() {
  if (core_ == nullptr || core_->worker() == nullptr) return;
  core_->worker()->enter_to_destroy();
  core_->worker()->bury(std::move(core_));
}

namespace {

constexpr const char* bound_to_thread = "a port may only be used on the thread of its Worker";

result<void> is_usable(const detail::endpoint_core& e) noexcept {
  if (e.pair() == nullptr || e.state() == endpoint_state::closed) return errc::bad_state;
  if (!e.home()->on_owner_thread()) return e.home()->wrong_thread(bound_to_thread);
  return {};
}

datagram_send_operation outgoing(detail::endpoint_core& e, opcode op, const datagram_peer& peer,
                                 const Slice& message) noexcept {
  datagram_send_operation sending(e, op, peer);
  if (peer.address_length == 0) {
    sending.refuse(failure::of(errc::invalid_value,
                               {"a datagram_peer that names no port: take one from self(), "
                                "group(), resolve() or a datagram that came"}));
  } else if (message.size() > e.caps().max_datagram) {
    sending.refuse(
        failure::of(errc::invalid_value,
                    {message.size(), " bytes, the longest datagram is ", e.caps().max_datagram}));
  } else {
    sending.add(message);
  }
  return sending;
}

}  // namespace

result<datagram_peer> DatagramEndpoint::self() const {
  const result<void> usable = is_usable(*core_);
  if (!usable) return usable.why();
  return core_->pair()->self();
}

datagram_send_operation DatagramEndpoint::send_to(const datagram_peer& peer,
                                                  const Slice& message) noexcept {
  return outgoing(*core_, opcode::send, peer, message);
}

datagram_send_operation DatagramEndpoint::send_imm_to(const datagram_peer& peer,
                                                      const Slice& message,
                                                      std::uint32_t imm) noexcept {
  datagram_send_operation op = outgoing(*core_, opcode::send_imm, peer, message);
  op.set_imm(imm);
  return op;
}

datagram_recv_operation DatagramEndpoint::recv_from(const Slice& into) noexcept {
  datagram_recv_operation op(*core_, opcode::recv, datagram_peer{});
  op.add(into);
  return op;
}

result<datagram_peer> DatagramEndpoint::group(const transport::address& name) const {
  const result<void> usable = is_usable(*core_);
  if (!usable) return usable.why();
  return core_->pair()->group(name);
}

result<void> DatagramEndpoint::join(const transport::address& group) {
  const result<void> usable = is_usable(*core_);
  return usable ? core_->pair()->join(group) : usable;
}

result<void> DatagramEndpoint::leave(const transport::address& group) {
  const result<void> usable = is_usable(*core_);
  return usable ? core_->pair()->leave(group) : usable;
}

result<transport::address> DatagramEndpoint::bind(std::string_view where) {
  const result<void> usable = is_usable(*core_);
  if (!usable) return usable.why();
  const result<transport::address> parsed = parse_address(where);
  return parsed ? core_->pair()->bind(*parsed) : parsed;
}

resolve_operation DatagramEndpoint::resolve(std::string to) {
  return resolve_operation(*core_, std::move(to));
}

state_operation DatagramEndpoint::close() noexcept {
  return state_operation(*core_, state_operation::kind::close);
}

endpoint_state DatagramEndpoint::state() const noexcept { return core_->state(); }
std::size_t DatagramEndpoint::max_datagram() const noexcept { return core_->caps().max_datagram; }
const endpoint_options& DatagramEndpoint::actual() const noexcept { return core_->granted(); }
transport::kind DatagramEndpoint::transport() const noexcept { return core_->caps().transport; }
std::size_t DatagramEndpoint::inflight() const noexcept { return core_->inflight(); }
endpoint_counters DatagramEndpoint::counters() const noexcept { return core_->counters(); }

// ---- resolve_operation ----

resolve_operation::resolve_operation(detail::endpoint_core& endpoint, std::string to)
    : operation(endpoint.home()), endpoint_(&endpoint), to_(std::move(to)) {}

resolve_operation::~resolve_operation() {
  if (state() != phase::queued) return;
  CORDMA_ASSERT(linked() && endpoint_->pair() != nullptr);
  endpoint_->pair()->forget(request_);
}

failure resolve_operation::obstacle() const noexcept {
  if (endpoint_->worker() == nullptr) return {errc::shutdown, "its Worker is gone"};
  if (!endpoint_->home()->on_owner_thread()) {
    return endpoint_->home()->wrong_thread(bound_to_thread);
  }
  if (endpoint_->state() != endpoint_state::connected) {
    return {errc::not_connected, "the port is closed, or closing"};
  }
  return errc::ok;
}

void resolve_operation::do_start() noexcept {
  failure why = obstacle();
  if (why.code() != errc::ok) return fail(std::move(why));
  try {
    ask();
  } catch (const std::bad_alloc&) {
    fail(errc::no_memory);
  }
}

void resolve_operation::ask() {
  const cordma::result<transport::address> at = parse_address(to_);
  if (!at) return fail(at.why());
  const cordma::result<std::uint64_t> request = endpoint_->pair()->resolve(*at);
  if (!request) return fail(request.why());
  request_ = *request;
  set_phase(phase::queued);
  endpoint_->wait(*this);
}

void resolve_operation::do_cancel() noexcept {
  endpoint_->pair()->forget(request_);
  unlink();
  fail(errc::canceled);
}

void resolve_operation::on_resolved(const transport::cm_event& event) noexcept {
  CORDMA_ASSERT_OP(state(), ==, phase::queued);
  if (event.why.code() != errc::ok) return fail(event.why);
  CORDMA_ASSERT_OP(event.port.address_length, >, 0);
  found_ = event.port;
  finish();
}

void resolve_operation::fail(failure why) noexcept {
  failure_ = std::move(why.with_operation("resolve"));
  finish();
}

}  // namespace cordma
