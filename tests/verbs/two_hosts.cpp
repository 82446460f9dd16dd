#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace cordma::test {

std::string named(const char* variable) {
  const char* const value = std::getenv(variable);
  REQUIRE_MESSAGE(value != nullptr, std::string(variable),
                  " is not set: run it by tests/soft-roce/run.sh");
  return value;
}

bool on_server() { return named("RDMA_HOST_NAME") == "b"; }

std::string shell(const std::string& command) {
  FILE* const running = ::popen(command.c_str(), "r");
  REQUIRE(running != nullptr);
  std::array<char, 256> part{};
  std::string all;
  while (std::fgets(part.data(), part.size(), running) != nullptr) all += part.data();
  const int status = ::pclose(running);
  REQUIRE_MESSAGE(status == 0, command, " ended with ", status, ": ", all);
  return all;
}

std::string name_in_case(const std::string& name) { return named("TWO_HOSTS_CASE") + "-" + name; }

void meet_at(const std::string& name) { shell("barrier " + name_in_case(name)); }

std::uint64_t device_counter(const std::string& name) {
  return std::stoull(shell("rdma-counter " + name));
}

netem::netem(const std::string& rule) {
  shell("tc qdisc replace dev " + named("RDMA_NETDEV") + " root netem limit 100000 " + rule);
}

netem::~netem() {
  static_cast<void>(
      std::system(("tc qdisc del dev " + named("RDMA_NETDEV") + " root 2> /dev/null").c_str()));
}

std::uint64_t netem::dropped() const {
  const std::string told = shell("tc -s qdisc show dev " + named("RDMA_NETDEV"));
  const std::string before = "(dropped ";
  const std::size_t at = told.find(before);
  REQUIRE(at != std::string::npos);
  return std::stoull(told.substr(at + before.size()));
}

context_options side::only_verbs(transport::verbs_options verbs) {
  context_options o;
  o.transports = {transport::kind::verbs};
  o.verbs = std::move(verbs);
  return o;
}

task<Endpoint> meet(side* here, std::uint16_t port, connect_options o) {
  // A lost request is sent again after four seconds.
  o.endpoint.connect_timeout = std::chrono::seconds(30);
  const std::string at = ":" + std::to_string(port);
  if (on_server()) {
    Listener listener = here->worker.listen(named("RDMA_HOST_SELF") + at).value();
    ConnectionRequest request = co_await listener.next();
    Endpoint accepted = co_await request.accept(o);
    co_return accepted;
  }
  const std::string server = named("RDMA_HOST_PEER") + at;
  for (;;) {  // it may not listen yet
    connect_operation connecting = here->worker.connect(server, o).start();
    result<Endpoint> r = co_await connecting.result();
    if (r.ok()) co_return std::move(*r);
    CAPTURE(r.why().message());
    REQUIRE(r.code() == errc::unreachable);
    co_await sleep_for(std::chrono::milliseconds(50));
  }
}

namespace {

void set_link(const char* state) { shell("ip link set " + named("RDMA_NETDEV") + " " + state); }

// Takes the link of this host down. The destructor brings it up, also for the cases after a failed
// one.
struct no_link {
  no_link() { set_link("down"); }
  no_link(const no_link&) = delete;
  no_link& operator=(const no_link&) = delete;
  ~no_link() { set_link("up"); }
};

}  // namespace

task<> go_down_and_up() {
  const no_link down;
  co_await sleep_for(std::chrono::seconds(1));
}

task<> swap(Endpoint* e, Slice out, Slice in) {
  recv_operation receiving = e->recv(in).start();
  co_await e->send(out);
  const Received got = co_await receiving;
  REQUIRE(got.bytes == in.size());
}

task<RemoteMemory> swap_blobs(side* here, Endpoint* e, MemoryRegion offered) {
  constexpr std::size_t bytes = RemoteMemory::blob_bytes;
  MemoryRegion room = here->memory(2 * bytes);
  const std::vector<std::byte> blob = offered.export_blob().value();
  std::copy(blob.begin(), blob.end(), room.bytes().begin());
  const Slice out = room.all().first(bytes);
  const Slice in = room.all().part(bytes, bytes);
  co_await swap(e, out, in);
  RemoteMemory theirs = RemoteMemory::import(in.bytes()).value();
  co_return theirs;
}

task<> await_end(Endpoint* e) {
  while (e->state() != endpoint_state::closed) co_await e->state_changed();
}

}  // namespace cordma::test
