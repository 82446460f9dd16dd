// RequestSession: calls to the first reachable address of a list, over connections that it makes
// and replaces.
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
  // Limit of consecutive failures: attempts to connect, and connections that end before a call on
  // them was answered or a one-way notification was sent. It is also the limit of retries of one
  // call after the end of its connection. Each attempt but the first waits before: up to
  // first_pause, and twice that for each further attempt, up to longest_pause. The pause is random
  // between half of this value and all of it.
  std::uint32_t most_failures = 8;
  duration first_pause = std::chrono::milliseconds(10);
  duration longest_pause = std::chrono::seconds(5);
  // Limit of consecutive redirects, by connections and by responses, and of redirects of one call.
  std::uint32_t most_redirects = 4;
  // A connection that is no longer used is closed gracefully, after the calls on it. If that takes
  // longer, because the peer does not receive, it is aborted.
  duration close_timeout = std::chrono::seconds(5);
  // Seed of the random pauses. Sessions that are to spread out need different seeds.
  std::uint64_t seed = 1;
};
static_assert(std::is_trivially_destructible_v<session_options>);

struct session_call_options {
  // Includes connecting; zero: no limit; below zero: it has passed.
  duration timeout = duration::zero();
  // The request may be served twice: it is sent again if its connection ends before its response.
  bool idempotent = false;
};
static_assert(std::is_trivially_destructible_v<session_call_options>);

struct session_counters {
  std::uint64_t connects = 0;   // successful
  std::uint64_t failures = 0;   // failed connects, and connections that failed
  std::uint64_t redirects = 0;  // followed
  std::uint64_t retries = 0;    // calls that were sent again
};

// Bound to the thread of its Worker, which outlives it, as do Messages and Requests. It connects on
// a call, to the first of its addresses that accepts, starting with the one last in use. It has one
// connection at a time, and calls that wait for it share its failure. A peer that accepts and
// serves no requests counts as a failure. Each request carries the description of its memory; a new
// connection knows no memory of an older one. An address that the peer redirects to is used until
// it fails. Each call ends with the result of Requests::call(), or with the error of connecting.
// Calls are sent again if they had not been sent when their connection ended, if they were
// redirected, or if they are idempotent. On cancellation: as of the call in progress. REQUIRES that
// no call is in progress when it is destroyed.
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
  // Closes the current connection. Done when it and all earlier connections are closed, after the
  // calls that use them. A later call connects again; a connect in progress is not waited for. On
  // cancellation: fails with canceled, and the connections are still closed.
  [[nodiscard]] task<void> close();

  // The current connection, or null. Valid until the session connects again.
  [[nodiscard]] Endpoint* endpoint() const noexcept;
  [[nodiscard]] const session_counters& counters() const noexcept { return counters_; }

 private:
  // A connection and the number of calls that use it. Once replaced, it is closed with its last
  // call.
  struct link {
    Endpoint endpoint;
    std::uint32_t users = 0;
    bool answered = false;  // a call was answered, or a one-way notification was sent
    bool failed = false;    // its failure was counted
  };
  struct question {
    detail::request_call::manner how;
    std::uint16_t method;
    Slice request;
    Slice room;
    session_call_options options;
  };
  // Counts one use of a link, from the choice of the connection until the call has ended.
  class use;
  [[nodiscard]] task<Response> ask(question what);
  // Whether to send the call again, over the connection that connected() returns next.
  [[nodiscard]] bool goes_on(link& over, const failure& why, std::string_view moved_to,
                             bool idempotent);
  // For a call that is sent again; `again` sets the pause before a new connect, 0: none.
  [[nodiscard]] task<use> connected(std::uint32_t again);
  [[nodiscard]] task<void> pause(std::uint32_t failures);
  [[nodiscard]] task<void> close_quietly(std::unique_ptr<Endpoint> endpoint);
  void on_answer(link& over) noexcept;
  // Counts one more consecutive failure; throws `why` above the limit.
  void failed(const failure& why);
  [[noreturn]] void give_up(const failure& why);
  // Leaves the current address, which has failed.
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
  std::size_t next_ = 0;  // index into the addresses
  std::string moved_to_;  // empty: not redirected
  std::uint32_t failures_ = 0;
  std::uint32_t redirects_ = 0;
  std::uint64_t given_up_ = 0;  // number of times
  std::optional<failure> why_given_up_;
  std::vector<std::unique_ptr<link>> links_;
  link* current_ = nullptr;
  mutex connecting_;
  event dropped_;  // set whenever a link is dropped, or a dropped one is closed
  scope closing_;
};

// Rejects the request so that a RequestSession connects to `address` instead: "host:port", at most
// 128 bytes. Errors as of ConnectionRequest::reject(), and invalid_value (longer, or empty).
result<void> redirect(ConnectionRequest& request, std::string_view address);

}  // namespace cordma
