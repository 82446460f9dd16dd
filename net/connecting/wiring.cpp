// Worker::endpoint(): an Endpoint that is there before its connection.
#include <cordma/net/connect.hpp>
#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/rpc/request_core.hpp>
#include <cordma/net/datapath/worker_core.hpp>

#include <limits>

namespace cordma::detail {
namespace {

// What an endpoint can do whose transport is not chosen yet: two-sided messages and their flush, of
// any size until the real limits are known.
const transport::capabilities& of_the_unwired() noexcept {
  static const transport::capabilities caps = [] {
    transport::capabilities c;
    c.transport = transport::kind::verbs;
    for (std::uint32_t& bits : c.operations) {
      for (const transport::opcode op :
           {transport::opcode::send, transport::opcode::send_imm, transport::opcode::flush}) {
        bits |= 1U << static_cast<unsigned>(op);
      }
    }
    c.max_message = std::numeric_limits<decltype(c.max_message)>::max();
    return c;
  }();
  return caps;
}

}  // namespace

result<Endpoint> worker_core::endpoint(const std::string& to, const connect_options& options) {
  auto e = std::make_unique<endpoint_core>();
  e->start_wiring(*this, to, options);
  return Endpoint(std::move(e));
}

void endpoint_core::start_wiring(worker_core& owner, const std::string& to,
                                 const connect_options& options) {
  worker = &owner;
  home = &owner.home();
  context = owner.shared_context();
  caps = &of_the_unwired();
  kind = static_cast<std::size_t>(caps->transport);
  plain_needs = post_base::aside::keys;
  granted = options.endpoint;
  granted.send_depth = granted.recv_depth = 0;  // no place in any queue: everything waits
  reason = "not connected yet";
  if (options.messages != nullptr) {
    early = std::make_unique<early_messages>(*this, options.messages->core());
  }
  wiring = std::make_unique<connect_operation>(owner, to, options);
  wiring->connect_for(*this);
  owner.add(*this);
  wiring->start();
  wiring->observe(
      [](operation_base&, void* self) noexcept { static_cast<endpoint_core*>(self)->on_wired(); },
      this);
}

void endpoint_core::on_wired() noexcept {
  const std::unique_ptr<connect_operation> done = std::move(wiring);
  result<Endpoint> made = done->take_result();
  if (!made) {
    end(made.why());
    return;
  }
  const bool closing = state == endpoint_state::closing;
  take_over(made->core());
  if (state == endpoint_state::closed) return;
  if (!closing) set_state(endpoint_state::connected);
  state = endpoint_state::connected;
  start_waiting();
  if (!closing || state != endpoint_state::connected) return;
  state = endpoint_state::closing;
  refresh_open();
  begin_close();
}

// Nothing has been posted on it: no slot knows the one that goes.
void endpoint_core::take_over(endpoint_core& made) noexcept {
  if (made.state == endpoint_state::closed) {
    end(*made.cause);
    return;
  }
  pair = std::move(made.pair);
  pair->user = this;
  via = made.via;
  caps = made.caps;
  kind = made.kind;
  plain_needs = made.plain_needs;
  shared = std::move(made.shared);
  if (shared != nullptr) shared->core = this;
  peer = std::move(made.peer);
  if (peer != nullptr) peer->endpoint = this;
  frame_sends = made.frame_sends;
  frames_in_flight = std::exchange(made.frames_in_flight, 0);
  granted = made.granted;
  send_credits = made.send_credits;
  recv_credits = made.recv_credits;
  reserved_slots = std::exchange(made.reserved_slots, 0);
  counted = std::exchange(made.counted, false);
  reason = std::move(made.reason);
  peer_data = std::move(made.peer_data);
  if (!made.ending.linked()) return;
  made.ending.unlink();
  blame(*made.cause);
  via->end_later(*this);
}

// In their order, and checked again: now the limits are known.
void endpoint_core::start_waiting() noexcept {
  const bool fence = std::exchange(fence_next, false);
  list<post_base> first;
  for (list<post_base>* waiting : {&waiting_recvs, &waiting_sends}) {
    first.splice_back(*waiting);
    while (!first.empty()) first.pop_front().do_start();
  }
  fence_next = fence;
  refresh_open();
  if (early == nullptr) return;
  const std::unique_ptr<early_messages> messages = std::move(early);
  messages->start_all();
}

message_core* endpoint_core::messages() const noexcept {
  if (early != nullptr) return early->core;
  return peer != nullptr && peer->port != nullptr ? peer->port->core : nullptr;
}

early_messages::early_messages(endpoint_core& of, message_core& with) : endpoint(&of), core(&with) {
  with.unwired.push_back(*this);
}

early_messages::~early_messages() = default;

void early_messages::send(message_send& op) noexcept {
  if (core == nullptr) return op.fail({errc::shutdown, "its Messages are gone"});
  if (std::optional<failure> ended = endpoint->why_not(op.op_name())) {
    return op.fail(std::move(*ended));
  }
  ++endpoint->counters.waited;
  op.set_phase(operation_base::phase::queued);
  sends.push_back(op);
}

void early_messages::start(request_call& op) noexcept {
  op.set_phase(operation_base::phase::queued);
  calls.push_back(op);
}

void early_messages::start_all() noexcept {
  while (!sends.empty()) endpoint->peer->send(sends.pop_front());
  while (!calls.empty()) calls.pop_front().go();
}

void early_messages::on_end() noexcept {
  while (!sends.empty()) {
    message_send& op = sends.pop_front();
    op.fail(endpoint->flushed(op.op_name()));
  }
  while (!calls.empty()) {
    request_call& op = calls.pop_front();
    op.fail(endpoint->flushed(op.op_name()));
  }
  if (core != nullptr) core->end_receives_from(*endpoint, endpoint->flushed("tag_recv"));
}

void early_messages::on_messages_gone() noexcept {
  unlink();
  core = nullptr;
  endpoint->end({errc::shutdown, "its Messages are gone"});
  endpoint->wiring.reset();
}

void early_messages::on_requests_gone(const request_core& gone) noexcept {
  calls.for_each([&gone](request_call& op) {
    if (op.core_ != &gone) return;
    op.unlink();
    op.fail({errc::shutdown, "its Requests are gone"});
  });
}

void worker_core::drop_wirings() {
  std::vector<std::unique_ptr<connect_operation>> all;
  endpoints_.for_each([&all](endpoint_core& e) {
    if (e.wiring != nullptr) all.push_back(std::move(e.wiring));
  });
}

}  // namespace cordma::detail
