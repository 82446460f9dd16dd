// What the parts of a random program share: its hosts and connections, and what is known of all that goes over
// them.
#pragma once

#include "world.hpp"

#include <support/stage.hpp>

#include <cordma/net/messages.hpp>
#include <cordma/net/request_session.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cordma::schedule {

inline constexpr std::size_t largest = 6000;  // bytes of a message, of a request, of a response
inline constexpr duration patience =
    std::chrono::milliseconds(100);  // peer_timeout, connect_timeout
inline constexpr duration tick = std::chrono::microseconds(1);
// Tags from here on are received by endpoints, in their order; those below by any receive.
inline constexpr std::uint64_t first_of_endpoint = 4;
inline constexpr std::uint64_t tags = 8;

enum class fate : std::uint8_t { none, ok, canceled, truncated, rejected, failed };

// One message, and what became of it at both sides.
struct sent_message {
  std::uint64_t tag = 0;
  std::uint32_t bytes = 0;
  bool active = false;
  fate outcome = fate::none;
  std::uint32_t arrived = 0;
};

struct host_at {
  std::string name;
  std::optional<Context> context;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Messages> messages;
  std::unique_ptr<Requests> requests;
  bool one_by_one = false;  // a single receive at a time: then order can be told
  bool alive = true;
  bool sound = true;  // its completions can be believed
};

struct link;

// One direction of a connection.
struct flow {
  std::uint64_t number = 0;
  link* of = nullptr;
  host_at* from = nullptr;
  host_at* to = nullptr;
  Endpoint* out = nullptr;  // at the sender
  Endpoint* in = nullptr;
  std::vector<sent_message> messages;
  std::array<std::uint64_t, tags> next_of_tag{};
};

struct link {
  bool stream = false;
  host_at* client_at = nullptr;
  host_at* server_at = nullptr;
  Listener listener;
  Endpoint client;
  Endpoint server;
  bool connected = false;
  std::array<flow, 2> flows;
  std::uint64_t stream_bytes = 0;
};

enum class manner : std::uint8_t { call, try_call, notify, notify_acked };
// What a handler did with a request, as far as it got.
enum class deed : std::uint8_t { none, answered, threw, forgot, redirected };

// One request, and what became of it at both sides.
struct asked_request {
  std::uint64_t number = 0;
  manner how = manner::call;
  const link* over = nullptr;  // null: a session's
  const host_at* to = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t room = 0;
  std::uint32_t wanted = 0;  // bytes of the response, which may be more than the room
  bool served = true;        // there is a handler
  bool withdrawn = false;    // somebody may cancel it
  bool timed = false;
  bool repeatable = false;
  bool abandoned = false;  // the operation was destroyed in flight
  bool over_with = false;  // it has an outcome
  errc outcome = errc::ok;
  std::uint32_t runs = 0;       // handlers that had its bytes
  std::uint32_t redirects = 0;  // of those
  deed done = deed::none;       // by the last one
  bool handler_ended = false;
  std::string elsewhere;  // where it is redirected to
};

// A session, and two hosts that serve it.
struct session_at {
  std::uint64_t number = 0;
  host_at* client_at = nullptr;
  std::array<host_at*, 2> servers{};
  std::array<Listener, 2> listeners;
  std::array<std::string, 2> addresses;
  std::deque<Endpoint> accepted;
  std::optional<RequestSession> session;
};

struct world {
  explicit world(std::uint64_t s) : seed(s), chance(s), loop(reactor_options{.time = &time}) {}

  void wrong(const std::string& what) {
    if (complaint.size() < 300) complaint += (complaint.empty() ? "" : "; ") + what;
  }

  std::uint64_t seed;
  test::dice chance;
  virtual_clock time;
  reactor loop;
  std::optional<transport::sim::network> net;
  std::vector<std::unique_ptr<std::byte[]>> rooms;  // of regions: outlive all that may write there
  bool crowded = false;                             // adapters have few queue pairs
  std::deque<asked_request> asked;
  bool calm = false;  // no fault comes any more, and handlers behave
  bool over = false;
  std::multiset<std::string> running;  // tasks that have an end of their own
  scope* all = nullptr;                // where those are
  scope* receivers = nullptr;          // and those that go on until all is over
  std::string complaint;
  tally* sum = nullptr;
  std::deque<host_at> hosts;  // with handlers, which use what is above
  std::deque<link> links;
  std::deque<session_at> sessions;
  std::vector<flow*> flows;
};

void spawn(world& w, const char* what, std::uint64_t number, task<> body);
// Half of it with those rights: how a long message comes over follows from what its memory allows.
[[nodiscard]] MemoryRegion memory(world& w, host_at& at, std::size_t bytes, access rights);
// Asks twice, since an allocation that is to fail fails once.
[[nodiscard]] MemoryRegion sure_memory(world& w, host_at& at, std::size_t bytes, access rights);
[[nodiscard]] connect_options options_of(world& w, Messages* messages);
[[nodiscard]] bool lives(const link& l);

// ---- messages.cpp ----

inline constexpr std::uint16_t handler_id = 3;
[[nodiscard]] task<> send_messages(world* w, flow* f, std::uint64_t count);
// Until all is over: what is sent to this host by tag; what comes to that endpoint.
[[nodiscard]] task<> receive_messages(world* w, host_at* at);
[[nodiscard]] task<> receive_at_endpoint(world* w, flow* f);
[[nodiscard]] task<> handle_message(world* w, host_at* at, ActiveMessage m);
// Of connections that live: what was sent.
[[nodiscard]] bool all_messages_arrived(const world& w);
void judge_messages(world& w);

// ---- requests.cpp ----

void serve_requests(world& w, host_at& at, std::uint32_t credits);
[[nodiscard]] task<> ask_requests(world* w, flow* f, std::uint64_t count);
[[nodiscard]] bool all_requests_arrived(const world& w);
void judge_requests(world& w);

// ---- sessions.cpp ----

void make_session(world& w);
// Until its calls are done, and then one that has to succeed.
[[nodiscard]] task<> use_session(world* w, session_at* s);

// Both of them ask so.
struct lent_memory {
  MemoryRegion region;
  Slice request;
  Slice room;
};
[[nodiscard]] asked_request random_request(world& w);
// In world::asked from now on.
[[nodiscard]] asked_request& note(world& w, asked_request a);
[[nodiscard]] lent_memory write_request(world& w, host_at& from, const asked_request& a);
[[nodiscard]] std::uint16_t method_of(const asked_request& a);
// Says so where it cannot have ended like that.
void settle_request(world& w, asked_request& a, errc code, std::size_t bytes,
                    const lent_memory& lent);

// ---- streams.cpp ----

[[nodiscard]] task<> use_stream(world* w, link* l, bool client);

// ---- faults.cpp ----

[[nodiscard]] transport::sim::link_options bad_link(test::dice& d);
[[nodiscard]] task<> disturb(world* w);
void add(transport::sim::fault_counters& sum, const transport::sim::fault_counters& more) noexcept;

}  // namespace cordma::schedule
