#include <sys/epoll.h>

#include <bit>
#include <cerrno>
#include <cordma/net/transport/tcp/adapter.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <string>

namespace cordma::transport::tcp {
namespace {

constexpr std::uint32_t most_segments = 8;
constexpr std::uint32_t most_inline = 256;  // bytes
constexpr std::uint32_t most_queue_pairs = 1U << 20;

capabilities describe() {
  capabilities c;
  c.transport = kind::tcp;
  for (opcode op : {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm, opcode::read,
                    opcode::fetch_add, opcode::compare_swap, opcode::flush, opcode::recv,
                    opcode::recv_write_imm}) {
    c.operations[static_cast<std::size_t>(service::rc)] |= 1U << static_cast<unsigned>(op);
  }
  c.max_send_depth = most_depth;
  c.max_recv_depth = most_depth;
  c.max_segments = most_segments;
  c.max_inline = most_inline;
  c.max_read_depth = most_reads;
  c.max_queue_pairs = most_queue_pairs;
  c.max_message = most_message;
  c.max_connect_data = most_request_data;
  c.max_accept_data = most_accept_data;
  c.event_driven = true;
  c.needs_target_progress = true;
  return c;
}

failure beyond(const char* what, std::uint64_t asked, std::uint64_t most) {
  return failure{errc::invalid_value, std::string(what) + " " + std::to_string(asked) +
                                          " is more than tcp has: at most " + std::to_string(most)};
}

}  // namespace

tcp_domain::tcp_domain(const tcp_options& options) : caps_(describe()), options_(options) {}
tcp_domain::~tcp_domain() = default;

result<queue_pair_options> tcp_domain::grant(const queue_pair_options& asked) const {
  if (asked.type != service::rc) {
    return failure{errc::not_supported,
                   "tcp has reliable connections (rc) only, no " + std::string(name(asked.type))};
  }
  if (asked.send_depth > most_depth) return beyond("send_depth", asked.send_depth, most_depth);
  if (asked.recv_depth > most_depth) return beyond("recv_depth", asked.recv_depth, most_depth);
  if (asked.max_segments > most_segments) {
    return beyond("max_segments", asked.max_segments, most_segments);
  }
  if (asked.inline_bytes > most_inline) {
    return beyond("inline_bytes", asked.inline_bytes, most_inline);
  }
  if (asked.read_depth > most_reads) return beyond("read_depth", asked.read_depth, most_reads);
  if (asked.rnr_retry > 7) return beyond("rnr_retry", asked.rnr_retry, 7);
  queue_pair_options granted = asked;
  granted.send_depth = std::bit_ceil(std::max(asked.send_depth, 1U));
  granted.recv_depth = std::bit_ceil(std::max(asked.recv_depth, 1U));
  granted.max_segments = std::max(asked.max_segments, 1U);
  granted.read_depth = std::max(asked.read_depth, 1U);
  return granted;
}

result<std::unique_ptr<adapter>> tcp_domain::open(reactor& home) {
  socket_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return descriptor_limit(errno, "opening a tcp adapter");
  return std::unique_ptr<adapter>(
      std::make_unique<tcp_adapter>(shared_from_this(), home, std::move(epoll)));
}

void tcp_domain::leave(std::uint64_t request, std::unique_ptr<incoming> what) {
  const std::lock_guard lock(mutex_);
  in_transit_.emplace(request, std::move(what));
}

std::unique_ptr<incoming> tcp_domain::collect(std::uint64_t request) {
  const std::lock_guard lock(mutex_);
  const auto at = in_transit_.find(request);
  if (at == in_transit_.end()) return nullptr;
  std::unique_ptr<incoming> found = std::move(at->second);
  in_transit_.erase(at);
  return found;
}

}  // namespace cordma::transport::tcp

namespace cordma::transport {

result<std::shared_ptr<domain>> make_tcp(const tcp_options& options) {
  if (options.backlog < 1) return failure{errc::invalid_value, "tcp: the backlog must be positive"};
  return std::shared_ptr<domain>(std::make_shared<tcp::tcp_domain>(options));
}

}  // namespace cordma::transport
