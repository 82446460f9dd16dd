// Requests: calls that are answered, and words that are not, between the Endpoints of Messages.
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
  // Requests of one peer that are here at once, running or kept; the others wait there. At least 1, and
  // less than message_options::credits.
  std::uint32_t window = 24;
  // Of calls to one peer, and acknowledged words, that are not answered: those after them wait their
  // turn. At least 1 each. A call with more bytes of request than most_bytes is invalid_value.
  std::uint32_t most_calls = 1024;
  std::uint64_t most_bytes = std::uint64_t{64} << 20;
  // Bytes of a request, or a response, that go along with its header. Longer requests are read by their
  // handler, longer responses are written where the room for them grants access::remote_write. Where
  // the peer's message_options::eager_bytes are less than this and 64, what does not fit them is longer.
  std::uint32_t inline_max = 8192;
  bool force_read = false;   // every request that has bytes is read by its handler
  bool force_write = false;  // every response that has bytes is written, where it may be
  // How long a peer may take to say that it serves requests at all: it does so when it has Requests, which
  // may be made after the first call has come.
  duration hello_timeout = std::chrono::seconds(10);
};
static_assert(std::is_trivially_destructible_v<request_options>);

struct call_options {
  // By the clock of this reactor; at the peer the same time from arrival on. Zero: for ever. Below zero: it has
  // passed.
  duration timeout = duration::zero();
};
static_assert(std::is_trivially_destructible_v<call_options>);

// What a call got.
struct Response {
  std::size_t bytes = 0;  // in the room
  bool written = false;   // by the peer, rather than received as a message
};

// Counted since the Requests were made; both sides of it.
struct request_counters {
  std::uint64_t requests_along = 0;     // arrived with their bytes
  std::uint64_t requests_read = 0;      // arrived announced
  std::uint64_t responses_along = 0;    // to calls of this side
  std::uint64_t responses_read = 0;     // likewise: announced, and read into the room
  std::uint64_t responses_written = 0;  // likewise
  std::uint64_t handler_failures = 0;   // handlers that threw
  std::uint64_t unserved = 0;           // requests of a method without a handler
  std::uint64_t words_given = 0;        // that said nothing but how many requests more may come
  // Of withdrawals that arrived: before the answer had begun, after, and when it had gone.
  std::uint64_t withdrawn = 0;
  std::uint64_t withdrawn_late = 0;
  std::uint64_t withdrawn_unknown = 0;
  std::uint64_t late_responses = 0;  // to calls that had ended for their deadline
};

namespace detail {

// A request that goes out: waits for its turn, or is on its way, or waits for the answer.
class request_call : public operation_base {
 public:
  enum class manner : std::uint8_t { call, notify, notify_acked };
  request_call(request_core& core, endpoint_core& to, manner how, std::uint16_t method,
               const Slice& request, const Slice& room, duration timeout) noexcept;
  request_call(request_call&& other) noexcept;
  ~request_call();

  // Why it was to be asked elsewhere; empty otherwise. After done().
  [[nodiscard]] std::string_view redirected_to() const noexcept { return redirect_; }

 protected:
  friend class asked;
  friend class request_core;
  friend class request_peer;
  void do_start() noexcept;
  // To the peer. REQUIRES that its endpoint has one.
  void go() noexcept;
  // Of the calls that wait for a connection, those of `core` fail.
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
  asked* asked_ = nullptr;  // once it goes out
  manner how_;
  std::uint16_t method_;
  Slice request_;
  Slice room_;
  duration timeout_;
  alarm alarm_;
  Response response_;
  std::string redirect_;
};

// An answer that goes out.
class request_answer : public operation_base {
 public:
  // The response, or that address.
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

// Resolves when the answer is in the room; request and room are yours again, whatever the outcome.
// Errors:
//   truncated         the response is longer than the room; the peer was told
//   not_found         the peer serves no such method
//   rejected          its handler failed, or gave no answer; or redirected_to() says where to ask
//   timed_out         the timeout passed, or was below zero
//   connection_reset  the connection ended after the request was on its way: it may have been served
//   flushed           the connection ended before
//   not_supported     plain messages; or the peer serves no requests at all (after hello_timeout); or
//                     request or room in device memory
//   invalid_value     slices of another Context, room without local_write, above most_bytes
//   again             try_call() alone: it would have had to wait its turn
//   not_connected, shutdown, no_memory, no_lock   as everywhere
// On cancellation: canceled where it waits its turn. Then the peer is told, and it ends with what that
// says: canceled, or too late, the response. A timeout ends a call at once where nobody touches memory of it
// any more. Where the peer may still read the request or write to the room, it ends with its word, or the
// connection; where a request of more than 512 bytes with its headers is being sent from where it is, once it
// has been taken. Destroyed in flight it keeps the memory's regions until then. For a std::stop_token:
// with_stop().
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

// notify(): resolves when the request's memory is yours again: a short one is on its way then, a long
// one was read. notify_acked(): when its handler has ended. Errors as of a call, where they can be.
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

// Resolves when the response's memory is yours again; the caller has it then, or soon will. Errors:
// truncated (the room is shorter; the caller was told, and the request is answered), canceled, timed_out
// or connection_reset (nobody waits for it any more), bad_state (answered before, or it wants no
// answer), invalid_value (memory of another Context), not_supported (device memory), no_lock, and as an Endpoint's write() where a long
// response is written, whose failure ends the connection. Cannot be canceled: it waits for nobody's
// program but where a long response is read by the caller. Destroyed in flight it keeps the memory's
// region until it is done.
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

// A request that came to a handler. Move-only; it may outlive the handler, to be answered later, but not
// the Requests. It takes one of its peer's window until it is destroyed and the handler has ended.
// Destroyed without an answer, where one is wanted: rejected, at the caller. It REQUIRES the Worker's thread.
class Request {
 public:
  explicit Request(detail::held_request& held) noexcept;
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  ~Request();

  [[nodiscard]] std::uint16_t method() const noexcept;
  // Null: it is gone.
  [[nodiscard]] Endpoint* from() const noexcept;
  // Bytes of the request, wherever they are.
  [[nodiscard]] std::uint64_t size() const noexcept;
  // Of one that came along with its header; empty where it is to be read.
  [[nodiscard]] std::span<const std::byte> data() const noexcept;
  // Brings the data there, as much as fits: memory of the caller is read only now. Once. Errors:
  // truncated, flushed, bad_state (read before, or answered unread), canceled (withdrawn meanwhile),
  // invalid_value. REQUIRES that this lives until then.
  [[nodiscard]] tag_recv_operation read(const Slice& into) noexcept;

  // Whether it is to be answered at all, and how long the answer may be, in bytes.
  [[nodiscard]] bool wants_response() const noexcept;
  [[nodiscard]] std::uint64_t room() const noexcept;
  // When nobody waits for the answer any more, by this reactor's clock; `never`.
  [[nodiscard]] time_point deadline() const noexcept;
  // The caller has withdrawn it, its deadline has passed, or the connection has ended.
  [[nodiscard]] bool unwanted() const noexcept;
  // Done when it is. On cancellation: canceled.
  [[nodiscard]] event::wait_operation until_unwanted() noexcept;

  // The answer; now or later, once.
  respond_operation respond(const Slice& response = Slice()) noexcept;
  // The answer is to ask there: at most 128 bytes, "host:port" for a RequestSession. invalid_value where it
  // is empty, or longer; no_memory where there is none to keep it: then the request is not answered.
  respond_operation redirect(std::string_view address) noexcept;

 private:
  detail::held_request* held_;
};

using request_handler = std::function<task<void>(Request)>;

// Calls to the peers of some Messages, and handlers for theirs. Bound to the thread of their Worker.
// Both sides of a connection have to have them. At most one per Messages, which outlive it. Destroying
// it ends the connections that it was used on, with shutdown as the cause, and destroys its handlers
// where they stand, and with them what they wait for, each by its own contract. REQUIRES that none of them
// does it.
class Requests {
 public:
  // Peers that have called before are greeted now. Throws cordma::error: invalid_value (options outside
  // their bounds), in_use (the Messages have some), no_lock.
  explicit Requests(Messages& messages, const request_options& options = {});
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests();

  // Each request of that method begins a task with the handler; as many run at a time as the windows of
  // all peers let. What a handler throws costs its request alone. One that is set anew is for the
  // requests that come later. REQUIRES the Worker's thread.
  void serve(std::uint16_t method, request_handler handler);

  // The response goes into `room`; it is written there by the peer, where that is worth it, if its
  // memory grants access::remote_write: until the call is done nobody else may use it.
  call_operation call(Endpoint& to, std::uint16_t method, const Slice& request,
                      const Slice& room = Slice(), const call_options& options = {}) noexcept;
  // call().or_again(): ends with `again` where that would wait its turn, or for a credit of the Messages: tagged
  // messages that a peer has not asked for hold those of calls and answers up, too.
  call_operation try_call(Endpoint& to, std::uint16_t method, const Slice& request,
                          const Slice& room = Slice(), const call_options& options = {}) noexcept;
  // No answer is wanted; with _acked, word that the handler has ended.
  notify_operation notify(Endpoint& to, std::uint16_t method, const Slice& request) noexcept;
  notify_operation notify_acked(Endpoint& to, std::uint16_t method, const Slice& request,
                                const call_options& options = {}) noexcept;

  [[nodiscard]] const request_counters& counters() const noexcept;
  // Handlers that run.
  [[nodiscard]] std::size_t running() const noexcept;

  // For the library.
  [[nodiscard]] detail::request_core& core() noexcept { return *core_; }

 private:
  std::unique_ptr<detail::request_core> core_;
};

}  // namespace cordma
