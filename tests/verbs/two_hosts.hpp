// Two machines that run the same test at the same time, as the server on b and the client on a:
// rendezvous points, and faults of the wire between them. Run by tests/soft-roce/run.sh --hosts 2.
#pragma once

#include <support/stage.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace cordma::test {

// A variable that tests/soft-roce/run.sh sets; without it the test fails with a message.
[[nodiscard]] std::string named(const char* variable);
[[nodiscard]] bool on_server();

// Runs a command, which must succeed; returns its output.
std::string shell(const std::string& command);
// The name, prefixed with the case and its round: unique in a boot if it is unique in the case.
[[nodiscard]] std::string name_in_case(const std::string& name);
// Waits until the other host has arrived as well. Use each name once in a case.
void meet_at(const std::string& name);
// A counter of the RDMA device: "out_of_seq_request".
[[nodiscard]] std::uint64_t device_counter(const std::string& name);

// Applies a rule of tc-netem(8) to the packets that this host sends, during its lifetime.
class netem {
 public:
  explicit netem(const std::string& rule);
  netem(const netem&) = delete;
  netem& operator=(const netem&) = delete;
  ~netem();
  // Number of this host's packets that it has dropped so far.
  [[nodiscard]] std::uint64_t dropped() const;
};

// This host's side: a Context, with verbs alone by default, and a Worker. On two emulated
// processors a polling Worker leaves little time for the kernel's half of the device.
struct side {
  explicit side(transport::verbs_options verbs = {}) : side(only_verbs(std::move(verbs))) {}
  explicit side(const context_options& of)
      : context(of), worker(context, reactor_options{.mode = wait_mode::event}) {}
  [[nodiscard]] static context_options only_verbs(transport::verbs_options verbs);
  [[nodiscard]] MemoryRegion memory(std::size_t bytes) {
    return context.allocate(bytes, every_right).value();
  }
  Context context;
  Worker worker;
};

// Connects both hosts; the server listens on `port`.
[[nodiscard]] task<Endpoint> meet(side* here, std::uint16_t port, connect_options options);
[[nodiscard]] inline task<Endpoint> meet(side* here, std::uint16_t port, endpoint_options options) {
  connect_options o;
  o.endpoint = options;
  return meet(here, port, o);
}
// A peer_timeout for the host that takes its own link down. A probe without a link ends the connection, and rdma_cm may
// stay broken there: the next connect times out after 30 s. With this timeout the first probe comes after 26 s of
// silence. An outage of one second may take 3 s on a busy machine.
inline constexpr std::chrono::seconds outage_timeout{60};
// Takes this host's link down for a second.
[[nodiscard]] task<> go_down_and_up();
// Each side sends the complete slice `out`, and receives as many bytes into `in`.
[[nodiscard]] task<> swap(Endpoint* e, Slice out, Slice in);
// Exchanges descriptions of memory: sends this side's, returns the other side's.
[[nodiscard]] task<RemoteMemory> swap_blobs(side* here, Endpoint* e, MemoryRegion offered);
// Waits until the connection has ended.
[[nodiscard]] task<> await_end(Endpoint* e);

}  // namespace cordma::test
