// RequestSession: calls to whoever of a list of addresses is there, over connections that come and go.
#pragma once

#include <cordma/net/connect.hpp>
#include <cordma/net/listener.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/mutex.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/task.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cordma {

class Worker;

struct session_options {
  endpoint_options endpoint;
  // What fails in a row: attempts to connect, and connections that end before a call on them was answered, or a
  // word had left. Of one call: how often it is asked again where its connection ended.
  // Each but the first waits before: up to first_pause, and twice that for each that follows, up to
  // longest_pause; between half of it and all of it, by chance.
  std::uint32_t most_failures = 8;
  duration first_pause = std::chrono::milliseconds(10);
  duration longest_pause = std::chrono::seconds(5);
  // In a row, by connections and by answers, and of one call.
  std::uint32_t most_redirects = 4;
  // What is left is closed gracefully, after the calls that use it. Longer than this that takes only where its
  // peer does not receive: then it is aborted.
  duration close_timeout = std::chrono::seconds(5);
  // Of that chance. Sessions that are to spread out differ in it.
  std::uint64_t seed = 1;
};
static_assert(std::is_trivially_destructible_v<session_options>);

struct session_call_options {
  // Connecting included; zero: for ever; below zero: it has passed.
  duration timeout = duration::zero();
  // To serve it twice is as good as once: it is asked again where its connection ends before its answer.
  bool idempotent = false;
};
static_assert(std::is_trivially_destructible_v<session_call_options>);

struct session_counters {
  std::uint64_t connects = 0;   // that succeeded
  std::uint64_t failures = 0;   // to connect, or of connections
  std::uint64_t redirects = 0;  // followed
  std::uint64_t retries = 0;    // calls that were asked again
};

// Bound to the thread of its Worker, which outlives it as do Messages and Requests. It connects when it
// is asked to call, to the first of its addresses that accepts, from the one on that was last in use;
// one connection at a time, and calls that wait for it share its failure. One that accepts and serves no requests
// has failed, too. What memory is lent to the peer is told with each request, so a new
// connection knows nothing of an older one's. An address that the peer redirects to is used until it
// fails. Each call ends with what Requests::call() ends with, or with what kept it from connecting.
// Asked again are calls that had not left when their connection ended, those that were redirected, and
// idempotent ones. On cancellation: as of the call that is under way. REQUIRES that no call is under way
// when it is destroyed.
class RequestSession {
 public:
  // Throws cordma::error: invalid_value (no address; options of zero).
  RequestSession(Worker& worker, Messages& messages, Requests& requests,
                 std::vector<std::string> addresses, const session_options& options = {});
  RequestSession(const RequestSession&) = delete;
  RequestSession& operator=(const RequestSession&) = delete;
  ~RequestSession();

  [[nodiscard]] task<Response> call(std::uint16_t method, Slice request, Slice room = Slice(),
                                    session_call_options options = {});
  [[nodiscard]] task<void> notify(std::uint16_t method, Slice request,
                                  session_call_options options = {});
  [[nodiscard]] task<void> notify_acked(std::uint16_t method, Slice request,
                                        session_call_options options = {});
  // Closes what is connected, and done when that and what was left before is closed, after the calls that use
  // it. A later call connects again, one that connects now is not waited for. On cancellation: canceled, and all
  // that is closed nevertheless.
  [[nodiscard]] task<void> close();

  // Null: none. Valid until the session connects again.
  [[nodiscard]] Endpoint* endpoint() const noexcept;
  [[nodiscard]] const session_counters& counters() const noexcept { return counters_; }

 private:
  // A connection, and how many calls use it: one that was left goes with the last of them.
  struct link {
    Endpoint endpoint;
    std::uint32_t users = 0;
    bool answered = false;  // a call, or a word has left
    bool failed = false;    // and counted
  };
  struct question {
    detail::request_call::manner how;
    std::uint16_t method;
    Slice request;
    Slice room;
    session_call_options options;
  };
  // One of those: it counts from where the connection is chosen until the call has ended.
  class use;
  [[nodiscard]] task<Response> ask(question what);
  // Whether to ask again, wherever connected() says then.
  [[nodiscard]] bool goes_on(link& over, const failure& why, std::string_view moved_to,
                             bool idempotent);
  // For a call that is asked for the so-many-th time again.
  [[nodiscard]] task<use> connected(std::uint32_t again);
  [[nodiscard]] task<void> pause(std::uint32_t failures);
  [[nodiscard]] task<void> close_quietly(std::unique_ptr<Endpoint> endpoint);
  void on_answer(link& over) noexcept;
  // One more in a row; throws it where it is one too many.
  void failed(const failure& why);
  [[noreturn]] void give_up(const failure& why);
  // The one in use has failed.
  void leave_address() noexcept;
  void move_to(std::string_view address, const failure& why);
  void leave_current() noexcept;
  void drop_unused() noexcept;

  Worker* worker_;
  Messages* messages_;
  Requests* requests_;
  std::vector<std::string> addresses_;
  session_options options_;
  session_counters counters_;
  std::uint64_t chance_;
  std::size_t next_ = 0;  // of the addresses
  std::string moved_to_;  // empty: not redirected
  std::uint32_t failures_ = 0;
  std::uint32_t redirects_ = 0;
  std::uint64_t given_up_ = 0;  // times
  std::optional<failure> why_given_up_;
  std::vector<std::unique_ptr<link>> links_;
  link* current_ = nullptr;
  mutex connecting_;
  event dropped_;  // set whenever a link is given up, or one of those is closed
  scope closing_;
};

// Rejects the request so that a RequestSession asks there: "host:port", at most 128 bytes. Errors as of
// ConnectionRequest::reject(), and invalid_value (longer, or empty).
result<void> redirect(ConnectionRequest& request, std::string_view address);

}  // namespace cordma
