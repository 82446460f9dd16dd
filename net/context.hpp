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

// Where memory of the program's lies, for Context::register_memory().
struct memory_place {
  memory_kind kind = memory_kind::host;
  std::uint16_t device = 0;  // whose memory, as the program numbers its devices; host: 0
};

// What is not assigned here may be set by the environment (CORDMA_SHM_RING_BYTES for shm.ring_bytes, and so
// on) or, weaker than that, by the JSON file that CORDMA_CONFIG names; see configuration(). What is assigned
// wins over both, also where it is the default.
struct context_options {
  // The transports to use, in the order of preference; empty: CORDMA_TRANSPORT (a list such as
  // "shm,tcp"), else all that this machine has: shm, verbs, tcp. One that is named and cannot be had
  // is an error, and so is one whose own settings (shm.directory) somebody made and that cannot be
  // had with them; one that is merely available by default and cannot be had is left out, and so is one
  // that this user may not use: configuration_warnings() say so.
  std::vector<transport::kind> transports;
  // Further domains, preferred above the rest: a simulated host (sim.hpp), or a transport of a test's own
  // (transport::kind::test).
  std::vector<std::shared_ptr<transport::domain>> domains;
  // More devices of the transports above: they carry rails of Messages (message_options::rails) and nothing else.
  // What verbs.rails asks for comes behind them. At most 7.
  std::vector<std::shared_ptr<transport::domain>> rail_domains;
  transport::shm_options shm;
  transport::tcp_options tcp;
  transport::verbs_options verbs;
  // The file for a trace of posts, completions, events and waits, for the whole process; empty: none. See
  // runtime/trace.hpp.
  defaulted<std::string> trace{by_default, ""};
};

// "shm", "tcp", "verbs", and "sim", which no user can ask for by name; anything else is invalid_value,
// saying what can be asked for.
[[nodiscard]] result<transport::kind> parse_transport(std::string_view text);
// A list of them, separated by commas.
[[nodiscard]] result<std::vector<transport::kind>> parse_transports(std::string_view text);

// Shareable between threads; copies are handles to the same thing. Memory, workers and endpoints made
// from it keep what they need alive.
// A child of fork() or daemon(3) makes a Context of its own. Calls on an inherited one, and on all
// that was made from it, fail with bad_state; calls without a result do nothing; destructors close
// descriptors, unmap, and disturb neither the parent nor a peer.
class Context {
 public:
  // Throws cordma::error: invalid_value (bad configuration, naming key and value; a null domain),
  // not_supported (a transport that was asked for by name), no_memory; the errors of start_trace(); what a transport says to its settings, such as
  // not_found for shm.directory.
  explicit Context(const context_options& options = {});

  // Memory of the library's own: page-aligned, zeroed, shareable with peers on this host, so that
  // one-sided access to it costs a plain copy there. no_memory says which limit to raise.
  [[nodiscard]] result<MemoryRegion> allocate(std::size_t bytes,
                                              access rights = access::local_write);
  // The user's memory, which must stay mapped, and as it is, until the last handle to the region is gone.
  // not_permitted where it is not mapped, not readable, or not writable though `rights` need it; and where an
  // RDMA device is to reach a file that is mapped shared and read-only, which some kernels do not let it.
  // Device memory (memory_kind::device) is taken by a Context of verbs alone, where its RDMA device takes it;
  // else not_supported, naming the transports that do not. The CPU never reads or writes it:
  //  * send, receive, write, read, datagrams and windows take it; no message goes inline from it.
  //  * A tagged or active message from it is announced, however short, and read by the peer: all its slices
  //    need access::remote_read, and so does the connection (not_supported).
  //  * A tagged receive into it, or a read of a held message, takes what the RDMA device brings: messages that
  //    the peer can read, or, with access::remote_write here, has written by the sender. For another message
  //    it fails with not_supported, and the message waits for the next receive.
  //  * A Stream writes from it (write(Slice), write_at()) and maps it.
  //  * Requests and their rooms, Worker::copy(), publish_receives() and the backing of a SyncEvent refuse it:
  //    not_supported.
  //  * bytes() and as() of it REQUIRE host memory; data() is its address.
  [[nodiscard]] result<MemoryRegion> register_memory(std::span<std::byte> memory, access rights,
                                                     const memory_place& where = {});

  // For programs that use libibverbs beside cordma: the protection domain in which this Context's memory
  // is registered (its `context` is the open device). Borrowed: it lives as long as the Context, and what
  // was made on it must go first. A Context on a domain of the program's own: context_options::verbs.pd.
  // Events about what the program makes on it come by Worker::next_device_event(), as `foreign`.
  // not_supported: no transport of this Context stands on libibverbs.
  [[nodiscard]] result<ibv_pd*> native_pd() const;

  // Nothing, if the RDMA device of this Context has the extra of this name (device_attributes::extras: "XRC",
  // "memory windows of type 2"), and cordma offers it. Errors: not_supported, and which of both is missing;
  // invalid_value: no such name, with those there are.
  [[nodiscard]] result<void> require(std::string_view extra) const;

  [[nodiscard]] std::vector<transport::capabilities> transports() const;
  // Null where this context does not have it. Lives as long as the context.
  [[nodiscard]] const transport::capabilities* find(transport::kind k) const noexcept;
  // An address of this host by which it reaches itself over this transport: for examples and tests.
  [[nodiscard]] std::string own_host(transport::kind k) const;
  // Transports that were wanted and left out, and why: for tools that explain.
  [[nodiscard]] std::vector<std::pair<transport::kind, failure>> missing() const;

  // Every setting with its value and where that came from, and what was odd about the environment.
  [[nodiscard]] const std::vector<config_entry>& configuration() const noexcept;
  [[nodiscard]] const std::vector<std::string>& configuration_warnings() const noexcept;

  // For the library.
  [[nodiscard]] const std::shared_ptr<detail::context_core>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<detail::context_core> core_;
};

}  // namespace cordma
