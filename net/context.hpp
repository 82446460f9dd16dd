// Context: the transports of this machine and the memory registered with them.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/config.hpp>
#include <cordma/runtime/result.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cordma {

namespace detail {
struct context_core;
}

// Kind and device of a program's memory, for Context::register_memory().
struct memory_place {
  memory_kind kind = memory_kind::host;
  // Device that owns the memory, as the program numbers its devices; host: 0.
  std::uint16_t device = 0;
};

// A field that is not assigned here may be set by the environment (CORDMA_SHM_RING_BYTES for
// shm.ring_bytes, and so on) or, with lower priority, by the JSON file that CORDMA_CONFIG names;
// see configuration(). An assigned field wins over both, even if the value assigned is the default.
struct context_options {
  // The transports to use, in order of preference. Empty: CORDMA_TRANSPORT (a list such as
  // "shm,tcp"), else all that this machine has: shm, verbs, tcp. The constructor fails if a
  // transport is unavailable that is named here, or one with explicit settings (shm.directory) that
  // is unavailable with them. A transport of the default list that is unavailable, or that this
  // user may not use, is left out; configuration_warnings() reports this.
  std::vector<transport::kind> transports;
  // Additional domains, preferred over the rest: a simulated host (sim.hpp), or a transport that a
  // test provides (transport::kind::test).
  std::vector<std::shared_ptr<transport::domain>> domains;
  // More devices of the transports above. They carry only rails of Messages
  // (message_options::rails). The devices of verbs.rails follow them. At most 7.
  std::vector<std::shared_ptr<transport::domain>> rail_domains;
  transport::shm_options shm;
  transport::tcp_options tcp;
  transport::verbs_options verbs;
  // File for a trace of posts, completions, events and waits of the complete process. Empty: no
  // trace. See runtime/trace.hpp.
  defaulted<std::string> trace{by_default, ""};
};

// Parses "shm", "tcp" or "verbs", and also "sim", which users cannot request by name. Any other
// text is invalid_value; the message lists the names that can be requested.
[[nodiscard]] result<transport::kind> parse_transport(std::string_view text);
// Parses a comma-separated list of transports.
[[nodiscard]] result<std::vector<transport::kind>> parse_transports(std::string_view text);

// Shareable between threads. Copies are handles to the same Context. Memory, workers and endpoints
// created from it keep alive the parts that they need.
// A child of fork() or daemon(3) creates its own Context. Calls on an inherited Context, and on all
// objects created from it, fail with bad_state. Calls without a result do nothing. Destructors
// close descriptors and unmap; they disturb neither the parent nor a peer.
class Context {
 public:
  // Throws cordma::error: invalid_value (bad configuration, naming key and value; a null domain),
  // not_supported (a transport that was requested by name), no_memory, the errors of start_trace(),
  // and errors of a transport about its settings, such as not_found for shm.directory.
  explicit Context(const context_options& options = {});

  // Allocates memory owned by the library: page-aligned, zeroed, and shareable with peers on this
  // host, where one-sided access to it is then a plain copy. Errors: no_memory; the message names
  // the limit to raise.
  [[nodiscard]] result<MemoryRegion> allocate(std::size_t bytes,
                                              access rights = access::local_write);
  // Registers memory of the caller. It must stay mapped, and unchanged in its mapping, until the
  // last handle to the region is destroyed. Errors: not_permitted if the memory is not mapped, not
  // readable, or not writable although `rights` require it; also if an RDMA device is to access a
  // file that is mapped shared and read-only, which some kernels refuse.
  // Device memory (memory_kind::device) requires a Context that uses only verbs, and an RDMA device
  // that accepts it; otherwise not_supported, which names the transports that do not. The CPU never
  // reads or writes it:
  //  * send, receive, write, read, datagrams and windows accept it; no message is sent inline from
  //    it.
  //  * A tagged or active message from it is always sent by rendezvous, whatever its size, and read
  //    by the peer: all its slices need access::remote_read, and so does the connection
  //    (not_supported).
  //  * A tagged receive into it, or a read of a held message, accepts only data that the RDMA
  //    device delivers: messages that the peer reads, or, with access::remote_write here, messages
  //    that the sender writes. For another message it fails with not_supported, and the message
  //    stays queued for the next receive.
  //  * A Stream can write from it (write(Slice), write_at()) and map it.
  //  * Requests and their response buffers, Worker::copy(), publish_receives() and the backing of a
  //    SyncEvent refuse it: not_supported.
  //  * bytes() and as() REQUIRE host memory; data() is its address.
  [[nodiscard]] result<MemoryRegion> register_memory(std::span<std::byte> memory, access rights,
                                                     const memory_place& where = {});

  // For programs that use libibverbs beside cordma: the protection domain in which this Context's
  // memory is registered (its `context` is the open device). Borrowed: valid as long as the Context
  // lives; objects created on it must be destroyed first. To run a Context on a domain of the
  // program, set context_options::verbs.pd. Events about objects that the program creates on it
  // arrive by Worker::next_device_event(), as `foreign`. Errors: not_supported if no transport of
  // this Context uses libibverbs.
  [[nodiscard]] result<ibv_pd*> native_pd() const;

  // Succeeds if this Context's RDMA device has the named extra (device_attributes::extras: "XRC",
  // "memory windows of type 2") and cordma offers it. Errors: not_supported, and which of the two
  // is missing; invalid_value: unknown name, with a list of the known ones.
  [[nodiscard]] result<void> require(std::string_view extra) const;

  [[nodiscard]] std::vector<transport::capabilities> transports() const;
  // Null if this Context does not have the transport. Valid as long as the Context lives.
  [[nodiscard]] const transport::capabilities* find(transport::kind k) const noexcept;
  // An address of this host by which it reaches itself over this transport, for examples and tests.
  [[nodiscard]] std::string own_host(transport::kind k) const;
  // Requested transports that were left out, and why. For diagnostic tools.
  [[nodiscard]] std::vector<std::pair<transport::kind, failure>> missing() const;

  // Every setting with its value and the source of that value; and warnings about the environment.
  [[nodiscard]] const std::vector<config_entry>& configuration() const noexcept;
  [[nodiscard]] const std::vector<std::string>& configuration_warnings() const noexcept;

  // For the library.
  [[nodiscard]] const std::shared_ptr<detail::context_core>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<detail::context_core> core_;
};

}  // namespace cordma
