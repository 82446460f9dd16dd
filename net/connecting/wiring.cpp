// Worker::endpoint(): an Endpoint that exists before its connection.
#include <cordma/net/connecting/wiring.hpp>

#include <cordma/net/connect.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messaging/message_core.hpp>

#include <limits>
#include <memory>
#include <utility>

namespace cordma::detail {
namespace {

// Capabilities of an endpoint before its transport is chosen: two-sided messages and their flush,
// of any size until the actual limits are known.
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

void on_wired(endpoint_core& e) noexcept {
  CORDMA_ASSERT(e.is_unwired());
  CORDMA_ASSERT(e.state() == endpoint_state::connecting || e.state() == endpoint_state::closing);
  const std::unique_ptr<connection_attempt> done = e.take_wiring();
  result<Endpoint> made = static_cast<connect_operation&>(*done).take_result();
  if (made) {
    e.on_wired(made->core());
  } else {
    e.end(made.why());
  }
}

}  // namespace

void start_wiring(endpoint_core& e, worker_core& owner, const std::string& to,
                  const connect_options& options) {
  e.await_wiring(owner, of_the_unwired(), options.endpoint);
  if (options.messages != nullptr) {
    e.carry_later(std::make_unique<early_messages>(e, options.messages->core()));
  }
  auto made = std::make_unique<connect_operation>(owner, to, options);
  connect_operation& connecting = *made;
  e.set_wiring(std::move(made));
  connecting.connect_for(e);
  owner.add(e);
  connecting.start();
  connecting.observe(
      [](operation_base&, void* self) noexcept { on_wired(*static_cast<endpoint_core*>(self)); },
      &e);
}

}  // namespace cordma::detail
