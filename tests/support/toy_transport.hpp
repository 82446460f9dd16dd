// A minimal transport for tests (transport::kind::test). Its hosts live in one process and on one
// thread. It has one service, rc, and no wait fd: Workers poll. Requests are executed one after the
// other, in the poll() of the side that posted them.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <memory>

namespace cordma::test {

// Hosts that reach each other. Bound to one thread.
class toy_network;
[[nodiscard]] std::shared_ptr<toy_network> make_toy_network();

// Its default capabilities.
[[nodiscard]] transport::capabilities toy_abilities();

// A host, for context_options::domains. It claims `abilities`, to test code that depends on them.
// An address is any name and a port.
[[nodiscard]] std::shared_ptr<transport::domain> make_toy_domain(
    std::shared_ptr<toy_network> net, const transport::capabilities& abilities = toy_abilities());

}  // namespace cordma::test
