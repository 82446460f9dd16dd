#include "loopback.hpp"

#include "sample.hpp"

#include <algorithm>

namespace sample {

loopback connect_to_itself(cordma::Worker& worker) {
  loopback both{.near = worker.prepare().value(), .far = worker.prepare().value()};
  both.near.connect(both.far.descriptor().value()).value();
  both.far.connect(both.near.descriptor().value()).value();
  for (const cordma::Endpoint* end : {&both.near, &both.far}) {
    while (end->state() == cordma::endpoint_state::connecting) worker.poll().value();
    if (end->state() != cordma::endpoint_state::connected) cordma::throw_error(*end->first_cause());
  }
  return both;
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

void blocks::check_first(std::size_t blocks) const {
  for (std::size_t i = 0; i < blocks; ++i) {
    if (!std::ranges::equal(source(i).bytes(), room(i).bytes())) {
      fail("block " + std::to_string(i) + " has not arrived as it was");
    }
  }
}

}  // namespace sample
