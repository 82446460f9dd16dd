// Shared by the parts of a random program: its hosts and connections, and the records of all their
// traffic.
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
inline constexpr std::size_t huge = 300'000;  // of a message, in some worlds
inline constexpr duration patience =
    std::chrono::milliseconds(100);  // peer_timeout, connect_timeout
inline constexpr duration tick = std::chrono::microseconds(1);
// Tags from here on are received by endpoints, in order; lower tags by any receive.
inline constexpr std::uint64_t first_of_endpoint = 4;
inline constexpr std::uint64_t tags = 8;

enum class fate : std::uint8_t { none, ok, canceled, truncated, rejected, failed };

// One message, and its outcome on both sides.
struct sent_message {
  std::uint64_t tag = 0;
  std::uint32_t bytes = 0;
  bool active = false;
  bool announced = false;  // by an offer: longer than an eager message
  bool after_end = false;  // started after this side had ended the connection
  bool will_not_wait = false;
  fate outcome = fate::none;
  std::uint32_t arrived = 0;
};

struct host_at {
  std::string name;
  std::vector<std::string> rails;  // its additional devices
  std::optional<Context> context;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Messages> messages;
  std::deque<MemoryRegion> answers;  // outlive the Requests; its handlers respond from them
  std::unique_ptr<Requests> requests;
  std::uint32_t eager_bytes = 0;  // of its Messages
  bool one_by_one = false;        // a single receive at a time: then the order can be checked
  bool claims = false;  // no receive is posted for messages to any endpoint: these are claimed
  bool needed = false;  // another object REQUIRES its Messages: they must exist until the end
  bool alive = true;
  bool sound = true;        // its completions are correct
  bool stopped = false;     // its Messages were destroyed, and perhaps its Worker
  std::uint32_t holds = 0;  // messages and requests that its Messages must outlive
};

// Counts an object that is held on the host.
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
  link* of = nullptr;  // null: it uses a pool's connections
  host_at* from = nullptr;
  host_at* to = nullptr;
  Endpoint* out = nullptr;  // at the sender; null after its destruction
  Endpoint* in = nullptr;
  std::vector<sent_message> messages;
  std::array<std::uint64_t, tags> next_of_tag{};
  // Rendezvous messages that were claimed and dropped, less those reported to their senders: by tag
  // and bytes.
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> refused;
};

// The way in which a program ends a connection during the traffic.
enum class farewell : std::uint8_t { none, close, abort, destroy };

// Memory that one side of a stream has mapped, and the writes of the other side there. A write is
// visible after the reader has read the byte of the stream that was written next.
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

// The outcome of one side of a stream.
struct stream_end {
  bool reads = true;     // otherwise it only writes
  bool read = false;     // to the end
  bool written = false;  // completely, and then closed
  bool closed = false;   // successfully
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
  bool by_client = false;                        // true if the client ended it
  bool gracefully = false;                       // true if it ended gracefully on that side
  std::array<std::vector<mapped_at>, 2> mapped;  // by the client, by the server
  std::array<stream_end, 2> stream_ends;
};

enum class manner : std::uint8_t { call, try_call, notify, notify_acked };
// Progress of a handler with a request.
enum class deed : std::uint8_t { none, answered, threw, forgot, redirected };

// One request, and its outcome on both sides.
struct asked_request {
  std::uint64_t number = 0;
  manner how = manner::call;
  const link* over = nullptr;  // null: belongs to a session
  bool from_client = false;
  const host_at* to = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t room = 0;
  std::uint32_t wanted = 0;  // bytes of the response, possibly more than the room
  bool served = true;        // a handler exists
  bool withdrawn = false;    // it may be canceled
  bool timed = false;
  bool repeatable = false;
  bool abandoned = false;  // the operation was destroyed in flight
  bool over_with = false;  // it has an outcome
  errc outcome = errc::ok;
  std::uint32_t runs = 0;       // handlers that read its bytes
  std::uint32_t redirects = 0;  // redirected runs
  deed done = deed::none;       // by the last handler
  bool handler_ended = false;
  std::string elsewhere;  // target of the redirect
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

// A pool with fewer connections than its host has peers.
struct pool_at {
  std::uint64_t number = 0;
  host_at* at = nullptr;
  std::vector<Listener> listeners;  // one of each peer
  std::vector<std::string> addresses;
  std::deque<flow> flows;  // one to each peer
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
  std::vector<std::unique_ptr<std::byte[]>> rooms;  // of regions: outlive all writers
  bool crowded = false;                             // adapters have few queue pairs
  std::size_t longest = largest;                    // bytes of a message
  std::uint64_t share = 1;                          // divisor of the usual work per host
  std::deque<asked_request> asked;
  bool calm = false;    // no more faults, and well-behaved handlers
  bool breaks = false;  // a fault may have ended a connection
  bool over = false;
  std::multiset<std::string> running;  // tasks that end on their own
  scope* all = nullptr;                // the scope of these tasks
  scope* receivers = nullptr;          // the scope of tasks that run until all is over
  std::string complaint;
  tally* sum = nullptr;
  std::deque<host_at> hosts;  // with handlers, which use the members above
  std::deque<link> links;
  std::deque<session_at> sessions;
  std::deque<pool_at> pools;
  std::vector<flow*> flows;
};

void spawn(world& w, const char* what, std::uint64_t number, task<> body);
// Half of the regions get these rights: access rights determine the transfer of a rendezvous
// message.
[[nodiscard]] MemoryRegion memory(world& w, host_at& at, std::size_t bytes, access rights);
// Tries twice, since an injected allocation failure fails one allocation.
[[nodiscard]] MemoryRegion sure_memory(world& w, host_at& at, std::size_t bytes, access rights);
[[nodiscard]] connect_options options_of(world& w, Messages* messages);
// Accepts `asks`; a successful endpoint is added to `accepted`.
[[nodiscard]] task<> accept_one(world* w, host_at* at, ConnectionRequest asks,
                                std::deque<Endpoint>* accepted);
// Requests the task to stop after `time`.
[[nodiscard]] task<> stopped_after(world* w, std::uint64_t number, duration time, task<> body);
[[nodiscard]] bool lives(const link& l);
// Numbers the flow, and adds it to world::flows.
void number(world& w, flow& f, host_at& from, host_at& to);

// ---- messages.cpp ----

inline constexpr std::uint16_t handler_id = 3;
// Sends in flight, with their memory, in starting order.
struct pending_send {
  message_send_operation op;
  std::uint64_t number;
};
// Messages of any tag, or only those that any receive of the host may take.
enum class kinds : std::uint8_t { all, any_receive };
// The message consists of all of `bytes`.
void start_message(world& w, flow& f, Endpoint& out, const Slice& bytes, kinds which,
                   std::deque<pending_send>& pending);
void settle(world& w, flow& f, const pending_send& p, const result<void>& end);
[[nodiscard]] std::size_t random_length(world& w);
[[nodiscard]] task<> send_messages(world* w, flow* f, std::uint64_t count);
// Checks the contents; if `ordered`, also that it arrives after all messages of its tag received
// before.
void check_arrival(world& w, std::span<const std::byte> got, std::uint64_t whole, bool active,
                   bool ordered, const host_at& at);
void check_received(world& w, const result<TagReceived>& got, const Slice& into, bool ordered,
                    const host_at& at);
// Receives until all is over: messages to this host by tag, or messages to that endpoint.
[[nodiscard]] task<> receive_messages(world* w, host_at* at);
[[nodiscard]] task<> receive_at_endpoint(world* w, flow* f);
[[nodiscard]] task<> handle_message(world* w, host_at* at, ActiveMessage m);
// For connections that live: true if all sent messages arrived.
[[nodiscard]] bool all_messages_arrived(const world& w);
void judge_messages(world& w);

// ---- claims.cpp ----

// Until all is over: inspects and claims messages to this host by tag, with no receive posted.
[[nodiscard]] task<> claim_messages(world* w, host_at* at);

// ---- ends.cpp ----

// One side ends the connection after a while.
[[nodiscard]] task<> end_link(world* w, link* l);
// Destroys its Messages after a while, and perhaps its Worker too.
[[nodiscard]] task<> stop_host(world* w, host_at* at);
// True if one side closed it gracefully, and nothing else ended it: its messages have arrived.
[[nodiscard]] bool closed_well(const link& l);
// True if the sender has closed or aborted it.
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
// Runs until its calls are done, and then makes one that has to succeed.
[[nodiscard]] task<> use_session(world* w, session_at* s);

// Memory of a call, used by both kinds of callers.
struct lent_memory {
  MemoryRegion region;
  Slice request;
  Slice room;
};
[[nodiscard]] asked_request random_request(world& w);
// Adds the request to world::asked.
[[nodiscard]] asked_request& note(world& w, asked_request a);
[[nodiscard]] lent_memory write_request(world& w, host_at& from, const asked_request& a);
[[nodiscard]] std::uint16_t method_of(const asked_request& a);
// Reports an error if it cannot have ended like that.
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
