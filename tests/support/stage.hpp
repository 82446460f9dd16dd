// Two hosts with a Worker each, on one reactor, over the transport under test: used by most tests
// of net/. On sim the hosts are simulated and time is virtual; `test` is the toy of
// toy_transport.hpp.
#pragma once

#include <cordma/cordma.hpp>
#include <cordma/runtime/sleep.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cordma::transport::sim {
class network;
}

namespace cordma::test {

// The transport that CORDMA_TEST_TRANSPORT names; shm if it is not set.
[[nodiscard]] transport::kind transport_under_test();

// Wait mode of Workers in tests that do not choose it, from CORDMA_TEST_WAIT; polling if it is not
// set.
[[nodiscard]] wait_mode wait_under_test();

// The modes that a case runs in: all of them, or only CORDMA_TEST_WAIT if it is set.
[[nodiscard]] std::vector<wait_mode> waits_under_test(std::vector<wait_mode> all);

// Number of repetitions of a case that runs `all` in its full length. On verbs it is `emulated`,
// since devices are tested in an emulated machine. CORDMA_TEST_ROUNDS overrides this: "all" is
// `all` everywhere, "few" a tenth of the usual number.
[[nodiscard]] std::uint64_t rounds_under_test(std::uint64_t all, std::uint64_t emulated);
[[nodiscard]] inline std::uint64_t rounds_under_test(std::uint64_t all) {
  return rounds_under_test(all, all);
}

// An address of this host that the transport under test reaches: loopback, or on verbs the RDMA
// device's address, from RDMA_HOST_SELF. If CORDMA_TEST_WAY requests IPv6 it is RDMA_HOST_SELF_V6.
[[nodiscard]] std::string own_host();

// Objects of a separate process or thread: one Context, one Worker.
struct host {
  explicit host(const reactor_options& options = {.mode = wait_under_test()})
      : context(only()), worker(context, options) {}
  explicit host(wait_mode mode) : host(reactor_options{.mode = mode}) {}
  static context_options only() {
    context_options o;
    o.transports = {transport_under_test()};
    return o;
  }
  Context context;
  Worker worker;
};

struct stage_options {
  wait_mode mode = wait_under_test();
  void (*before_sleep)(void*) noexcept = nullptr;
  void* before_sleep_context = nullptr;
  std::uint32_t most_endpoints = 0;      // of a simulated adapter; 0: its default
  std::uint32_t devices = 1;             // of each side, simulated: "client", "client.2" ...
  bool events_with_completions = false;  // simulated: reported in one poll
};

// State that only the chosen transport needs: nothing, or a simulated network.
struct backdrop;

class stage {
 public:
  explicit stage(const stage_options& options = {}, transport::kind over = transport_under_test());
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;
  ~stage();

  [[nodiscard]] transport::kind over() const noexcept { return over_; }
  [[nodiscard]] reactor& loop() noexcept { return *loop_; }
  [[nodiscard]] Context& client_context() noexcept { return *client_context_; }
  [[nodiscard]] Context& server_context() noexcept { return *server_context_; }
  [[nodiscard]] Worker& client() noexcept { return *client_; }
  [[nodiscard]] Worker& server() noexcept { return *server_; }
  [[nodiscard]] const transport::capabilities& caps() const noexcept {
    return *client_context_->find(over_);
  }
  // Address for the server to listen on: "host:0".
  [[nodiscard]] std::string server_address(std::uint16_t port = 0) const;
  // Address at which the listening server is reached.
  [[nodiscard]] std::string reach(const Listener& listener) const;

  // REQUIRES sim.
  [[nodiscard]] transport::sim::network& net() noexcept;

  // Runs a coroutine lambda without captures to its end.
  template <class Story, class... Args>
  auto play(Story story, Args... args) {
    return cordma::run(*loop_, story(*this, args...));
  }

  void drop_client() { client_.reset(); }
  void drop_server() { server_.reset(); }
  void drop_contexts() {
    client_context_.reset();
    server_context_.reset();
  }

 private:
  transport::kind over_;
  std::unique_ptr<backdrop> behind_;
  std::unique_ptr<reactor> loop_;
  std::optional<Context> client_context_;
  std::optional<Context> server_context_;
  std::unique_ptr<Worker> client_;
  std::unique_ptr<Worker> server_;
};

// A connection: its two ends.
class wire {
 public:
  wire(Endpoint c, Endpoint s) noexcept : client(std::move(c)), server(std::move(s)) {}
  Endpoint client;
  Endpoint server;
};
// Connects as CORDMA_TEST_WAY states: by "address", the default, "ipv6" or "descriptor".
[[nodiscard]] task<wire> connect(stage& s, endpoint_options client = {},
                                 endpoint_options server = {});
// With descriptors only `endpoint` and `messages` of the options are used.
[[nodiscard]] task<wire> connect(stage& s, connect_options to, connect_options accept);

// Connects by address, on a reactor of the caller: `client` connects to `address`, where `listener`
// listens.
[[nodiscard]] task<wire> connect(Worker& client, Listener& listener, std::string address,
                                 connect_options to = {}, connect_options accept = {});

// Connects by descriptors, which the two sides exchange; with the Messages of each side if given.
[[nodiscard]] task<wire> connect_by_descriptors(Worker& client, Worker& server,
                                                endpoint_options of_client = {},
                                                endpoint_options of_server = {},
                                                Messages* client_messages = nullptr,
                                                Messages* server_messages = nullptr);

// Lets other coroutines run, and virtual time pass: for loops that wait for a condition.
[[nodiscard]] task<> moment(stage& s);

// Registered memory on each side, with every right by default.
inline constexpr access every_right = access::local_write | transport::all_remote;
[[nodiscard]] MemoryRegion client_memory(stage& s, std::size_t bytes, access rights = every_right);
[[nodiscard]] MemoryRegion server_memory(stage& s, std::size_t bytes, access rights = every_right);
// The region as the other side imports it.
[[nodiscard]] RemoteMemory exported(const MemoryRegion& region);
// Invalid keys: those of `known`, each with these bits flipped.
[[nodiscard]] transport::remote_keys flipped_keys(const RemoteSlice& known, std::uint64_t bits);

// Bytes that identify their position: a function of `seed` and of the index.
void fill(std::span<std::byte> bytes, std::uint64_t seed);
[[nodiscard]] bool filled(std::span<const std::byte> bytes, std::uint64_t seed);
[[nodiscard]] bool all_zero(std::span<const std::byte> bytes);

// xorshift64*: a sequence that a seed replays.
class dice {
 public:
  explicit dice(std::uint64_t seed) noexcept : state_(seed * 2 + 1) {}
  [[nodiscard]] std::uint64_t next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DULL;
  }
  // 0 ... bound - 1
  [[nodiscard]] std::size_t below(std::size_t bound) noexcept { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace cordma::test
