// What the parts of a random program share: its hosts and connections, and what is known of all that goes over
// them.
#pragma once

#include "world.hpp"

#include <support/stage.hpp>

#include <cordma/net/endpoint_pool.hpp>
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
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cordma::schedule {

inline constexpr std::size_t largest = 6000;  // bytes of a message, of a request, of a response
inline constexpr std::size_t huge = 300'000;  // of a message in some worlds
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
  bool announced = false;  // too long for the receiver to get it unasked
  bool after_end = false;  // started when this side had ended the connection
  bool will_not_wait = false;
  fate outcome = fate::none;
  std::uint32_t arrived = 0;
};

struct host_at {
  std::string name;
  std::vector<std::string> rails;  // its further devices
  std::optional<Context> context;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Messages> messages;
  std::deque<MemoryRegion> answers;  // outlive the Requests, whose handlers answer from them
  std::unique_ptr<Requests> requests;
  std::uint32_t eager_bytes = 0;  // of its Messages
  bool one_by_one = false;        // a single receive at a time: then order can be told
  bool claims = false;  // no receive is posted for what any endpoint may receive: that is claimed
  bool needed = false;  // something here REQUIRES its Messages: they are not to go before the end
  bool alive = true;
  bool sound = true;        // its completions can be believed
  bool stopped = false;     // its Messages are gone, and perhaps its Worker
  std::uint32_t holds = 0;  // messages and requests that its Messages have to outlive
};

// Counts something that is held there.
class hold {
 public:
  explicit hold(host_at& at) noexcept : at_(at) { ++at_.holds; }
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;
  ~hold() { --at_.holds; }

 private:
  host_at& at_;
};

struct link;

// One direction of a connection.
struct flow {
  std::uint64_t number = 0;
  link* of = nullptr;  // null: it goes over a pool's connections
  host_at* from = nullptr;
  host_at* to = nullptr;
  Endpoint* out = nullptr;  // at the sender; null once it was destroyed
  Endpoint* in = nullptr;
  std::vector<sent_message> messages;
  std::array<std::uint64_t, tags> next_of_tag{};
  // Announced messages that were claimed and dropped, less those whose senders heard so: by tag and bytes.
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> refused;
};

// How a program ends a connection in the middle of all.
enum class farewell : std::uint8_t { none, close, abort, destroy };

// Memory that one side of a stream has mapped, and what the other has written there: to be seen by who has
// read the byte of the stream that was written next.
struct mapped_at {
  struct mark {
    std::uint64_t place;
    std::size_t offset;
    std::size_t bytes;
  };
  MemoryRegion memory;
  std::uint32_t number = 0;
  std::deque<mark> marks;
  std::size_t used = 0;
};

// What became of one side of a stream.
struct stream_end {
  bool reads = true;     // else it only writes
  bool read = false;     // to the end
  bool written = false;  // all of it, and closed after that
  bool closed = false;   // well
  errc cause = errc::ok;
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
  farewell ended = farewell::none;
  bool by_client = false;                        // was it ended
  bool gracefully = false;                       // and that is how it ended there
  std::array<std::vector<mapped_at>, 2> mapped;  // by the client, by the server
  std::array<stream_end, 2> stream_ends;
};

enum class manner : std::uint8_t { call, try_call, notify, notify_acked };
// What a handler did with a request, as far as it got.
enum class deed : std::uint8_t { none, answered, threw, forgot, redirected };

// One request, and what became of it at both sides.
struct asked_request {
  std::uint64_t number = 0;
  manner how = manner::call;
  const link* over = nullptr;  // null: a session's
  bool from_client = false;
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

// A pool that is smaller than its host has peers.
struct pool_at {
  std::uint64_t number = 0;
  host_at* at = nullptr;
  std::vector<Listener> listeners;  // of each peer
  std::vector<std::string> addresses;
  std::deque<flow> flows;  // to each
  std::deque<Endpoint> accepted;
  std::uint32_t most = 1;
  std::optional<EndpointPool> pool;
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
  std::size_t longest = largest;                    // bytes of a message
  std::uint64_t share = 1;                          // of the usual work per host: one in so many
  std::deque<asked_request> asked;
  bool calm = false;    // no fault comes any more, and handlers behave
  bool breaks = false;  // a fault may have ended a connection
  bool over = false;
  std::multiset<std::string> running;  // tasks that have an end of their own
  scope* all = nullptr;                // where those are
  scope* receivers = nullptr;          // and those that go on until all is over
  std::string complaint;
  tally* sum = nullptr;
  std::deque<host_at> hosts;  // with handlers, which use what is above
  std::deque<link> links;
  std::deque<session_at> sessions;
  std::deque<pool_at> pools;
  std::vector<flow*> flows;
};

void spawn(world& w, const char* what, std::uint64_t number, task<> body);
// Half of it with those rights: how a long message comes over follows from what its memory allows.
[[nodiscard]] MemoryRegion memory(world& w, host_at& at, std::size_t bytes, access rights);
// Asks twice, since an allocation that is to fail fails once.
[[nodiscard]] MemoryRegion sure_memory(world& w, host_at& at, std::size_t bytes, access rights);
[[nodiscard]] connect_options options_of(world& w, Messages* messages);
// Of whoever asks; into `accepted`, where that succeeds.
[[nodiscard]] task<> accept_one(world* w, host_at* at, ConnectionRequest asks,
                                std::deque<Endpoint>* accepted);
// It is asked to stop then.
[[nodiscard]] task<> stopped_after(world* w, std::uint64_t number, duration time, task<> body);
[[nodiscard]] bool lives(const link& l);
// A new one, in world::flows from now on.
void number(world& w, flow& f, host_at& from, host_at& to);

// ---- messages.cpp ----

inline constexpr std::uint16_t handler_id = 3;
// Those in flight, with their memory, in the order in which they were started.
struct pending_send {
  message_send_operation op;
  std::uint64_t number;
};
// By whatever tag, or what any receive of the host takes.
enum class kinds : std::uint8_t { all, any_receive };
// All of `bytes` is the message.
void start_message(world& w, flow& f, Endpoint& out, const Slice& bytes, kinds which,
                   std::deque<pending_send>& pending);
void settle(world& w, flow& f, const pending_send& p, const result<void>& end);
[[nodiscard]] std::size_t random_length(world& w);
[[nodiscard]] task<> send_messages(world* w, flow* f, std::uint64_t count);
// Is what it has to be; `ordered`: and comes after all of its tag that were received before.
void check_arrival(world& w, std::span<const std::byte> got, std::uint64_t whole, bool active,
                   bool ordered, const host_at& at);
void check_received(world& w, const result<TagReceived>& got, const Slice& into, bool ordered,
                    const host_at& at);
// Until all is over: what is sent to this host by tag; what comes to that endpoint.
[[nodiscard]] task<> receive_messages(world* w, host_at* at);
[[nodiscard]] task<> receive_at_endpoint(world* w, flow* f);
[[nodiscard]] task<> handle_message(world* w, host_at* at, ActiveMessage m);
// Of connections that live: what was sent.
[[nodiscard]] bool all_messages_arrived(const world& w);
void judge_messages(world& w);

// ---- claims.cpp ----

// Until all is over: what is sent to this host by tag is looked at, and taken, with no receive posted.
[[nodiscard]] task<> claim_messages(world* w, host_at* at);

// ---- ends.cpp ----

// The connection is ended by one side, by and by.
[[nodiscard]] task<> end_link(world* w, link* l);
// Its Messages go, by and by, and perhaps its Worker with them.
[[nodiscard]] task<> stop_host(world* w, host_at* at);
// One side closed it gracefully, and nothing else has ended it: what came from there arrived.
[[nodiscard]] bool closed_well(const link& l);
// The sender has closed or aborted it.
[[nodiscard]] bool ended_from(const flow& f);

// ---- pools.cpp ----

void make_pool(world& w);
[[nodiscard]] task<> use_pool(world* w, pool_at* p);

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
void judge_stream(world& w, const link& l);

// ---- faults.cpp ----

[[nodiscard]] transport::sim::link_options bad_link(test::dice& d);
[[nodiscard]] task<> disturb(world* w);
void add(transport::sim::fault_counters& sum, const transport::sim::fault_counters& more) noexcept;

}  // namespace cordma::schedule
