#include "loopback.hpp"

#include "sample.hpp"

#include <algorithm>

namespace sample {

loopback connect_to_itself(cordma::Worker& worker) {
  loopback both{.near = worker.prepare().value(), .far = worker.prepare().value()};
  connect(both.near, both.far);
  for (const cordma::Endpoint* end : {&both.near, &both.far}) {
    while (end->state() == cordma::endpoint_state::connecting) worker.poll().value();
    if (end->state() != cordma::endpoint_state::connected) cordma::throw_error(*end->first_cause());
  }
  return both;
}

void connect(cordma::Endpoint& one, cordma::Endpoint& other) {
  const std::vector<std::byte> of_one = one.descriptor().value();
  const std::vector<std::byte> of_other = other.descriptor().value();
  one.connect(of_other).value();
  other.connect(of_one).value();
}

blocks::blocks(cordma::Context& context, std::size_t count)
    : count_(count),
      sources_(context.allocate(count * block_bytes).value()),
      room_(context.allocate(count * block_bytes, cordma::access::remote_write).value()),
      target_(cordma::RemoteMemory::import(room_.export_blob().value()).value()) {
  for (std::size_t i = 0; i < count; ++i) put_text(source(i), "block " + std::to_string(i));
}

cordma::RemoteSlice blocks::target(std::size_t i) const {
  return target_.slice(i * block_bytes, block_bytes).value();
}

void blocks::check_first(std::size_t n) const {
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::ranges::equal(source(i).bytes(), room(i).bytes())) {
      fail("block " + std::to_string(i) + " has not arrived as it was");
    }
  }
}

}  // namespace sample
