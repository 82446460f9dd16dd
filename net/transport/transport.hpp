// The one interface that every transport implements, shaped after libibverbs and librdmacm:
//   domain      protection domain: capabilities and registered memory, shared by threads
//   adapter     a thread's completion queue, connection manager and queue pairs
//   queue_pair  one connection, or one datagram port
//   receive_queue  receives that several queue pairs of an adapter take theirs from
// Rules for all of them:
//  * Ids, never pointers, come back in completions; the layer above drops stale ones.
//  * The caller accounts: at most send_depth sends and recv_depth receives are outstanding per queue
//    pair, so nothing ever fails because a queue was full.
//  * Every request accepted yields exactly one completion, unless its queue pair is destroyed first:
//    then none. The buffers belong to the transport until the completion is handed out.
//  * The first failed request, or a dead peer, puts a queue pair into error: what is outstanding
//    and what is posted later completes with wr_flush_err. The event `disconnected` carries the cause
//    and is handed out no later than the first flushed completion.
//  * Nothing here throws or resumes a coroutine, nor blocks, save that connect(), listen(), bind() and
//    resolve() look names up, and that verbs asks the kernel for the neighbour behind an address that is new
//    to it: up to a second where nobody answers. Only adapters touch file descriptors.
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

// Of libibverbs and librdmacm, for programs that use them as well; nobody else needs its headers.
struct ibv_mr;
struct ibv_pd;
struct rdma_cm_event;

namespace cordma::transport {

// A contiguous range to register. Stays mapped until deregistered.
struct memory_range {
  std::byte* addr = nullptr;
  std::size_t length = 0;
  access rights = access::local_read;
  // Where the range is a mapping of this memfd from offset 0, peers on this host may map it as well.
  // -1: private memory. Borrowed: valid until deregister() returns.
  int shared_fd = -1;
  memory_kind memory = memory_kind::host;
  std::uint16_t device = 0;  // whose memory, as the program numbers its devices; host: 0
};

// What a memory window opens to the peer of its queue pair: bytes of one registered range, whose rights
// include these and access::mw_bind.
struct window_range {
  std::byte* addr = nullptr;
  std::size_t length = 0;  // at least 1
  std::uint32_t lkey = 0;
  access rights = access::local_read;  // remote ones
};

struct memory_keys {
  std::uint32_t lkey = 0;  // never 0 once registered
  std::uint64_t rkey = 0;  // unguessable on software transports; 32 bits used on verbs
};

// Something worth telling that only one transport has: "path_mtu", "1024".
struct property {
  std::string name;
  std::string value;
};

// The first 16 bytes of a message that is put.
struct message_head {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// A message that lies where it came to. The peer may change its bytes at any time: they are read once.
struct alignas(32) arrived_message {
  queue_pair* from = nullptr;  // null: it is gone, and the bytes with it
  // Null: it has come, and needs a receive. It stays, and so do all that come later: in_place is null from its release
  // on (without a receive_queue).
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  bool stays = false;  // set by who looks at it: it is to come again, by a completion
};

// Who takes the messages of a queue pair where they lie.
class message_taker {
 public:
  // `m` says at the end whether it stays there.
  virtual void on_arrived(arrived_message& m) noexcept = 0;

 protected:
  ~message_taker() = default;
};

class queue_pair {
 public:
  queue_pair() = default;
  queue_pair(const queue_pair&) = delete;
  queue_pair& operator=(const queue_pair&) = delete;
  // Immediate: nothing of this queue pair is reported any more, and no buffer is touched. The peer
  // sees connection_reset unless disconnect() came first. Inside adapter::poll() only from a message_taker.
  virtual ~queue_pair() = default;

  // What was granted; after `established`, what both sides agreed to.
  [[nodiscard]] virtual const queue_pair_options& actual() const noexcept = 0;
  [[nodiscard]] virtual std::string local_address() const = 0;
  [[nodiscard]] virtual std::string peer_address() const = 0;

  // REQUIRES fewer than send_depth outstanding, segments within limits, and op supported. `segments`
  // itself may go at once, what it points to may not.
  [[nodiscard]] virtual posted post_send(const send_request& request, completion& now) noexcept = 0;
  // REQUIRES fewer than recv_depth outstanding, and no receive_queue. Legal before the connection is
  // established.
  [[nodiscard]] virtual posted post_recv(const recv_request& request, completion& now) noexcept = 0;
  // Carries `request` out from the call itself, with nothing to complete, where capabilities::posts_now. An atomic
  // needs no segment: its operand becomes the word as it was. False: nothing has changed, post it.
  // REQUIRES segments of memory that is registered, with the rights that they need; one that is only read may be any memory,
  // with lkey 0.
  [[nodiscard]] virtual bool post_now(send_request& request) noexcept {
    static_cast<void>(request);
    return false;
  }
  // Sends `head` and the bytes behind it as one message, if the transport can have its own copy of them now. Nothing
  // completes: what becomes of it shows in what is posted next, and in the event `disconnected`. False: nothing has
  // changed; post_send() says why. It is never ahead of what was posted before.
  [[nodiscard]] virtual bool put(message_head head, const std::byte* data,
                                 std::uint32_t bytes) noexcept {
    static_cast<void>(head), static_cast<void>(data), static_cast<void>(bytes);
    return false;
  }
  // The same without a head, where capabilities::posts_now.
  [[nodiscard]] virtual bool put(const std::byte* data, std::uint32_t bytes) noexcept {
    static_cast<void>(data), static_cast<void>(bytes);
    return false;
  }
  // Makes everything posted with post_flag::more visible.
  virtual void ring() noexcept {}

  // What was agreed to beyond actual(), by name: for people and their tools. May allocate.
  [[nodiscard]] virtual std::vector<property> properties() const { return {}; }
  // What a device says of it, for those who look for what is wrong. not_connected: it was taken off the
  // device. not_supported: there is none.
  [[nodiscard]] virtual result<queue_pair_state> device_state() const {
    return failure{errc::not_supported, "only a queue pair on an RDMA device is in such a state"};
  }

  // The peer's memory itself, mapped. bad_state: no request has named this key and been done; remote_access.
  virtual result<peer_view> view(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length) {
    static_cast<void>(rkey), static_cast<void>(addr), static_cast<void>(length);
    return failure{errc::not_supported, "only on shm can a peer's memory be mapped"};
  }

  // Graceful: what was posted is carried out first, then the peer is told. Everything left is
  // flushed; the event `disconnected` ends it on both sides. Idempotent.
  virtual void disconnect() noexcept = 0;
  // At once: everything outstanding is flushed by the next poll(), or, of a queue pair with a
  // receive_queue, as soon as the device hands it back; the peer sees connection_reset.
  virtual void abort() noexcept = 0;

  // Out-of-band connecting: each side gives its descriptor to the other by any means it likes.
  // bad_state once connected.
  virtual result<std::vector<std::byte>> descriptor() { return errc::not_supported; }
  virtual result<void> connect(std::span<const std::byte> peer_descriptor) {
    static_cast<void>(peer_descriptor);
    return errc::not_supported;
  }
  // Memory windows of type 2: only the peer of this queue pair can use them. make_window() gives the name
  // by which opcode::bind knows the window, which may be bound once. From the return of free_window() on
  // its key is refused and changes nothing; a window whose bind has not completed goes with that
  // completion. All go with the queue pair. not_supported: so are opcode::bind and send_invalidate;
  // not_connected: in error; no_memory: the device has no more.
  virtual result<std::uint32_t> make_window(const window_range& range) {
    static_cast<void>(range);
    return errc::not_supported;
  }
  virtual void free_window(std::uint32_t window) noexcept { static_cast<void>(window); }
  // service::ud: this port as others address it, and groups.
  virtual result<datagram_peer> self() { return errc::not_supported; }
  // Where a datagram goes that is meant for everybody who joined; this port's qkey.
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

  // service::ud, by rdma_cm's port space UDP. Whoever asks there learns of this port, until it ends; the
  // address, with the port number that was chosen. in_use, unreachable; invalid_value: another qkey than
  // bound_qkey.
  virtual result<address> bind(const address& where) {
    static_cast<void>(where);
    return failure{errc::not_supported, needs_rdma_cm};
  }
  // Who is bound there: the event `resolved` follows with this number, within connect_timeout.
  virtual result<std::uint64_t> resolve(const address& to) {
    static_cast<void>(to);
    return failure{errc::not_supported, needs_rdma_cm};
  }
  // No event follows any more.
  virtual void forget(std::uint64_t request) noexcept { static_cast<void>(request); }

  // The layer above finds its endpoint by this. Set before the queue pair is used.
  [[nodiscard]] void* user() const noexcept { return user_; }
  void set_user(void* user) noexcept { user_ = user; }
  // Likewise, where capabilities::in_place or plain_in_place: a message of opcode::send that has come whole takes no
  // receive, but is handed out where it lies, adapter::arrived(), for who is named here. One that stays, and those behind
  // it, take receives until there is none.
  [[nodiscard]] message_taker* in_place() const noexcept { return in_place_; }
  void set_in_place(message_taker* taker) noexcept { in_place_ = taker; }

 private:
  static constexpr const char* needs_rdma_cm =
      "ports are found by address on verbs alone: carry what self() says to the peer";

  void* user_ = nullptr;
  message_taker* in_place_ = nullptr;
};

// Receives for the messages of many queue pairs (queue_pair_options::shared): each message takes the one
// that was posted first. Bound to the thread of its adapter. A receive completes once, with
// completion::from as who took it, null where that is gone by then. When a queue pair ends, those it had
// taken complete with wr_flush_err, or with what it ended for; the others stay.
class receive_queue {
 public:
  receive_queue() = default;
  receive_queue(const receive_queue&) = delete;
  receive_queue& operator=(const receive_queue&) = delete;
  // REQUIRES that its queue pairs are gone. Immediate: nothing is reported any more, and no buffer is
  // touched. Not from inside adapter::poll().
  virtual ~receive_queue() = default;

  // Receives that may be outstanding; at least what was asked for.
  [[nodiscard]] virtual std::uint32_t depth() const noexcept = 0;
  // REQUIRES fewer than depth() outstanding, and segments within what was asked for.
  virtual void post_recv(const recv_request& request) noexcept = 0;
  // The event `receives_low`, once, as soon as fewer than so many receives are left that no message has
  // taken; at once where that is so. Asking again replaces it, 0 takes it back. REQUIRES at most
  // depth(). driver: the device refuses.
  virtual result<void> arm_limit(std::uint32_t fewer_than) noexcept = 0;

  // The layer above finds what it is part of by this. Set before the queue is used.
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
  // No new requests; requests handed out but not answered are rejected; connections stay.
  virtual ~listener() = default;
  // With the port that was chosen where 0 was asked for.
  [[nodiscard]] virtual const address& bound() const noexcept = 0;
  // Every address it is reached by, in numbers; "" as a host stands for all of this machine's.
  [[nodiscard]] virtual std::vector<address> bound_all() const { return {bound()}; }
  void* user = nullptr;
};

// Connection management, as librdmacm reports it.
struct cm_event {
  enum class type : std::uint8_t {
    none,
    connect_request,  // listener, request; data and peer are the client's
    established,      // queue_pair; on the connecting side with the data of the accept
    rejected,         // queue_pair never came up: why.code() is rejected, and data is the peer's
    failed,           // queue_pair never came up: unreachable, timed_out, unsupported_version, ...
    disconnected,     // queue_pair is in error: why is the first cause (not_connected, when this
                      // side or the peer closed gracefully; connection_reset when it did not)
    resolved,         // queue_pair asked by `request`, and `port` is the answer; or `why`
    device,           // about no connection: `about`
    listener_ended,   // listener: nobody can ask there any more, and why
    receives_low,     // queue: see receive_queue::arm_limit()
    last_receive,     // queue_pair, of a receive_queue, has ended and completes no receive any more
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

// How to listen, beyond the address. listen_options in net/worker.hpp says what each means.
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

  // Makes progress and hands out at most out.size() completions and messages. Returns how many completions;
  // `progressed` is set where something else happened (an event is there, bytes moved), never cleared.
  // With room for most_arrived, a message that came alone may be given to its taker from within, as the last thing.
  [[nodiscard]] virtual std::size_t poll(std::span<completion> out, bool& progressed) noexcept = 0;
  // The messages that the last poll() handed out: those of one sender together, in its order. Whoever lets one stay lets all stay that
  // came behind it from the same. Valid until release_arrived(), which follows where there are any.
  [[nodiscard]] std::span<arrived_message> arrived() noexcept {
    return std::span(arrived_).first(arrived_count_);
  }
  virtual void release_arrived() noexcept {}
  // The caller of poll() looks at the completions of its batch in between: nothing that is posted
  // meanwhile is done at once, or it would overtake the rest of them.
  void begin_handing_out() noexcept { handing_out_ = true; }
  void end_handing_out() noexcept { handing_out_ = false; }
  [[nodiscard]] bool handing_out() const noexcept { return handing_out_; }
  // Whether next_event() has something; cheap.
  [[nodiscard]] bool has_events() const noexcept { return events_ready_; }
  // REQUIRES has_events(). Events come in order, each before completions that follow from it.
  virtual cm_event next_event() = 0;

  // See poller in runtime/reactor.hpp.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  [[nodiscard]] virtual bool edge_triggered() const noexcept = 0;
  virtual arm_state arm() noexcept = 0;
  virtual void disarm() noexcept = 0;
  // What makes wait_fd() readable from now on; `everything` until told otherwise. not_supported:
  // capabilities::wakes_selectively is false.
  virtual result<void> wake_for(wake_reason reason) {
    return reason == wake_reason::everything ? errc::ok : errc::not_supported;
  }

  // `private_data` within the capabilities, checked by the caller. in_use: somebody listens there.
  virtual result<std::unique_ptr<listener>> listen(const address& where) = 0;
  // not_supported: what is asked for beyond the address is not to be had here.
  virtual result<std::unique_ptr<listener>> listen_as(const address& where, const listening& how) {
    const bool plain = how.peers == peer_kind::plain;
    return plain || how.ipv6_only ? errc::not_supported : listen(where);
  }
  // Returns at once; established, rejected or failed follows, within connect_timeout. May resolve
  // names. unreachable at once means: nobody there by this transport, try another.
  virtual result<std::unique_ptr<queue_pair>> connect(const address& to,
                                                      const queue_pair_options& options,
                                                      std::span<const std::byte> private_data) = 0;
  // Answers a request exactly once; bad_state for one answered or gone. `established` follows. The
  // adapter may be another of the same domain and process than the listener's: accepting spreads
  // connections over threads (hand_over() on the listener's thread, then accept() on the new one).
  virtual result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                                     const queue_pair_options& options,
                                                     std::span<const std::byte> private_data) = 0;
  virtual result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) = 0;
  // Takes a request out of this adapter, to be accepted by another: adopt() there gives its id.
  virtual result<std::uint64_t> hand_over(std::uint64_t request, adapter& target) {
    static_cast<void>(request);
    static_cast<void>(target);
    return errc::not_supported;
  }
  // A client that a listener of the program's own was told of: the event of type connect_request that
  // our own listener would have given. invalid_value: it is no request, and still the program's. After
  // any other outcome the event is acknowledged, and its identifier ours: rejected where there is an
  // error (invalid_value: of another device; unsupported_version, connection_aborted: no such client).
  virtual result<cm_event> adopt(rdma_cm_event* event, peer_kind whom) {
    static_cast<void>(event);
    static_cast<void>(whom);
    return errc::not_supported;
  }
  // A queue pair to be connected by descriptors, or a datagram port (service::ud).
  virtual result<std::unique_ptr<queue_pair>> create(const queue_pair_options& options) {
    static_cast<void>(options);
    return errc::not_supported;
  }
  // `depth` receives of `max_segments` at most. invalid_value: more than the capabilities say. full,
  // no_memory.
  virtual result<std::unique_ptr<receive_queue>> make_receive_queue(std::uint32_t depth,
                                                                    std::uint32_t max_segments) {
    static_cast<void>(depth);
    static_cast<void>(max_segments);
    return errc::not_supported;
  }

  static constexpr std::size_t most_arrived = 32;  // by one poll()

 protected:
  // The queue pair is gone: nobody looks at what came from it.
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
// In a child of fork(), everything of a domain of the parent's is still the parent's: queues, rings, sockets and the
// epoll set are shared. There only leave_to_parent() and the destructors may be called.
class domain {
 public:
  domain() = default;
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;
  virtual ~domain() = default;

  [[nodiscard]] virtual const capabilities& caps() const noexcept = 0;
  // An address of this host by which it reaches itself over this transport.
  [[nodiscard]] virtual std::string own_host() const { return "127.0.0.1"; }
  // no_memory (with what to raise), invalid_value; not_supported: capabilities::takes() not its kind.
  virtual result<memory_keys> register_memory(const memory_range& range) = 0;
  // From its return on, remote access with the rkey fails with rem_access_err and changes nothing.
  virtual void deregister_memory(std::uint32_t lkey) noexcept = 0;
  // What stands behind it in libibverbs, where anything does: null otherwise. Borrowed: the domain
  // gives it back. The native region lives until deregister_memory().
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
  // `home` outlives the adapter: its timers and its clock are the only time there is.
  virtual result<std::unique_ptr<adapter>> open(reactor& home) = 0;
  // In a child of fork(), before anything of it is destroyed. True: the destructors, its own and those of adapters,
  // queue pairs, receive queues and listeners, close descriptors, unmap, and touch nothing that is shared. False: the
  // descriptors are closed, and none of them may be destroyed, for the device would take that for the parent's word.
  [[nodiscard]] virtual bool leave_to_parent() noexcept { return true; }
};

// Gives up the child's reference, or keeps it for ever: see domain::leave_to_parent().
void leave_to_parent(std::shared_ptr<domain> d) noexcept;

// The transports without a header of their own. A field that a program assigns is the program's choice, also where
// it assigns the default; the others are what the environment and a file say, if they do (net/settings.hpp).
// `shm`: same host, same user.
struct shm_options {
  defaulted<std::string> directory{by_default, ""};  // of the rendezvous sockets; empty: per user
  // Per direction and connection, a power of two.
  defaulted<std::uint32_t> ring_bytes{by_default, 1 << 18};
  // Longer messages are fetched from the sender's memory.
  defaulted<std::uint32_t> eager_bytes{by_default, 8192};
  defaulted<bool> any_user{by_default, false};  // accept peers of other users
  // Accept members of this group as well. Theirs is the directory, which has to be set.
  defaulted<std::string> group{by_default, ""};
};
[[nodiscard]] result<std::shared_ptr<domain>> make_shm(const shm_options& options);

struct tcp_options {
  defaulted<std::uint32_t> buffer_bytes{by_default, 1 << 18};  // staging per connection
  defaulted<int> backlog{by_default, 128};
};
[[nodiscard]] result<std::shared_ptr<domain>> make_tcp(const tcp_options& options);

// By which calls of libibverbs requests and completions go.
enum class verbs_calls : std::uint8_t {
  automatic,  // ibv_wr_* and ibv_cq_ex, each where the device has it, else the plain ones
  extended,   // both of them
  plain,      // ibv_post_send and ibv_poll_cq
};

// What operators set for a fabric; zero, or what is written here, leaves it to the device and the route.
struct verbs_options {
  // "mlx5_0" or "mlx5_0:1"; empty: the first with an active port.
  defaulted<std::string> device{by_default, ""};
  defaulted<int> gid_index{by_default, -1};  // of the port's table; -1: by the route to the peer
  defaulted<std::uint16_t> pkey{by_default, 0xffff};     // the partition
  defaulted<std::uint8_t> service_level{by_default, 0};  // 0 ... 15
  defaulted<std::uint8_t> traffic_class{by_default, 0};  // DSCP and ECN bits of RoCE v2
  defaulted<std::uint32_t> mtu{by_default, 0};           // bytes, at most; 0: what the path carries
  // Of an acknowledgement, 4.096 us * 2^n; 0: from peer_timeout.
  defaulted<std::uint8_t> timeout{by_default, 0};
  // Times that a request without acknowledgement is repeated.
  defaulted<std::uint8_t> retry_count{by_default, 7};
  // Code 1 ... 31 of the specification; 0: from rnr_timer.
  defaulted<std::uint8_t> rnr_timer{by_default, 0};
  // Of every queue pair, at least; 0: as the program says.
  defaulted<std::uint32_t> send_depth{by_default, 0};
  defaulted<std::uint32_t> recv_depth{by_default, 0};
  defaulted<std::uint32_t> max_inline{by_default,
                                      256};  // bytes that a request may carry in itself, at most
  defaulted<std::uint32_t> cq_entries{by_default, 4096};  // of a completion queue, when it is made
  defaulted<std::uint32_t> cq_limit{by_default,
                                    65536};  // it grows to, at most, before another is made
  defaulted<verbs_calls> calls{by_default, verbs_calls::automatic};
  // Let the device reorder its writes to registered memory.
  defaulted<bool> relaxed_ordering{by_default, false};
  // Ports of RDMA devices that a Context uses, 8 at most: the first for everything, the others for rails of Messages
  // and nothing else. They are the next active ones that `device` names and the other options fit; as many as there are.
  defaulted<std::uint8_t> rails{by_default, 1};
  // A protection domain of the program's own, to be used instead of a new one: on its device, which
  // `device` may narrow to a port. Borrowed: neither it nor its ibv_context is ever closed here, and
  // their asynchronous events stay the program's to read. Both must outlive the domain.
  ibv_pd* pd = nullptr;
};
// not_supported: the build lacks it, or this machine has no device with an active port, or the device
// lacks the calls that are demanded. not_found: what the options name is not there.
[[nodiscard]] result<std::shared_ptr<domain>> make_verbs(const verbs_options& options);
// The same one, and behind it those for rails: options.rails in all, at most. None of them with options.pd.
[[nodiscard]] result<std::vector<std::shared_ptr<domain>>> make_verbs_with_rails(
    const verbs_options& options);

}  // namespace cordma::transport
