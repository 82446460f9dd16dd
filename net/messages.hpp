// Messages: tagged messages and active messages between the Endpoints of Workers.
#pragma once

#include <cordma/net/endpoint.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/tag_matcher.hpp>
#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/task.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace cordma {

class Messages;
class Worker;

namespace detail {
class fetch;
class message_core;
struct message_segment;
class peer_core;
}  // namespace detail

inline constexpr std::uint64_t whole_tag = ~std::uint64_t{0};
// Limit of slices in one message; the transport may accept fewer (endpoint_options::max_segments -
// 1).
inline constexpr std::size_t most_message_slices = most_segments - 1;
// Limit of an active message's header, in bytes.
inline constexpr std::size_t most_am_header = 256;

struct message_options {
  // The longest eager message is 16 bytes shorter than this. A longer message is sent by
  // rendezvous: announced, and matched by a receive. The receiver reads it if its memory has
  // access::remote_read; else the sender writes it if the receive's memory has access::remote_write
  // (never on shm); else it is sent in pieces. 0: the best value for the transport,
  // capabilities::eager_bytes; otherwise 512 to 1 MiB.
  std::uint32_t eager_bytes = 0;
  std::uint32_t credits = 32;  // limit of unexpected messages from one peer; then the peer waits
  // Number of connections by which rendezvous messages are read, including the Endpoint's own, at
  // most 8; the smaller value of the two sides applies. 0: one for each device that both Contexts
  // have for the transport (verbs_options::rails). A message is divided in proportion to the
  // devices' rates, into parts of at least 64 KiB. The additional connections are made after the
  // Endpoint's own and end with it. A connection that cannot be made, or ends earlier, is not used.
  std::uint32_t rails = 0;
  // How long a peer may take, once connected and from the first message that waits for it, to
  // confirm that its Endpoint carries messages. It also limits closing, if the peer does not even
  // receive the hello of this side.
  duration hello_timeout = std::chrono::seconds(10);
};

// Result of a tagged receive.
struct TagReceived {
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
  Endpoint* from = nullptr;  // valid until moved or destroyed; null: already destroyed
};

namespace detail {

// A message to be sent: it waits for a credit, is posted, or is announced and waits for the peer.
class message_send : public operation_base {
 public:
  message_send(endpoint_core& endpoint, protocol::frame_kind eager, std::uint64_t word,
               std::span<const Slice> message) noexcept;
  message_send(endpoint_core& endpoint, protocol::frame_kind eager, std::uint64_t word,
               const Slice& message) noexcept;
  message_send(message_send&& other) noexcept;
  ~message_send() {
    if (!ended_well()) [[unlikely]]
      leave_early();
  }
  // Sets the header of an active message. REQUIRES not started.
  void set_header(std::span<const std::byte> header) noexcept;
  // Sends the message by rendezvous, whatever its size. REQUIRES that it is not empty.
  void announce() noexcept {
    announced_ = true;
    straight_ = false;
  }
  // Marks a message of the library, which is also sent while its endpoint closes.
  void set_own() noexcept { own_ = true; }
  // Makes the message fail with `why` once it is started.
  void refuse(failure why) noexcept {
    failure_ = std::move(why);
    straight_ = false;
  }
  // Refuses an active message with an id that is reserved for the library.
  [[gnu::cold]] void refuse_id(std::uint16_t id) noexcept;
  // The message was passed to the transport: the peer may receive it, whatever its result here.
  [[nodiscard]] bool left() const noexcept { return left_; }
  // Whether its memory may still be read. An eager message was copied behind its head.
  [[nodiscard]] bool reads_memory() const noexcept;

 protected:
  friend class early_messages;
  friend class peer_core;
  void do_start() noexcept;
  void start_with_care() noexcept;
  // Completes the message; the transport has its own copy.
  void start_after_all() noexcept;
  void leave_at_once() noexcept {
    left_ = true;
    set_phase(phase::done);
  }
  void do_cancel() noexcept;
  // Called if it is destroyed and may not be done.
  void leave_early() noexcept;
  void leave_queue() noexcept;
  [[nodiscard]] std::span<const Slice> slices() const noexcept {
    return std::span<const Slice>(slices_).first(count_);
  }
  // Whether it is eager: copied behind its head, and not announced.
  [[nodiscard]] bool is_short() const noexcept;
  void fail(failure why) noexcept;
  void succeed() noexcept { finish(); }
  [[nodiscard]] const char* op_name() const noexcept;

  static constexpr std::uint32_t nowhere = 0xFFFFFFFFU;

  endpoint_core* endpoint_;
  std::uint64_t word_;
  std::uint64_t total_ = 0;  // bytes of the slices
  // For a message that waits or is posted:
  std::uint32_t entry_;  // nowhere while it is not posted
  std::uint32_t offer_;  // nowhere while it is not announced
  protocol::frame_kind eager_;
  bool straight_ = true;  // at most one slice; no header, no offer, no error
  bool announced_ = false;
  bool own_ = false;
  bool left_ = false;
  std::uint16_t count_ = 0;
  std::span<const std::byte> header_;
  union {  // the first count_ are constructed
    std::array<Slice, most_message_slices> slices_;
  };
};

// A receive that waits for its message, or reads it.
class message_receive : public operation_base {
 public:
  message_receive(message_core& core, const endpoint_core* from, std::uint64_t tag,
                  std::uint64_t mask, const Slice& into) noexcept;
  message_receive(message_segment& wanted, const Slice& into) noexcept;
  message_receive(failure why, reactor* home) noexcept;
  message_receive(message_receive&& other) noexcept;
  ~message_receive() {
    if (!ended_well() && fetch_ != nullptr) [[unlikely]]
      leave_fetch();
  }
  // Position in the matcher while it is queued.
  [[nodiscard]] protocol::tag_place& place() noexcept { return place_; }
  [[nodiscard]] const protocol::tag_place& place() const noexcept { return place_; }

 protected:
  friend class fetch;
  friend class message_core;
  friend class peer_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  void fail(failure why) noexcept;
  // Ends a receive that waits and will not get a message.
  void end_waiting(const failure& why) noexcept {
    unlink();
    fail(why);
  }
  // Called if it is destroyed while it reads.
  void leave_fetch() noexcept;
  // Starts a receive of a message that was found before, or one that fails.
  void start_otherwise() noexcept;
  // Starts a receive into device memory, or into memory that cannot receive.
  void start_with_care() noexcept;
  void find_message() noexcept;
  // Whether the message can be delivered into this receive: device memory accepts only data that an
  // RDMA device delivers.
  [[nodiscard]] bool takes(const message_segment& s) const noexcept;
  void refuse_message() noexcept;
  void got(std::span<const std::byte> message, std::uint64_t tag, Endpoint* from) noexcept;
  // Ends a receive of the matcher; the caller copies its bytes before its task runs.
  void gets_all(std::uint64_t bytes, std::uint64_t tag, Endpoint* from) noexcept;
  void got_part(std::span<const std::byte> message) noexcept;

  bool on_device_ = false;  // into device memory
  message_core* core_;
  // For an active message; otherwise the matcher finds the message.
  message_segment* wanted_ = nullptr;
  fetch* fetch_ = nullptr;  // while it reads
  Slice into_;
  protocol::tag_place place_;
  union {  // valid once it is done
    TagReceived received_;
  };
};

}  // namespace detail

// Resolves when the caller owns its memory again: an eager message has been sent then, a rendezvous
// message was received. Errors: as an Endpoint's, and truncated (a rendezvous message that is
// longer than its receive, which got the bytes that fit), rejected (refused by the receiver),
// not_supported (the peer carries no messages: see hello_timeout; device memory that the peer may
// not read: see Context::register_memory()). Messages of one endpoint and tag are received in the
// order in which they are started. Messages wait in order while the peer has no credits. On
// cancellation: canceled if it waits; once it is posted or announced it ends with the peer's
// response, or with the connection.
class [[nodiscard]] message_send_operation final
    : public operation<message_send_operation, void, detail::message_send> {
 public:
  using operation::operation;
  message_send_operation(message_send_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  void take() noexcept {}
};

// Resolves with the first message that matches, in the order of arrival. Errors: truncated (the
// message is longer; the receive contains the bytes that fit, and the connection stays), flushed
// (it was for one endpoint only, which has ended; or the endpoint ended during the read), shutdown
// (the Messages or their Worker are destroyed), not_supported (into device memory, if no RDMA
// device can deliver the message, which stays queued for the next receive), invalid_value, no_lock,
// and, for a rendezvous message that is read, the errors of Endpoint::read(), which end the
// connection. On cancellation: fails with canceled at once while it waits; a receive that has its
// message ends with that.
class [[nodiscard]] tag_recv_operation final
    : public operation<tag_recv_operation, TagReceived, detail::message_receive> {
 public:
  using operation::operation;
  tag_recv_operation(tag_recv_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  TagReceived take() const noexcept { return received_; }
};

// A message that has arrived, or was announced, and is owned by this handle alone. Move-only. It
// holds a credit of its peer as long as it lives, and must not outlive the Messages.
class HeldMessage {
 public:
  HeldMessage(HeldMessage&& other) noexcept
      : peer_(other.peer_), segment_(std::exchange(other.segment_, nullptr)) {}
  HeldMessage& operator=(HeldMessage&&) = delete;
  // Refuses a rendezvous message that was not read; its sender gets rejected. REQUIRES the Worker's
  // thread.
  ~HeldMessage() {
    if (segment_ != nullptr) end();
  }

  // Null if the endpoint is destroyed.
  [[nodiscard]] Endpoint* from() const noexcept;
  // Bytes of the data, whether or not they have arrived.
  [[nodiscard]] std::uint64_t size() const noexcept;
  // Data of an eager message. Empty for a rendezvous message: use read().
  [[nodiscard]] std::span<const std::byte> data() const noexcept;
  // Copies the data into `into`, as much as fits. Errors: truncated, flushed, bad_state (read
  // before), invalid_value. REQUIRES that this lives until the operation is done.
  [[nodiscard]] tag_recv_operation read(const Slice& into) noexcept;

 protected:
  HeldMessage(detail::peer_core* from, detail::message_segment& held) noexcept;
  void end() noexcept;
  // The same for any message, on any thread.
  void let_go() noexcept;
  detail::peer_core* peer_;  // valid while the segment refers to it
  detail::message_segment* segment_;
};

// Result of Messages::tag_claim().
class TaggedMessage final : public HeldMessage {
 public:
  explicit TaggedMessage(detail::message_segment& held) noexcept;
  [[nodiscard]] std::uint64_t tag() const noexcept;
};

// The message passed to a handler; it may outlive the handler.
class ActiveMessage final : public HeldMessage {
 public:
  explicit ActiveMessage(detail::message_segment& held) noexcept;
  [[nodiscard]] std::span<const std::byte> header() const noexcept;
};

using am_handler = std::function<task<void>(ActiveMessage)>;

// The message passed to a plain handler. Valid until the handler returns.
struct ShortMessage {
  Endpoint* from = nullptr;
  std::span<const std::byte> header;
  std::span<const std::byte> data;
};
using am_function = std::function<void(const ShortMessage&)>;

// State shared by all endpoints of a Worker that are connected with connect_options::messages:
// pending receives, handlers, and memory for unexpected messages. This memory consists of slots of
// `eager_bytes`: `credits` for each endpoint in use, and those that a HeldMessage keeps after its
// endpoint was destroyed. At least 64 slots are allocated, then twice as many, and they are kept.
// Bound to the Worker's thread. Its endpoints carry tagged and active messages and one-sided
// operations; plain messages fail with bad_state. Both sides have to be connected in this way.
// Destroying it ends its endpoints, with shutdown as the cause, and REQUIRES that this is not done
// by one of its handlers. The Worker outlives it.
class Messages {
 public:
  // Throws cordma::error: invalid_value (options outside their bounds), no_memory.
  explicit Messages(Worker& worker, const message_options& options = {});
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages();

  // Receives from any of its endpoints a message with a tag that equals `tag` in the bits of
  // `mask`.
  tag_recv_operation tag_recv(std::uint64_t tag, const Slice& into,
                              std::uint64_t mask = whole_tag) noexcept;
  // Returns the message that such a receive would get now, if any; the message stays queued.
  // REQUIRES the Worker's thread, as do the calls below.
  [[nodiscard]] std::optional<TagReceived> tag_probe(std::uint64_t tag,
                                                     std::uint64_t mask = whole_tag) noexcept;
  // The same, and removes the message from matching. For callers that need its size before they
  // allocate memory.
  [[nodiscard]] std::optional<TaggedMessage> tag_claim(std::uint64_t tag,
                                                       std::uint64_t mask = whole_tag) noexcept;
  // Each message with that id starts a task with the handler; several may run at a time. An
  // exception of a handler ends only its task, see handler_failures(). A replaced handler applies
  // to later messages. Messages of an id without a handler are dropped; rendezvous messages are
  // refused. Ids from 0xFF00 are reserved for the library: throws invalid_value.
  void on(std::uint16_t id, am_handler handler);
  // The same with a plain function, which the loop calls while it polls for messages. It may start
  // operations, set handlers, and destroy the Endpoint that sent the message; it must not run the
  // loop. Its exceptions count as well. Rendezvous messages to it are refused, because only tasks
  // can wait for their bytes.
  void on(std::uint16_t id, am_function handler);
  [[nodiscard]] std::uint64_t handler_failures() const noexcept;
  // Messages without a handler.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

  // For the library.
  [[nodiscard]] detail::message_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<detail::message_core> core_;
};

}  // namespace cordma
