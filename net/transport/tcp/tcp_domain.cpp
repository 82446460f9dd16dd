#include <sys/epoll.h>

#include <cerrno>
#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/tcp/incoming.hpp>
#include <cordma/net/transport/tcp/segments.hpp>
#include <cordma/net/transport/tcp/tcp_adapter.hpp>

namespace cordma::transport::tcp {
namespace {

constexpr std::uint32_t most_inline = 256;  // bytes
constexpr std::uint32_t most_queue_pairs = 1U << 20;
constexpr std::uint32_t most_shared_depth = 1U << 16;

capabilities describe() {
  capabilities c;
  c.transport = kind::tcp;
  for (opcode op : {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm, opcode::read,
                    opcode::fetch_add, opcode::compare_swap, opcode::flush, opcode::recv,
                    opcode::recv_write_imm, opcode::bind, opcode::send_invalidate}) {
    c.operations[static_cast<std::size_t>(service::rc)] |= 1U << static_cast<unsigned>(op);
  }
  c.max_send_depth = most_depth;
  c.max_recv_depth = most_depth;
  c.max_segments = most_segments;
  c.max_inline = most_inline;
  c.max_read_depth = most_reads;
  c.max_queue_pairs = most_queue_pairs;
  c.max_shared_depth = most_shared_depth;
  c.eager_bytes = 130U << 10;
  c.max_message = most_message;
  c.max_connect_data = most_request_data;
  c.max_accept_data = most_accept_data;
  c.event_driven = true;
  c.needs_target_progress = true;
  c.whole_words = true;
  c.ordered_path = true;
  c.atomic_with_cpu = true;
  c.every_address = true;
  c.shared_receive_queues = true;
  c.in_place = true;
  return c;
}

}  // namespace

tcp_domain::tcp_domain(const tcp_options& options) : caps_(describe()), options_(options) {}
tcp_domain::~tcp_domain() = default;

result<memory_keys> tcp_domain::register_memory(const memory_range& range) {
  const result<void> taken = check_memory(range, caps_);
  return taken ? regions_.add(range) : taken.why();
}

result<std::unique_ptr<adapter>> tcp_domain::open(reactor& home) {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return descriptor_limit(errno, "opening a tcp adapter");
  return std::unique_ptr<adapter>(
      std::make_unique<tcp_adapter>(shared_from_this(), home, std::move(epoll)));
}

}  // namespace cordma::transport::tcp

namespace cordma::transport {

result<std::shared_ptr<domain>> make_tcp(const tcp_options& options) {
  if (options.backlog < 1) return failure{errc::invalid_value, "tcp: the backlog must be positive"};
  return std::shared_ptr<domain>(std::make_shared<tcp::tcp_domain>(options));
}

}  // namespace cordma::transport
