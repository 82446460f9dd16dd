// The interface that every transport implements, modelled on libibverbs and librdmacm:
//   domain      protection domain: capabilities and registered memory, shared by threads
//   adapter     a thread's completion queue, connection manager and queue pairs
//   queue_pair  one connection, or one datagram port
//   receive_queue  receives shared by several queue pairs of an adapter
// Rules for all of them:
//  * Completions carry ids, never pointers; the layer above drops stale ids.
//  * The caller limits itself to send_depth sends and recv_depth receives outstanding per queue
//    pair, so no request fails because a queue is full.
//  * Every accepted request yields exactly one completion, unless its queue pair is destroyed
//    first: then it yields none. The buffers belong to the transport until the completion is
//    returned.
//  * The first failed request, or a dead peer, puts a queue pair into error: outstanding requests,
//    and requests posted later, complete with wr_flush_err. The event `disconnected` carries the
//    cause and is returned no later than the first flushed completion.
//  * No function here throws, resumes a coroutine or blocks, with two exceptions. connect(),
//    listen(), bind() and resolve() look names up. verbs queries the kernel for the neighbour of a
//    new address, which takes up to a second if no host answers.
//  * Only adapters use file descriptors.
#pragma once

#include <cordma/net/transport/device_event.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/defaulted.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <memory>
#include <type_traits>
#include <vector>

// Types of libibverbs and librdmacm, for programs that use them; others need not have the headers.
struct ibv_mr;
struct ibv_pd;
struct rdma_cm_event;

namespace cordma::transport {

// A contiguous range to register. REQUIRES that it stays mapped until deregistered.
struct memory_range {
  std::byte* addr = nullptr;
  std::size_t length = 0;
  access rights = access::local_read;
  // If the range is a mapping of this memfd from offset 0, peers on this host may map it too.
  // -1: private memory. Borrowed: valid until deregister() returns.
  int shared_fd = -1;
  memory_kind memory = memory_kind::host;
  // Number of the device that owns the memory, chosen by the program; host: 0.
  std::uint16_t device = 0;
};

// The range that a memory window opens to the peer of its queue pair: bytes of one registered
// region. The region's rights include these rights and access::mw_bind.
struct window_range {
  std::byte* addr = nullptr;
  std::size_t length = 0;  // at least 1
  std::uint32_t lkey = 0;
  access rights = access::local_read;  // remote rights
};

struct memory_keys {
  std::uint32_t lkey = 0;  // never 0 once registered
  std::uint64_t rkey = 0;  // unguessable on software transports; 32 bits used on verbs
};

// A value that only one transport has: "path_mtu", "1024".
struct property {
  std::string name;
  std::string value;
};

// The first 16 bytes of a message sent by put().
struct message_head {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// A message in the transport's buffer, passed without a copy. The peer may change its bytes at any
// time: read them once.
struct alignas(32) arrived_message {
  queue_pair* from = nullptr;  // null: the queue pair is destroyed, and the bytes are invalid
  // Null: a message has arrived that needs a receive. It stays, and so do all later messages:
  // without a receive_queue, in_place() is null from release_arrived() on.
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  bool stays = false;  // set by the taker: deliver the message again, by a completion
};

// Takes the messages of a queue pair without a copy.
class message_taker {
 public:
  // On return, `m.stays` states whether the message stays with the transport.
  virtual void on_arrived(arrived_message& m) noexcept = 0;

 protected:
  ~message_taker() = default;
};

class queue_pair {
 public:
  queue_pair() = default;
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;
  // Immediate: no further completion or event of this queue pair is reported, and no buffer is
  // accessed. The peer sees connection_reset unless disconnect() was called first. Inside
  // adapter::poll(), only a message_taker may destroy it.
  virtual ~queue_pair() = default;

  // The granted options; after `established`, the options that both sides agreed to.
  [[nodiscard]] virtual const queue_pair_options& actual() const noexcept = 0;
  [[nodiscard]] virtual std::string local_address() const = 0;
  [[nodiscard]] virtual std::string peer_address() const = 0;

  // REQUIRES fewer than send_depth outstanding, segments within limits, and op supported. The array
  // `segments` may be freed on return, but not the memory that it describes.
  [[nodiscard]] virtual posted post_send(const send_request& request, completion& now) noexcept = 0;
  // REQUIRES fewer than recv_depth outstanding, and no receive_queue. Legal before the connection
  // is established.
  [[nodiscard]] virtual posted post_recv(const recv_request& request, completion& now) noexcept = 0;
  // With capabilities::posts_now, carries `request` out within the call, without a completion. An
  // atomic needs no segment: its operand is replaced by the word's previous value. Returns false if
  // nothing has changed: post the request instead.
  // REQUIRES segments in registered memory with the rights that the operation needs. A segment that
  // is only read may be any memory, with lkey 0.
  [[nodiscard]] virtual bool post_now(send_request& request) noexcept {
    static_cast<void>(request);
    return false;
  }
  // Sends `head` and the bytes after it as one message, if the transport can copy them now. There
  // is no completion: a failure shows in the requests posted next and in the event `disconnected`.
  // Returns false if nothing has changed; post_send() then returns the reason. The message never
  // overtakes requests posted before it.
  [[nodiscard]] virtual bool put(message_head head, const std::byte* data,
                                 std::uint32_t bytes) noexcept {
    static_cast<void>(head), static_cast<void>(data), static_cast<void>(bytes);
    return false;
  }
  // The same without a head, with capabilities::posts_now.
  [[nodiscard]] virtual bool put(const std::byte* data, std::uint32_t bytes) noexcept {
    static_cast<void>(data), static_cast<void>(bytes);
    return false;
  }
  // Makes all requests posted with post_flag::more visible.
  virtual void ring() noexcept {}

  // Agreed values beyond actual(), by name, for people and their tools. May allocate.
  [[nodiscard]] virtual std::vector<property> properties() const { return {}; }
  // The state that the device reports, for diagnosis. not_connected: the queue pair was removed
  // from the device. not_supported: there is no device.
  [[nodiscard]] virtual result<queue_pair_state> device_state() const {
    return failure{errc::not_supported, "only a queue pair on an RDMA device is in such a state"};
  }

  // Returns the peer's memory, mapped. bad_state: no request with this key has completed;
  // remote_access.
  virtual result<peer_view> view(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length) {
    static_cast<void>(rkey), static_cast<void>(addr), static_cast<void>(length);
    return failure{errc::not_supported, "only on shm can a peer's memory be mapped"};
  }

  // Closes gracefully: posted requests are carried out first, then the peer is notified. The
  // remaining requests are flushed; the event `disconnected` ends the connection on both sides.
  // Idempotent.
  virtual void disconnect() noexcept = 0;
  // Ends the connection at once: the next poll() flushes all outstanding requests. Those of a queue
  // pair with a receive_queue are flushed as soon as the device returns them. The peer sees
  // connection_reset.
  virtual void abort() noexcept = 0;

  // Out-of-band connecting: each side passes its descriptor to the other by any means.
  // bad_state once connected.
  virtual result<std::vector<std::byte>> descriptor() { return errc::not_supported; }
  virtual result<void> connect(std::span<const std::byte> peer_descriptor) {
    static_cast<void>(peer_descriptor);
    return errc::not_supported;
  }
  // Memory windows of type 2: only the peer of this queue pair can use them. make_window() returns
  // the name of the window for opcode::bind; a window may be bound once. After free_window()
  // returns, its key is refused and changes nothing. If its bind has not completed, the window
  // ends with that completion. All windows end with the queue pair.
  // not_supported: opcode::bind and send_invalidate are not supported either; not_connected: in
  // error; no_memory: the device has no more windows.
  virtual result<std::uint32_t> make_window(const window_range& range) {
    static_cast<void>(range);
    return errc::not_supported;
  }
  virtual void free_window(std::uint32_t window) noexcept { static_cast<void>(window); }
  // service::ud: this port as other ports address it, and multicast groups.
  virtual result<datagram_peer> self() { return errc::not_supported; }
  // Returns the destination of datagrams to all members of the group, with this port's qkey.
  virtual result<datagram_peer> group(const address& name) {
    static_cast<void>(name);
    return errc::not_supported;
  }
  virtual result<void> join(const address& group) {
    static_cast<void>(group);
    return errc::not_supported;
  }
  virtual result<void> leave(const address& group) {
    static_cast<void>(group);
    return errc::not_supported;
  }

  // service::ud, over rdma_cm's port space UDP. resolve() of this address finds this port until the
  // queue pair ends. Returns the address with the chosen port number.
  // in_use, unreachable; invalid_value: the qkey is not bound_qkey.
  virtual result<address> bind(const address& where) {
    static_cast<void>(where);
    return failure{errc::not_supported, needs_rdma_cm};
  }
  // Looks up the port bound at `to`: the event `resolved` carries the returned number and is
  // reported within connect_timeout.
  virtual result<std::uint64_t> resolve(const address& to) {
    static_cast<void>(to);
    return failure{errc::not_supported, needs_rdma_cm};
  }
  // Cancels a resolve(): its event is not reported.
  virtual void forget(std::uint64_t request) noexcept { static_cast<void>(request); }

  // Identifies the endpoint of the layer above. REQUIRES that it is set before the queue pair is
  // used.
  [[nodiscard]] void* user() const noexcept { return user_; }
  void set_user(void* user) noexcept { user_ = user; }
  // Takes messages without a copy, with capabilities::in_place or plain_in_place. A complete
  // message of opcode::send then consumes no receive: adapter::arrived() returns it, from this
  // queue pair, for this taker. A message that stays, and those after it, consume receives until no
  // such message is left.
  [[nodiscard]] message_taker* in_place() const noexcept { return in_place_; }
  void set_in_place(message_taker* taker) noexcept { in_place_ = taker; }

 private:
  static constexpr const char* needs_rdma_cm =
      "ports are found by address on verbs alone: carry what self() says to the peer";

  void* user_ = nullptr;
  message_taker* in_place_ = nullptr;
};

// Receives for the messages of several queue pairs (queue_pair_options::shared): each message
// consumes the receive that was posted first. Bound to the thread of its adapter. A receive
// completes once; completion::from is the queue pair that consumed it, or null if that queue pair
// is already destroyed. When a queue pair ends, the receives it had consumed complete with
// wr_flush_err or with the error that ended it; the others stay.
class receive_queue {
 public:
  receive_queue() = default;
  receive_queue(const receive_queue&) = delete;
  receive_queue& operator=(const receive_queue&) = delete;
  // REQUIRES that its queue pairs are destroyed. Immediate: no further completion or event is
  // reported, and no buffer is accessed. Not from inside adapter::poll().
  virtual ~receive_queue() = default;

  // The number of receives that may be outstanding; at least the requested number.
  [[nodiscard]] virtual std::uint32_t depth() const noexcept = 0;
  // REQUIRES fewer than depth() outstanding, and at most the requested number of segments.
  virtual void post_recv(const recv_request& request) noexcept = 0;
  // Reports the event `receives_low` once, as soon as fewer than `fewer_than` receives are left
  // unconsumed; at once if that is already true. A second call replaces the first, 0 cancels it.
  // REQUIRES at most depth(). driver: the device refuses.
  virtual result<void> arm_limit(std::uint32_t fewer_than) noexcept = 0;

  // Identifies the owner in the layer above. REQUIRES that it is set before the queue is used.
  [[nodiscard]] void* user() const noexcept { return user_; }
  void set_user(void* user) noexcept { user_ = user; }

 private:
  void* user_ = nullptr;
};

class listener {
 public:
  listener() = default;
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  // Stops new requests. Reported requests that are not answered yet are rejected; connections stay.
  virtual ~listener() = default;
  // The address, with the chosen port if port 0 was requested.
  [[nodiscard]] virtual const address& bound() const noexcept = 0;
  // All addresses that reach it, numeric; "" as a host means all addresses of this machine.
  [[nodiscard]] virtual std::vector<address> bound_all() const { return {bound()}; }
  void* user = nullptr;
};

// Connection management, as librdmacm reports it.
struct cm_event {
  enum class type : std::uint8_t {
    none,
    connect_request,  // listener, request; data and peer are those of the client
    established,      // queue_pair; on the connecting side with the data of the accept
    rejected,  // queue_pair was never established: why.code() is rejected, data is from the peer
    failed,    // queue_pair was never established: unreachable, timed_out, unsupported_version, ...
    // queue_pair is in error: why is the first cause (not_connected if this side or the peer closed
    // gracefully, else connection_reset)
    disconnected,
    resolved,        // queue_pair called resolve(): `request` and `port`, or `why`
    device,          // not about a connection: see `about`
    listener_ended,  // listener: it accepts no more connections; `why` is the reason
    receives_low,    // queue: see receive_queue::arm_limit()
    last_receive,    // queue_pair, with a receive_queue, has ended and completes no more receives
  };
  type what = type::none;
  queue_pair* pair = nullptr;
  listener* from = nullptr;
  receive_queue* queue = nullptr;
  std::uint64_t request = 0;
  failure why{errc::ok};
  std::vector<std::byte> data;
  std::string peer;
  datagram_peer port;
  device_event about;
};
static_assert(std::is_nothrow_move_assignable_v<cm_event>, "reporting one does not fail");

// Options of a listener beyond the address; listen_options in net/worker.hpp describes them.
struct listening {
  peer_kind peers = peer_kind::cordma;
  bool ipv6_only = false;
};

// Bound to one thread. Destroy its queue pairs, receive queues and listeners first.
class adapter {
 public:
  adapter() = default;
  adapter(const adapter&) = delete;
  adapter& operator=(const adapter&) = delete;
  virtual ~adapter() = default;

  // Makes progress and returns at most out.size() completions and messages together. The return
  // value is the number of completions; the messages are in arrived(). Sets `progressed` if
  // anything else happened (an event is ready, bytes moved); never clears it.
  // If out.size() is at least most_arrived, poll() may pass a single message to its taker itself,
  // as its last action.
  [[nodiscard]] virtual std::size_t poll(std::span<completion> out, bool& progressed) noexcept = 0;
  // The messages that the last poll() returned, grouped by sender, in the sender's order. A taker
  // that lets one message stay must let all later messages of that sender stay. Valid until
  // release_arrived(), which the caller must call if there are any.
  [[nodiscard]] std::span<arrived_message> arrived() noexcept {
    return std::span(arrived_).first(arrived_count_);
  }
  virtual void release_arrived() noexcept {}
  // Marks the time in which the caller of poll() handles its batch of completions. A request posted
  // meanwhile never completes in its post call: its completion would overtake the rest of the
  // batch.
  void begin_handing_out() noexcept { handing_out_ = true; }
  void end_handing_out() noexcept { handing_out_ = false; }
  [[nodiscard]] bool handing_out() const noexcept { return handing_out_; }
  // True if next_event() has an event; cheap.
  [[nodiscard]] bool has_events() const noexcept { return events_ready_; }
  // REQUIRES has_events(). Events are in order, each before the completions that follow from it.
  virtual cm_event next_event() = 0;

  // See poller in runtime/reactor.hpp.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  [[nodiscard]] virtual bool edge_triggered() const noexcept = 0;
  virtual arm_state arm() noexcept = 0;
  virtual void disarm() noexcept = 0;
  // Selects the events that make wait_fd() readable from now on; initially `everything`.
  // not_supported: capabilities::wakes_selectively is false.
  virtual result<void> wake_for(wake_reason reason) {
    return reason == wake_reason::everything ? errc::ok : errc::not_supported;
  }

  // in_use: the address has a listener. For the functions below: REQUIRES `private_data` within the
  // capabilities.
  virtual result<std::unique_ptr<listener>> listen(const address& where) = 0;
  // not_supported: this transport lacks one of the options beyond the address.
  virtual result<std::unique_ptr<listener>> listen_as(const address& where, const listening& how) {
    const bool plain = how.peers == peer_kind::plain;
    return plain || how.ipv6_only ? errc::not_supported : listen(where);
  }
  // Returns at once; established, rejected or failed follows within connect_timeout. May resolve
  // names. If connect() itself returns unreachable, this transport has no listener there: try
  // another.
  virtual result<std::unique_ptr<queue_pair>> connect(const address& to,
                                                      const queue_pair_options& options,
                                                      std::span<const std::byte> private_data) = 0;
  // Answers a request; a request is answered exactly once. bad_state: it is answered or its client
  // has disconnected. `established` follows. The adapter may be another one of the same domain and
  // process than the listener's, to spread connections over threads: hand_over() on the listener's
  // thread, then accept() on the new thread.
  virtual result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                                     const queue_pair_options& options,
                                                     std::span<const std::byte> private_data) = 0;
  virtual result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) = 0;
  // Moves a request from this adapter to `target`, to be accepted there: adopt() there returns its
  // id.
  virtual result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) {
    static_cast<void>(request);
    static_cast<void>(target);
    return errc::not_supported;
  }
  // Takes over a client from a connection request that a listener of the program received. Returns
  // the event of type connect_request that cordma's own listener would have reported.
  // invalid_value: the event is no connection request and still belongs to the program. After any
  // other outcome the event is acknowledged and its identifier belongs to the adapter, which
  // rejects the client on an error. Errors: invalid_value: it is of another device;
  // unsupported_version, connection_aborted: the client is not of the expected kind.
  virtual result<cm_event> adopt(rdma_cm_event* event, peer_kind whom) {
    static_cast<void>(event);
    static_cast<void>(whom);
    return errc::not_supported;
  }
  // Creates a queue pair to connect by descriptors, or a datagram port (service::ud).
  virtual result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) {
    static_cast<void>(options);
    return errc::not_supported;
  }
  // Makes a queue of `depth` receives of at most `max_segments` each.
  // invalid_value: more than the capabilities allow. full, no_memory.
  virtual result<std::unique_ptr<receive_queue>> make_receive_queue(std::uint32_t depth,
                                                                    std::uint32_t max_segments) {
    static_cast<void>(depth);
    static_cast<void>(max_segments);
    return errc::not_supported;
  }

  static constexpr std::size_t most_arrived = 32;  // messages per poll()

 protected:
  // Clears `from` in arrived messages of a destroyed queue pair, so that no taker reads them.
  void forget_arrived(const queue_pair& gone) noexcept {
    for (arrived_message& m : arrived()) {
      if (m.from == &gone) m.from = nullptr;
    }
  }

  bool handing_out_ = false;
  bool events_ready_ = false;
  std::size_t arrived_count_ = 0;
  std::array<arrived_message, most_arrived> arrived_;
};

// Shared between threads; outlives its adapters.
//
// In a child of fork(), all objects of the parent's domain still belong to the parent: queues,
// rings, sockets and the epoll set are shared. The child may call only leave_to_parent() and the
// destructors.
class domain {
 public:
  domain() = default;
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;
  virtual ~domain() = default;

  [[nodiscard]] virtual const capabilities& caps() const noexcept = 0;
  // An address of this host at which this host reaches itself over this transport.
  [[nodiscard]] virtual std::string own_host() const { return "127.0.0.1"; }
  // no_memory (the message names the limit to raise), invalid_value; not_supported:
  // capabilities::takes() is false for the memory kind.
  virtual result<memory_keys> register_memory(const memory_range& range) = 0;
  // After it returns, remote access with the rkey fails with rem_access_err and changes nothing.
  virtual void deregister_memory(std::uint32_t lkey) noexcept = 0;
  // The objects of libibverbs behind the domain and its regions; null if there are none. Borrowed:
  // the domain frees them. The native region lives until deregister_memory().
  [[nodiscard]] virtual ibv_pd* native_pd() const noexcept { return nullptr; }
  [[nodiscard]] virtual ibv_mr* native_mr(std::uint32_t lkey) noexcept {
    static_cast<void>(lkey);
    return nullptr;
  }
  // Context::require().
  [[nodiscard]] virtual result<void> require(std::string_view extra) const {
    static_cast<void>(extra);
    return errc::not_supported;
  }
  // REQUIRES that `home` outlives the adapter, which uses its timers and its clock for all time.
  virtual result<std::unique_ptr<adapter>> open(reactor& home) = 0;
  // In a child of fork(), call this before destroying any object of the domain. True: the
  // destructors of the domain and of its adapters, queue pairs, receive queues and listeners close
  // descriptors, unmap, and access nothing shared. False: the descriptors are closed and none of
  // these objects may be destroyed, because the device would attribute the destruction to the
  // parent.
  [[nodiscard]] virtual bool leave_to_parent() noexcept { return true; }
};

// Drops the child's reference, or keeps it forever: see domain::leave_to_parent().
void leave_to_parent(std::shared_ptr<domain> d) noexcept;

// The options of transports that have no header of their own. A field that a program assigns is the
// program's choice, even if it assigns the default. Environment and settings file can set the other
// fields (net/settings.hpp).
// `shm`: same host, same user.
struct shm_options {
  // Folder of the rendezvous sockets; empty: per user.
  defaulted<std::string> directory{by_default, ""};
  // Per direction and connection, a power of two.
  defaulted<std::uint32_t> ring_bytes{by_default, 1 << 18};
  // In bytes; the receiver fetches longer messages from the sender's memory.
  defaulted<std::uint32_t> eager_bytes{by_default, 8192};
  defaulted<bool> any_user{by_default, false};  // accept peers of other users
  // Also accept members of this group. The directory belongs to the group and must be set.
  defaulted<std::string> group{by_default, ""};
};
[[nodiscard]] result<std::shared_ptr<domain>> make_shm(const shm_options& options);

struct tcp_options {
  defaulted<std::uint32_t> buffer_bytes{by_default, 1 << 18};  // staging per connection
  defaulted<int> backlog{by_default, 128};
};
[[nodiscard]] result<std::shared_ptr<domain>> make_tcp(const tcp_options& options);

// Selects the calls of libibverbs for requests and completions.
enum class verbs_calls : std::uint8_t {
  automatic,  // ibv_wr_* and ibv_cq_ex, each if the device has it, else the plain calls
  extended,   // both of them
  plain,      // ibv_post_send and ibv_poll_cq
};

// Settings of operators for a fabric; zero, or the default here, leaves the choice to the device
// and the route.
struct verbs_options {
  // "mlx5_0" or "mlx5_0:1"; empty: the first with an active port.
  defaulted<std::string> device{by_default, ""};
  // Index in the port's table; -1: by the route to the peer.
  defaulted<int> gid_index{by_default, -1};
  defaulted<std::uint16_t> pkey{by_default, 0xffff};     // the partition
  defaulted<std::uint8_t> service_level{by_default, 0};  // 0 ... 15
  defaulted<std::uint8_t> traffic_class{by_default, 0};  // DSCP and ECN bits of RoCE v2
  defaulted<std::uint32_t> mtu{by_default, 0};           // bytes, at most; 0: the path's MTU
  // Timeout of an acknowledgement, 4.096 us * 2^n; 0: from peer_timeout.
  defaulted<std::uint8_t> timeout{by_default, 0};
  // Number of times that an unacknowledged request is repeated.
  defaulted<std::uint8_t> retry_count{by_default, 7};
  // Code 1 ... 31 of the specification; 0: from rnr_timer.
  defaulted<std::uint8_t> rnr_timer{by_default, 0};
  // Minimum for every queue pair; 0: the program's value.
  defaulted<std::uint32_t> send_depth{by_default, 0};
  defaulted<std::uint32_t> recv_depth{by_default, 0};
  defaulted<std::uint32_t> max_inline{by_default,
                                      256};  // most bytes that a request may carry inline
  defaulted<std::uint32_t> cq_entries{by_default, 4096};  // entries of a new completion queue
  defaulted<std::uint32_t> cq_limit{by_default,
                                    65536};  // most entries, before another queue is created
  defaulted<verbs_calls> calls{by_default, verbs_calls::automatic};
  // Let the device reorder its writes to registered memory.
  defaulted<bool> relaxed_ordering{by_default, false};
  // Number of RDMA device ports that a Context uses, at most 8: the first for all traffic, the
  // others only for rails of Messages. They are the next active ports that match `device` and the
  // other options; fewer if there are fewer.
  defaulted<std::uint8_t> rails{by_default, 1};
  // A protection domain of the program, used instead of a new one, on its device; `device` may
  // narrow the device to a port. Borrowed: cordma closes neither it nor its ibv_context, and the
  // program still reads their asynchronous events. Both must outlive the domain.
  ibv_pd* pd = nullptr;
};
// not_supported: the build lacks verbs, this machine has no device with an active port, or the
// device lacks the required calls. not_found: the device or port named by the options does not
// exist.
[[nodiscard]] result<std::shared_ptr<domain>> make_verbs(const verbs_options& options);
// The same domain, followed by the domains for rails: at most options.rails in total. With
// options.pd there are no rails.
[[nodiscard]] result<std::vector<std::shared_ptr<domain>>> make_verbs_with_rails(
    const verbs_options& options);

}  // namespace cordma::transport
