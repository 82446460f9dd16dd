// Requests: calls, which get a response, and one-way notifications, between the Endpoints of
// Messages.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace cordma {

class Requests;

namespace detail {
class asked;
class held_request;
class request_core;
class request_peer;
struct early_call;
class early_messages;
}  // namespace detail

struct request_options {
  // Limit of requests from one peer that are accepted at once, running or kept; further ones wait
  // at the peer. At least 1, and less than message_options::credits.
  std::uint32_t window = 24;
  // Limits of unanswered calls and acknowledged notifications to one peer, in number and in bytes;
  // further ones wait in order. At least 1 each. A call with more bytes of request than most_bytes
  // fails with invalid_value.
  std::uint32_t most_calls = 1024;
  std::uint64_t most_bytes = std::uint64_t{64} << 20;
  // Bytes of a request, or a response, that are sent along with its header. Longer requests are
  // read by their handler; longer responses are written if their response buffer grants
  // access::remote_write. If the peer's message_options::eager_bytes are less than inline_max + 64,
  // data that does not fit them is treated as longer.
  std::uint32_t inline_max = 8192;
  bool force_read = false;   // every non-empty request is read by its handler
  bool force_write = false;  // every non-empty response is written if its buffer permits it
  // How long a peer may take to confirm that it serves requests. It does so when it has Requests,
  // which may be created after the first call has arrived.
  duration hello_timeout = std::chrono::seconds(10);
};
static_assert(std::is_trivially_destructible_v<request_options>);

struct call_options {
  // Measured by the clock of this reactor; the peer measures the same time from the arrival. Zero:
  // no limit. Below zero: it has passed.
  duration timeout = duration::zero();
};
static_assert(std::is_trivially_destructible_v<call_options>);

// Result of a call.
struct Response {
  std::size_t bytes = 0;  // in the response buffer
  bool written = false;   // by the peer, instead of being received as a message
};

// Counters since the Requests were created, for both directions.
struct request_counters {
  std::uint64_t requests_along = 0;   // arrived with their bytes
  std::uint64_t requests_read = 0;    // arrived as an offer
  std::uint64_t responses_along = 0;  // to calls of this side, arrived with their bytes
  // To calls of this side, announced and read into the response buffer.
  std::uint64_t responses_read = 0;
  std::uint64_t responses_written = 0;  // to calls of this side, written by the peer
  std::uint64_t handler_failures = 0;   // handlers that threw
  std::uint64_t unserved = 0;           // requests of a method without a handler
  // Window updates: frames that carry only the number of further requests permitted.
  std::uint64_t words_given = 0;
  // Withdrawals that arrived before the response had begun, after it had begun, and after it was
  // sent.
  std::uint64_t withdrawn = 0;
  std::uint64_t withdrawn_late = 0;
  std::uint64_t withdrawn_unknown = 0;
  std::uint64_t late_responses = 0;  // to calls that had ended at their deadline
};

namespace detail {

// A request to be sent: it waits in order, is being sent, or waits for the response.
class request_call : public operation_base {
 public:
  enum class manner : std::uint8_t { call, notify, notify_acked };
  request_call(request_core& core, endpoint_core& to, manner how, std::uint16_t method,
               const Slice& request, const Slice& room, duration timeout) noexcept;
  request_call(request_call&& other) noexcept;
  ~request_call();

  // Address that the peer redirected the call to; empty otherwise. Valid after done().
  [[nodiscard]] std::string_view redirected_to() const noexcept { return redirect_; }

 protected:
  friend class asked;
  friend class request_core;
  friend class request_peer;
  void do_start() noexcept;
  // Passes the request to the peer. REQUIRES that its endpoint has a peer.
  void go() noexcept;
  // Fails the calls of `core` that wait for a connection.
  static void fail_early(early_messages& waiting, const request_core& core) noexcept;
  void do_cancel() noexcept;
  void leave_queue() noexcept;
  void fail(failure why) noexcept;
  void succeed() noexcept;
  void on_deadline() noexcept;
  [[nodiscard]] const char* op_name() const noexcept;
  [[nodiscard]] std::optional<failure> obstacle() const;

  struct alarm final : timer {
    explicit alarm(request_call& c) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).owner->on_deadline(); }),
          owner(&c) {}
    request_call* owner;
  };

  static const early_call early_;
  request_core* core_;
  endpoint_core* endpoint_;
  asked* asked_ = nullptr;  // set once it is sent
  manner how_;
  std::uint16_t method_;
  Slice request_;
  Slice room_;
  duration timeout_;
  alarm alarm_;
  Response response_;
  std::string redirect_;
};

// A response to be sent.
class request_answer : public operation_base {
 public:
  // Sends the response, or the address.
  request_answer(held_request* to, reactor* home, const Slice& response) noexcept;
  request_answer(held_request* to, reactor* home, std::string_view redirect) noexcept;
  request_answer(request_answer&& other) noexcept;
  ~request_answer();

 protected:
  friend class held_request;
  void do_start() noexcept;
  void do_cancel() noexcept {}
  void fail(failure why) noexcept;

  held_request* held_;
  Slice response_;
  std::string redirect_;  // empty: none
};

}  // namespace detail

// Resolves when the response is in the buffer `room`. The caller owns request and `room` again,
// also after an error. Errors:
//   truncated         the response is longer than `room`; the peer was notified
//   not_found         the peer serves no such method
//   rejected          its handler failed, sent no response, or sent a redirect: see redirected_to()
//   timed_out         the timeout passed, or was below zero
//   connection_reset  the connection ended after the request was sent: it may have been served
//   flushed           the connection ended before the request was sent
//   not_supported     plain messages; or the peer serves no requests at all (after hello_timeout);
//                     or request or `room` in device memory
//   invalid_value     slices of another Context, `room` without local_write, above most_bytes
//   again             try_call() only: it would have had to wait
//   not_connected, shutdown, no_memory, no_lock   as everywhere
// On cancellation: a call that waits to be sent fails with canceled. After that the peer is
// notified, and the call ends with the peer's reply: canceled, or the response if the cancellation
// arrives too late. A timeout ends a call at once if its memory is not accessed any more. If the
// peer may still read the request or write to `room`, the call ends with the peer's reply, or with
// the connection. If a request of more than 512 bytes with its headers is being sent without a
// copy, the call ends once the transport has accepted it. Destroyed in flight, it keeps the
// memory's regions until then. For a std::stop_token: with_stop().
class [[nodiscard]] call_operation final
    : public operation<call_operation, Response, detail::request_call> {
 public:
  using operation::operation;
  call_operation(call_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  Response take() const noexcept { return response_; }
};

// notify(): resolves when the caller owns the request's memory again: a short request has been sent
// then, a longer one was read. notify_acked(): resolves when its handler has ended. Errors as of a
// call, where applicable.
class [[nodiscard]] notify_operation final
    : public operation<notify_operation, void, detail::request_call> {
 public:
  using operation::operation;
  notify_operation(notify_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  void take() noexcept {}
};

// Resolves when the handler owns the response's memory again; the caller has received the response
// then, or will soon. Errors: truncated (the caller's buffer is shorter; the caller was notified,
// and the request is answered), canceled, timed_out or connection_reset (the caller no longer
// waits), bad_state (answered before, or it expects no response), invalid_value (memory of another
// Context), not_supported (device memory), no_lock, and, for a long response that is written, the
// errors of Endpoint::write(), which end the connection. Cannot be canceled: it waits for the
// caller's program only if the caller reads a long response. Destroyed in flight, it keeps the
// memory's region until it is done.
class [[nodiscard]] respond_operation final
    : public operation<respond_operation, void, detail::request_answer> {
 public:
  using operation::operation;
  respond_operation(respond_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  void take() noexcept {}
};

// A request that was passed to a handler. Move-only. It may outlive the handler, to be answered
// later, but not the Requests. It occupies one entry of its peer's window until it is destroyed and
// the handler has ended. If it is destroyed without an expected response, its caller gets rejected.
// Destroying it REQUIRES the Worker's thread.
class Request {
 public:
  explicit Request(detail::held_request& held) noexcept;
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  ~Request();

  [[nodiscard]] std::uint16_t method() const noexcept;
  // Null if the endpoint is destroyed.
  [[nodiscard]] Endpoint* from() const noexcept;
  // Bytes of the request, whether or not they have arrived.
  [[nodiscard]] std::uint64_t size() const noexcept;
  // Data of a request that arrived with its header; empty for one that has to be read.
  [[nodiscard]] std::span<const std::byte> data() const noexcept;
  // Copies the data into `into`, as much as fits: only now is the caller's memory read. At most
  // once. Errors: truncated, flushed, bad_state (read before, or answered unread), canceled
  // (withdrawn meanwhile), invalid_value. REQUIRES that this lives until the operation is done.
  [[nodiscard]] tag_recv_operation read(const Slice& into) noexcept;

  // Whether a response is expected, and the limit of its length, in bytes.
  [[nodiscard]] bool wants_response() const noexcept;
  [[nodiscard]] std::uint64_t room() const noexcept;
  // When the caller stops waiting for the response, by this reactor's clock; or `never`.
  [[nodiscard]] time_point deadline() const noexcept;
  // The caller has withdrawn it, its deadline has passed, or the connection has ended.
  [[nodiscard]] bool unwanted() const noexcept;
  // Done once unwanted() is true. On cancellation: fails with canceled.
  [[nodiscard]] event::wait_operation until_unwanted() noexcept;

  // Sends the response; at most once, now or later.
  respond_operation respond(const Slice& response = Slice()) noexcept;
  // Sends a redirect to `address` as the response: at most 128 bytes, "host:port" for a
  // RequestSession. Errors: invalid_value if it is empty, or longer; no_memory if it cannot be
  // stored: then the request is not answered.
  respond_operation redirect(std::string_view address) noexcept;

 private:
  detail::held_request* held_;
};

using request_handler = std::function<task<void>(Request)>;

// Calls to the peers of some Messages, and handlers for requests of those peers. Bound to the
// thread of their Worker. Both sides of a connection need Requests. At most one per Messages, which
// outlive it. Destroying it ends the connections that it was used on, with shutdown as the cause.
// It destroys its handlers at their current suspension point, and the operations that they await,
// each by its own contract. REQUIRES that no handler destroys it.
class Requests {
 public:
  // Sends the hello to peers that have called before. Throws cordma::error: invalid_value (options
  // outside their bounds), in_use (the Messages have some), no_lock.
  explicit Requests(Messages& messages, const request_options& options = {});
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests();

  // Each request of that method starts a task with the handler; the windows of all peers limit how
  // many run at a time. An exception of a handler affects only its request. A replaced handler
  // applies to later requests. REQUIRES the Worker's thread.
  void serve(std::uint16_t method, request_handler handler);

  // The response goes into `room`. The peer writes it there, if that is efficient and its memory
  // grants access::remote_write; no other code may use `room` until the call is done.
  call_operation call(Endpoint& to, std::uint16_t method, const Slice& request,
                      const Slice& room = Slice(), const call_options& options = {}) noexcept;
  // call().or_again(): ends with `again` if the call would have to wait in order, or for a credit
  // of the Messages. Unexpected tagged messages at the peer also hold credits that calls and
  // responses need.
  call_operation try_call(Endpoint& to, std::uint16_t method, const Slice& request,
                          const Slice& room = Slice(), const call_options& options = {}) noexcept;
  // Expects no response; notify_acked() expects an acknowledgement that the handler has ended.
  notify_operation notify(Endpoint& to, std::uint16_t method, const Slice& request) noexcept;
  notify_operation notify_acked(Endpoint& to, std::uint16_t method, const Slice& request,
                                const call_options& options = {}) noexcept;

  [[nodiscard]] const request_counters& counters() const noexcept;
  // Number of running handlers.
  [[nodiscard]] std::size_t running() const noexcept;

  // For the library.
  [[nodiscard]] detail::request_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<detail::request_core> core_;
};

}  // namespace cordma
