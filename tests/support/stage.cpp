#include <support/stage.hpp>
#include <support/toy_transport.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/when_all.hpp>

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace cordma::test {

struct backdrop {
  virtual_clock time;
  std::optional<transport::sim::network> net;
  std::shared_ptr<toy_network> toys;
};

transport::kind transport_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_TRANSPORT");
  const std::string asked = named != nullptr ? named : "shm";
  if (asked == transport::name(transport::kind::test)) return transport::kind::test;
  return parse_transport(asked).value();
}

wait_mode wait_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_WAIT");
  return parse_wait_mode(named != nullptr ? named : "polling").value();
}

std::vector<wait_mode> waits_under_test(std::vector<wait_mode> all) {
  if (std::getenv("CORDMA_TEST_WAIT") == nullptr) return all;
  return {wait_under_test()};
}

std::uint64_t rounds_under_test(std::uint64_t all, std::uint64_t emulated) {
  const std::uint64_t usual = transport_under_test() == transport::kind::verbs ? emulated : all;
  const char* const named = std::getenv("CORDMA_TEST_ROUNDS");
  if (named == nullptr) return usual;
  const std::string asked = named;
  if (asked == "all") return all;
  if (asked == "few") return std::max<std::uint64_t>(usual / 10, 1);
  throw_error({errc::invalid_value, "rounds \"" + asked + "\" are unknown: use all or few"});
}

namespace {

enum class way : std::uint8_t { address, ipv6, descriptor };

way way_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_WAY");
  const std::string asked = named != nullptr ? named : "address";
  if (asked == "address") return way::address;
  if (asked == "ipv6") return way::ipv6;
  if (asked == "descriptor") return way::descriptor;
  throw_error({errc::invalid_value,
               "way to connect \"" + asked + "\" is unknown: use address, ipv6 or descriptor"});
}

}  // namespace

std::string own_host() {
  const bool by_ipv6 = way_under_test() == way::ipv6;
  const char* const named = std::getenv(by_ipv6 ? "RDMA_HOST_SELF_V6" : "RDMA_HOST_SELF");
  const bool loopback = transport_under_test() != transport::kind::verbs || named == nullptr;
  if (by_ipv6) return "[" + std::string(loopback ? "::1" : named) + "]";
  return loopback ? "127.0.0.1" : named;
}

stage::stage(const stage_options& options, transport::kind over)
    : over_(over), behind_(std::make_unique<backdrop>()) {
  reactor_options r;
  r.mode = options.mode;
  r.before_sleep = options.before_sleep;
  r.before_sleep_context = options.before_sleep_context;
  const bool simulated = over == transport::kind::sim;
  if (simulated) r.time = &behind_->time;
  loop_ = std::make_unique<reactor>(r);
  if (simulated) {
    transport::sim::network_options n;
    if (options.most_endpoints != 0) n.max_queue_pairs = options.most_endpoints;
    n.events_with_completions = options.events_with_completions;
    behind_->net.emplace(n, *loop_);
  }
  const bool toy = over == transport::kind::test;
  if (toy) behind_->toys = make_toy_network();
  const auto host = [&](const char* named) {
    context_options c;
    if (toy) {
      c.domains.push_back(make_toy_domain(behind_->toys));
    } else if (simulated) {
      c.domains.push_back(behind_->net->make_domain(named));
      for (std::uint32_t i = 2; i <= options.devices; ++i) {
        const std::string further = std::string(named) + "." + std::to_string(i);
        c.rail_domains.push_back(behind_->net->make_domain(further));
      }
    } else {
      c.transports = {over};
    }
    return c;
  };
  client_context_.emplace(host("client"));
  server_context_.emplace(host("server"));
  client_ = std::make_unique<Worker>(*client_context_, *loop_);
  server_ = std::make_unique<Worker>(*server_context_, *loop_);
}

stage::~stage() = default;

std::string stage::server_address(std::uint16_t port) const {
  return (over_ == transport::kind::sim ? "server" : own_host()) + ":" + std::to_string(port);
}

std::string stage::reach(const Listener& listener) const { return listener.bound().text(); }

transport::sim::network& stage::net() noexcept {
  CORDMA_REQUIRE(behind_->net.has_value());
  return *behind_->net;
}

task<> moment(stage& s) {
  if (s.over() == transport::kind::sim) {
    co_await sleep_for(std::chrono::microseconds(2));
  } else {
    co_await yield();
  }
}

namespace {

task<Endpoint> accept_next(Listener& listener, connect_options options) {
  ConnectionRequest request = co_await listener.next();
  co_return co_await request.accept(options);
}

}  // namespace

task<wire> connect(Worker& client, Listener& listener, std::string address, connect_options to,
                   connect_options accept) {
  // Concurrently: if one of them fails, the other does not wait for it.
  std::tuple<Endpoint, Endpoint> ends =
      co_await when_all(client.connect(std::move(address), to), accept_next(listener, accept));
  co_return wire(std::move(std::get<0>(ends)), std::move(std::get<1>(ends)));
}

namespace {

task<> until_connected(Endpoint& e) {
  while (e.state() == endpoint_state::connecting) co_await e.state_changed();
  if (e.state() != endpoint_state::connected) throw_error(*e.first_cause());
}

}  // namespace

task<wire> connect_by_descriptors(Worker& client, Worker& server, endpoint_options of_client,
                                  endpoint_options of_server, Messages* client_messages,
                                  Messages* server_messages) {
  Endpoint one = client.prepare(of_client, {}, client_messages).value();
  Endpoint other = server.prepare(of_server, {}, server_messages).value();
  const std::vector<std::byte> of_one = one.descriptor().value();
  one.connect(other.descriptor().value()).value();
  other.connect(of_one).value();
  co_await until_connected(one);
  co_await until_connected(other);
  co_return wire(std::move(one), std::move(other));
}

task<wire> connect(stage& s, connect_options to, connect_options accept) {
  if (way_under_test() == way::descriptor) {
    wire made = co_await connect_by_descriptors(s.client(), s.server(), to.endpoint,
                                                accept.endpoint, to.messages, accept.messages);
    co_return made;
  }
  Listener listener = s.server().listen(s.server_address()).value();
  co_return co_await connect(s.client(), listener, s.reach(listener), to, accept);
}

task<wire> connect(stage& s, endpoint_options client, endpoint_options server) {
  connect_options to;
  to.endpoint = client;
  connect_options accept;
  accept.endpoint = server;
  return connect(s, to, accept);
}

MemoryRegion client_memory(stage& s, std::size_t bytes, access rights) {
  return s.client_context().allocate(bytes, rights).value();
}

MemoryRegion server_memory(stage& s, std::size_t bytes, access rights) {
  return s.server_context().allocate(bytes, rights).value();
}

RemoteMemory exported(const MemoryRegion& region) {
  const std::vector<std::byte> blob = region.export_blob().value();
  return RemoteMemory::import(blob).value();
}

transport::remote_keys flipped_keys(const RemoteSlice& known, std::uint64_t bits) {
  const transport::remote_keys& keys = known.keys();
  transport::remote_keys flipped;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    flipped.add(keys.kind_at(i), keys.key_at(i) ^ bits);
  }
  return flipped;
}

namespace {
// Changes with every byte, and has a period far longer than any buffer.
std::byte pattern(std::uint64_t seed, std::size_t i) noexcept {
  const std::uint64_t x = (seed + 1) * 0x9E3779B97F4A7C15ULL + i * 0xD1B54A32D192ED03ULL;
  return static_cast<std::byte>(x >> 56);
}
}  // namespace

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
}

bool filled(std::span<const std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern(seed, i)) return false;
  }
  return true;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace cordma::test
