#include <cordma/net/transport/grant.hpp>

#include <algorithm>
#include <string>

namespace cordma::transport {
namespace {

constexpr std::uint8_t most_rnr_retry = 7;  // for ever

std::string services(const capabilities& caps) {
  std::string text;
  for (const service s : {service::rc, service::uc, service::ud}) {
    if (!caps.supports(s, opcode::send)) continue;
    text += (text.empty() ? "" : ", ") + std::string(name(s));
  }
  return text;
}

}  // namespace

result<queue_pair_options> grant(const queue_pair_options& asked, const capabilities& caps) {
  const std::string self(name(caps.transport));
  if (!caps.supports(asked.type, opcode::send)) {
    return failure{errc::not_supported,
                   self + " has no " + std::string(name(asked.type)) + ", only " + services(caps)};
  }
  queue_pair_options granted = asked;
  for (std::uint32_t* const at_least_one :
       {&granted.send_depth, &granted.recv_depth, &granted.max_segments, &granted.read_depth}) {
    *at_least_one = std::max(*at_least_one, 1U);
  }
  struct bound {
    const char* what;
    std::uint32_t value;
    std::uint32_t most;
  };
  for (const bound& b : {bound{"send_depth", granted.send_depth, caps.max_send_depth},
                         bound{"recv_depth", granted.recv_depth, caps.max_recv_depth},
                         bound{"max_segments", granted.max_segments, caps.max_segments},
                         bound{"inline_bytes", granted.inline_bytes, caps.max_inline},
                         bound{"read_depth", granted.read_depth, caps.max_read_depth},
                         bound{"rnr_retry", granted.rnr_retry, most_rnr_retry}}) {
    if (b.value <= b.most) continue;
    return failure{errc::invalid_value, std::string(b.what) + " " + std::to_string(b.value) +
                                            " is more than " + self + " has: at most " +
                                            std::to_string(b.most)};
  }
  return granted;
}

}  // namespace cordma::transport
