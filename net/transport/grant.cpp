#include <cordma/net/transport/grant.hpp>
#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <string>

namespace cordma::transport {
namespace {

constexpr std::uint8_t most_rnr_retry = 7;  // retries forever

std::string services(const capabilities& caps) {
  std::string text;
  for (const service s : {service::rc, service::uc, service::ud}) {
    if (!caps.supports(s, opcode::send)) continue;
    text += (text.empty() ? "" : ", ") + std::string(name(s));
  }
  return text;
}

result<void> check_times(const queue_pair_options& asked) {
  constexpr duration none{};
  if (asked.peer_timeout <= none || asked.connect_timeout <= none) {
    return failure{errc::invalid_value,
                   std::string(asked.peer_timeout <= none ? "peer_timeout" : "connect_timeout") +
                       " must be longer than no time; duration::max() is for ever"};
  }
  if (asked.rnr_timer < none) return failure{errc::invalid_value, "rnr_timer is negative"};
  return {};
}

result<void> check_peer(const queue_pair_options& asked, const capabilities& caps) {
  if (asked.peer == peer_kind::cordma || asked.type == service::ud) return {};
  if (!caps.plain_peers) {
    return failure{errc::not_supported, std::string(name(caps.transport)) +
                                            " carries cordma's own connections only: "
                                            "plain peers are reached over verbs"};
  }
  if (asked.type == service::rc) return {};
  return failure{errc::not_supported, "rdma_cm connects plain peers by rc only"};
}

result<void> check_shared(const queue_pair_options& asked, const capabilities& caps) {
  if (asked.shared == nullptr) return {};
  if (!caps.shared_receive_queues) {
    return failure{errc::not_supported, std::string(name(caps.transport)) +
                                            " has no shared receive queues: leave `shared` empty, "
                                            "or connect over another transport"};
  }
  if (asked.type == service::rc) return {};
  return failure{errc::not_supported, "shared receive queues are for rc only"};
}

failure too_much(const char* what, std::uint32_t value, const capabilities& caps,
                 std::uint32_t most) {
  return {errc::invalid_value, std::string(what) + " " + std::to_string(value) + " is more than " +
                                   std::string(name(caps.transport)) + " has: at most " +
                                   std::to_string(most)};
}

// Checks the limits. A value of at most the default is lowered to the capability: programs that
// keep the default do not need the exact number.
result<void> hold_to(const capabilities& caps, queue_pair_options& o) {
  constexpr queue_pair_options usual;
  struct bound {
    const char* what;
    std::uint32_t queue_pair_options::* field;
    std::uint32_t most;
  };
  for (const bound& b :
       {bound{"send_depth", &queue_pair_options::send_depth, caps.max_send_depth},
        bound{"recv_depth", &queue_pair_options::recv_depth, caps.max_recv_depth},
        bound{"max_segments", &queue_pair_options::max_segments, caps.max_segments},
        bound{"inline_bytes", &queue_pair_options::inline_bytes, caps.max_inline},
        bound{"read_depth", &queue_pair_options::read_depth, caps.max_read_depth}}) {
    std::uint32_t& value = o.*b.field;
    if (value <= b.most) continue;
    const bool needs_some = b.field != &queue_pair_options::inline_bytes;
    if (value > usual.*b.field || (needs_some && b.most == 0)) {
      return too_much(b.what, value, caps, b.most);
    }
    value = b.most;
  }
  return {};
}

}  // namespace

result<void> check_rights(access rights) {
  const unsigned unknown = static_cast<unsigned>(rights) & ~unsigned{access_bits};
  if (unknown == 0) return {};
  return failure{errc::invalid_value, "access " + std::to_string(static_cast<unsigned>(rights)) +
                                          " has bits that are no right: combine local_write, "
                                          "remote_read, remote_write, remote_atomic and mw_bind"};
}

result<void> check_memory(const memory_range& range, const capabilities& caps) {
  if (caps.takes(range.memory)) return {};
  return failure{errc::not_supported, std::string(name(caps.transport)) + " takes no " +
                                          std::string(name(range.memory)) +
                                          " memory: the CPU carries its bytes"};
}

result<queue_pair_options> grant(const queue_pair_options& asked, const capabilities& caps) {
  const std::string self(name(caps.transport));
  if (!caps.supports(asked.type, opcode::send)) {
    return failure{errc::not_supported,
                   self + " has no " + std::string(name(asked.type)) + ", only " + services(caps)};
  }
  const result<void> meets = check_peer(asked, caps);
  if (!meets) return meets.why();
  const result<void> sharing = check_shared(asked, caps);
  if (!sharing) return sharing.why();
  const result<void> known = check_rights(asked.remote_access);
  if (!known) return known.why();
  if (has(asked.remote_access, access::mw_bind)) {
    return failure{
        errc::invalid_value,
        "mw_bind is a region's to have: a connection grants remote_read, remote_write and "
        "remote_atomic"};
  }
  const result<void> in_time = check_times(asked);
  if (!in_time) return in_time.why();
  queue_pair_options granted = asked;
  for (std::uint32_t* const at_least_one :
       {&granted.send_depth, &granted.recv_depth, &granted.max_segments, &granted.read_depth}) {
    *at_least_one = std::max(*at_least_one, 1U);
  }
  if (asked.shared != nullptr) granted.recv_depth = 0;
  const result<void> bounded = hold_to(caps, granted);
  if (!bounded) return bounded.why();
  if (granted.rnr_retry > most_rnr_retry) {
    return too_much("rnr_retry", granted.rnr_retry, caps, most_rnr_retry);
  }
  CORDMA_ASSERT_OP(granted.send_depth - 1, <, caps.max_send_depth);
  CORDMA_ASSERT_OP(granted.max_segments - 1, <, caps.max_segments);
  CORDMA_ASSERT_OP(granted.read_depth - 1, <, caps.max_read_depth);
  CORDMA_ASSERT_OP(granted.recv_depth, <=, caps.max_recv_depth);
  CORDMA_ASSERT_OP(granted.recv_depth == 0, ==, granted.shared != nullptr);
  CORDMA_ASSERT_OP(granted.inline_bytes, <=, caps.max_inline);
  return granted;
}

}  // namespace cordma::transport
