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
// Slices of one message, at most; the transport may take fewer (endpoint_options::max_segments - 1).
inline constexpr std::size_t most_message_slices = most_segments - 1;
// Bytes of an active message's header, at most.
inline constexpr std::size_t most_am_header = 256;

struct message_options {
  // The longest message that is sent at once, before anybody asks for it, is 16 bytes shorter. A longer one
  // is announced. Who wants it reads it, where its memory has access::remote_read; else it is written there,
  // where the receive's memory has access::remote_write (never on shm); else it is sent piece by piece.
  // 0: what serves best over the transport, capabilities::eager_bytes; else 512 to 1 MiB.
  std::uint32_t eager_bytes = 0;
  std::uint32_t credits = 32;  // messages of one peer that nobody has asked for; then it waits
  // By how many connections long messages are read, the Endpoint's own included, 8 at most; the lesser of what both
  // sides say. 0: by one for each device that both Contexts have for the transport (verbs_options::rails). A message
  // is shared out in proportion to the devices' rates, no part below 64 KiB. The others than the Endpoint's own are
  // made behind it and end with it; one that cannot be made, or ends before, is done without.
  std::uint32_t rails = 0;
  // How long a peer may take, once connected and from the first message that waits for it on, to say that its
  // Endpoint carries messages. Nor does closing wait longer where nobody receives as much as the hello of this side.
  duration hello_timeout = std::chrono::seconds(10);
};

// What a tagged receive got.
struct TagReceived {
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
  Endpoint* from = nullptr;  // null: it is gone; valid until it is moved or destroyed
};

namespace detail {

// A message that goes out: waits for a credit, or is posted, or is announced and waits for the peer.
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
  // Of an active message. REQUIRES not started.
  void set_header(std::span<const std::byte> header) noexcept;
  // However short it is, it is announced, and comes when it is wanted. REQUIRES that it has bytes.
  void announce() noexcept {
    announced_ = true;
    straight_ = false;
  }
  // It is the library's own, and goes out while its endpoint closes, too.
  void set_own() noexcept { own_ = true; }
  // It will fail with that, once it is started.
  void refuse(failure why) noexcept {
    failure_ = std::move(why);
    straight_ = false;
  }
  // An active message with an id of the library's own.
  [[gnu::cold]] void refuse_id(std::uint16_t id) noexcept;
  // It was handed to the transport: however it ends, the peer may have it.
  [[nodiscard]] bool left() const noexcept { return left_; }
  // Whether its bytes may still be read where they are; those of a short one lie behind its head.
  [[nodiscard]] bool reads_memory() const noexcept;

 protected:
  friend class early_messages;
  friend class peer_core;
  void do_start() noexcept;
  void start_with_care() noexcept;
  // The transport has its own copy.
  void start_after_all() noexcept;
  void leave_at_once() noexcept {
    left_ = true;
    set_phase(phase::done);
  }
  void do_cancel() noexcept;
  // It is destroyed, and may not be done.
  void leave_early() noexcept;
  void leave_queue() noexcept;
  [[nodiscard]] std::span<const Slice> slices() const noexcept {
    return std::span<const Slice>(slices_).first(count_);
  }
  // Copied behind its head, unless it is announced.
  [[nodiscard]] bool is_short() const noexcept;
  void fail(failure why) noexcept;
  void succeed() noexcept { finish(); }
  [[nodiscard]] const char* op_name() const noexcept;

  static constexpr std::uint32_t nowhere = 0xFFFFFFFFU;

  endpoint_core* endpoint_;
  std::uint64_t word_;
  std::uint64_t total_ = 0;  // bytes of the slices
  // Of one that waits or is posted:
  std::uint32_t entry_;  // nowhere, while it is not posted
  std::uint32_t offer_;  // nowhere, while it is not announced
  protocol::frame_kind eager_;
  bool straight_ =
      true;  // one slice at most, without a header, not announced, and nothing is wrong
  bool announced_ = false;
  bool own_ = false;
  bool left_ = false;
  std::uint16_t count_ = 0;
  std::span<const std::byte> header_;
  union {  // count_ of them are there
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
  // For the matcher, where it stands while it is queued.
  [[nodiscard]] protocol::tag_place& place() noexcept { return place_; }
  [[nodiscard]] const protocol::tag_place& place() const noexcept { return place_; }

 protected:
  friend class fetch;
  friend class message_core;
  friend class peer_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  void fail(failure why) noexcept;
  // It waits, and never gets a message.
  void end_waiting(const failure& why) noexcept {
    unlink();
    fail(why);
  }
  // It is destroyed while it reads.
  void leave_fetch() noexcept;
  // Of a message that was found before, or that fails.
  void start_otherwise() noexcept;
  // Into device memory, or into what cannot be received into.
  void start_with_care() noexcept;
  void find_message() noexcept;
  // Whether that message can come to where it is wanted: device memory takes what devices bring.
  [[nodiscard]] bool takes(const message_segment& s) const noexcept;
  void refuse_message() noexcept;
  void got(std::span<const std::byte> message, std::uint64_t tag, Endpoint* from) noexcept;
  // Ends one of the matcher's, whose bytes the caller copies before its task runs.
  void gets_all(std::uint64_t bytes, std::uint64_t tag, Endpoint* from) noexcept;
  void got_part(std::span<const std::byte> message) noexcept;

  bool on_device_ = false;  // into device memory
  message_core* core_;
  message_segment* wanted_ = nullptr;  // of an active message; else it is matched
  fetch* fetch_ = nullptr;             // while it reads
  Slice into_;
  protocol::tag_place place_;
  union {  // once it is done
    TagReceived received_;
  };
};

}  // namespace detail

// Resolves when the memory is yours again: a short message is on its way then, a long one was received.
// Errors: as an Endpoint's, and truncated (a long one; the receive was shorter, and got what fits), rejected
// (nobody wants it), not_supported (the peer carries no messages: see hello_timeout; device memory that the peer
// may not read: see Context::register_memory()). Messages of one endpoint and tag are received in the order in which they are started.
// They wait their turn while the peer has no room for more. On cancellation: canceled where it waits; once it is
// posted or announced it ends with the peer's answer, or with the connection.
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

// Resolves with the first message that it accepts, in the order of arrival. Errors: truncated (the message is
// longer; the receive holds what fits, and the connection stays), flushed (it was for one endpoint alone,
// which has ended; or that ended while it was read), shutdown (the Messages or their Worker are gone),
// not_supported (into device memory, where no RDMA device can bring the message: it waits for the next receive),
// invalid_value, no_lock, and as an Endpoint's read() where a long message is read, whose failure ends the
// connection. On cancellation: canceled at once while it waits; one that has its message ends
// with that.
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

// A message that is here, or announced, and nobody else's. Move-only. It holds a credit of its peer as long as
// it lives, and must not outlive the Messages.
class HeldMessage {
 public:
  HeldMessage(HeldMessage&& other) noexcept
      : peer_(other.peer_), segment_(std::exchange(other.segment_, nullptr)) {}
  HeldMessage& operator=(HeldMessage&&) = delete;
  // A long one that was not read is refused: rejected, at its sender. REQUIRES the Worker's thread.
  ~HeldMessage() {
    if (segment_ != nullptr) end();
  }

  // Null: it is gone.
  [[nodiscard]] Endpoint* from() const noexcept;
  // Bytes of the data, wherever they are.
  [[nodiscard]] std::uint64_t size() const noexcept;
  // Of a message that came at once; empty where it was announced: read() it then.
  [[nodiscard]] std::span<const std::byte> data() const noexcept;
  // Brings the data there, as much as fits. Errors: truncated, flushed, bad_state (read before),
  // invalid_value. REQUIRES that this lives until then.
  [[nodiscard]] tag_recv_operation read(const Slice& into) noexcept;

 protected:
  HeldMessage(detail::peer_core* from, detail::message_segment& held) noexcept;
  void end() noexcept;
  // The same, of whichever message, on any thread.
  void let_go() noexcept;
  detail::peer_core* peer_;  // while the segment says that it is there
  detail::message_segment* segment_;
};

// What Messages::tag_claim() found.
class TaggedMessage final : public HeldMessage {
 public:
  explicit TaggedMessage(detail::message_segment& held) noexcept;
  [[nodiscard]] std::uint64_t tag() const noexcept;
};

// What came to a handler; it may outlive that.
class ActiveMessage final : public HeldMessage {
 public:
  explicit ActiveMessage(detail::message_segment& held) noexcept;
  [[nodiscard]] std::span<const std::byte> header() const noexcept;
};

using am_handler = std::function<task<void>(ActiveMessage)>;

// What came to a plain handler. Here until that returns.
struct ShortMessage {
  Endpoint* from = nullptr;
  std::span<const std::byte> header;
  std::span<const std::byte> data;
};
using am_function = std::function<void(const ShortMessage&)>;

// What all endpoints of a Worker have in common that are connected with connect_options::messages: who waits for
// which message, handlers, and the memory for messages that nobody has asked for: places of `eager_bytes`, as many
// as the `credits` of the endpoints that are used, and for those that a HeldMessage keeps from endpoints that are
// gone. They are had by 64 at least, then twice as many, and kept. Bound to the Worker's thread. Its endpoints carry
// tagged and active messages and one-sided operations; plain messages are bad_state there. Both sides have to be
// connected so. Destroying it ends its endpoints, with shutdown as the cause, and REQUIRES that none of its
// handlers does it. The Worker outlives it.
class Messages {
 public:
  // Throws cordma::error: invalid_value (options outside their bounds), no_memory.
  explicit Messages(Worker& worker, const message_options& options = {});
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages();

  // From any of its endpoints: a message whose tag equals `tag` in the bits of `mask`.
  tag_recv_operation tag_recv(std::uint64_t tag, const Slice& into,
                              std::uint64_t mask = whole_tag) noexcept;
  // What such a receive would get now, if anything; it waits on. REQUIRES the Worker's thread, here and below.
  [[nodiscard]] std::optional<TagReceived> tag_probe(std::uint64_t tag,
                                                     std::uint64_t mask = whole_tag) noexcept;
  // The same, and nobody else gets it: for who has to know a message before there is memory for it.
  [[nodiscard]] std::optional<TaggedMessage> tag_claim(std::uint64_t tag,
                                                       std::uint64_t mask = whole_tag) noexcept;
  // Each message of that id begins a task with the handler; several may run at a time. What a handler throws
  // ends its task alone, see handler_failures(). One that is set anew is for the messages that come later.
  // Messages of an id without a handler are dropped, long ones refused. Ids from 0xFF00 on are the library's own:
  // throws invalid_value.
  void on(std::uint16_t id, am_handler handler);
  // The same with a plain function, which is called while the loop looks for what has come. It may start operations,
  // set handlers, and destroy the Endpoint that the message is from; it must not run the loop. What it throws counts as
  // well. Long messages to it are refused: they are for tasks, which can wait for their bytes.
  void on(std::uint16_t id, am_function handler);
  [[nodiscard]] std::uint64_t handler_failures() const noexcept;
  // Of messages without a handler.
  [[nodiscard]] std::uint64_t dropped() const noexcept;

  // For the library.
  [[nodiscard]] detail::message_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<detail::message_core> core_;
};

}  // namespace cordma
