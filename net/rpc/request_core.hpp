// What stands behind Requests: what was asked and is not answered, what came and is not let go of, and
// per connection a request_peer.
#pragma once

#include <cordma/net/messaging/message_core.hpp>
#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/requests.hpp>
#include <cordma/runtime/scope.hpp>

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace cordma::detail {

// A message of this protocol on its way, with its header.
struct outgoing_word {
  [[nodiscard]] bool busy() const noexcept { return op.has_value(); }
  // `told(context)` when it is done, perhaps at once; then take(). REQUIRES !busy().
  void send(endpoint_core& to, const protocol::request_header& h, const Slice& data, bool announced,
            void (*told)(void* context) noexcept, void* context) noexcept;
  [[nodiscard]] result<void> take() noexcept;

  std::array<std::byte, protocol::longest_response> header;
  std::optional<message_send_operation> op;
  void (*told)(void* context) noexcept = nullptr;
  void* context = nullptr;
};
[[nodiscard]] failure breach_of_requests(const char* what);
// Whether a message that ended so has reached the peer.
[[nodiscard]] bool went_out(const result<void>& sent) noexcept;
// What is told of a request that may have been served.
[[nodiscard]] failure cut_off() noexcept;

// A request on its way, and the place of its answer.
struct asked : list_node {
  void launch(request_peer& to, request_call& by) noexcept;
  void on_sent() noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_read() noexcept;
  // Nobody wants the answer any more.
  void withdraw() noexcept;
  // The call is gone: what the peer may touch is kept.
  void leave() noexcept;
  // Its deadline has passed: it ends, unless something of it is still touched.
  void end_late() noexcept;
  // The connection has: what had not left yet says so itself.
  void end(const failure& why) noexcept;
  // Tells the call, and becomes free, where there is nothing left to wait for.
  void settle() noexcept;
  void tell() noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept {
    return std::uint64_t{generation} << 32 | index;
  }

  request_core* core = nullptr;
  request_peer* peer = nullptr;  // null: it is free
  std::uint32_t index = 0;
  std::uint32_t generation = 1;
  request_call* op = nullptr;  // null: that has ended
  request_call::manner how = request_call::manner::call;
  Slice room;
  std::uint64_t room_bytes = 0;
  bool writable = false;   // the peer may write to the room
  bool announced = false;  // the peer may read the request
  bool answered = false;   // nothing more comes from the peer
  bool withdrawn = false;
  bool late = false;  // its deadline has passed
  std::uint64_t bytes = 0;
  Response response;
  std::optional<failure> outcome;
  std::string redirect;
  MemoryRegion keeps_request;  // where the call is gone; they outlive what is on its way
  MemoryRegion keeps_room;
  outgoing_word request;
  outgoing_word withdrawal;
  std::optional<ActiveMessage> answer;  // while it is read
  std::optional<tag_recv_operation> reading;
  asked* next_free = nullptr;
};

// A request of the peer's, from its arrival until the handler has ended and nobody holds it.
struct held_request : list_node {
  // open: to be answered, or acknowledged, or of no answer; answering: a response is on its way.
  enum class stage : std::uint8_t { open, answering, answered, unwanted };

  void begin(request_peer& from, const protocol::request_header& h, ActiveMessage m) noexcept;
  void respond(request_answer& by) noexcept;
  // The answer without a response.
  void say(protocol::request_outcome outcome, std::uint64_t bytes = 0,
           std::string_view address = {}) noexcept;
  // False: it is too late for that.
  bool withdraw(errc why, protocol::request_outcome outcome) noexcept;
  void on_handler_threw() noexcept;
  void on_handler_ended() noexcept;
  void on_handle_gone() noexcept;
  void on_written() noexcept;
  void on_said() noexcept;
  void settle() noexcept;
  void release_if_done() noexcept;
  void drop_unread() noexcept;
  void tell_answerer() noexcept;
  [[nodiscard]] bool wants_word() const noexcept;
  [[nodiscard]] bool wants_response() const noexcept;
  [[nodiscard]] std::optional<failure> obstacle(const request_answer& by) const;
  void write(const Slice& response) noexcept;
  void write_piece() noexcept;
  void say_written() noexcept;

  struct alarm final : timer {
    explicit alarm(held_request& h) noexcept
        : timer([](timer& t) noexcept {
            static_cast<alarm&>(t).of.withdraw(errc::timed_out,
                                               protocol::request_outcome::timed_out);
          }),
          of(h) {}
    held_request& of;
  };

  request_core* core = nullptr;
  request_peer* peer = nullptr;  // null: the connection has ended, or it is free
  protocol::request_header head;
  std::uint64_t size = 0;
  std::optional<ActiveMessage> message;  // empty: dropped unread
  bool reading = false;                  // or read
  bool running = false;
  bool held = false;
  stage at = stage::open;
  errc why = errc::ok;  // it is unwanted
  event unwanted;
  time_point until = never;
  alarm deadline{*this};
  request_answer* answerer = nullptr;
  std::optional<failure> outcome;  // of that
  MemoryRegion keeps;  // the response's, where the answer is gone; outlives what is on its way
  outgoing_word word;
  std::optional<send_operation> writing;
  Slice unwritten;        // of the response, what is not posted yet
  bool word_due = false;  // behind that
  std::uint64_t response_size = 0;
  held_request* next_free = nullptr;
};

// The requests of one connection, in both directions.
struct request_peer : list_node {
  request_peer(request_core& of, peer_core& on);

  void start(request_call& op) noexcept;
  void pump() noexcept;
  void on_message(ActiveMessage message) noexcept;
  // Of the peer's, which may have come before there were Requests here.
  void on_hello(const protocol::request_header& h) noexcept;
  void on_end() noexcept;
  // Closing may have waited for what has just ended.
  void close_if_due() noexcept;
  void fail(failure why) noexcept;
  void say_what_is_due() noexcept;
  // What told the window has not left, and the connection is there: another message tells it.
  void on_unsent() noexcept;
  void on_silent() noexcept;
  [[nodiscard]] bool is_announced(const request_call& op) const noexcept;
  [[nodiscard]] bool has_place(const request_call& op) const noexcept;
  [[nodiscard]] endpoint_core& endpoint() const noexcept { return *below->endpoint; }
  // What the next header says.
  [[nodiscard]] std::uint16_t given() noexcept { return window.say(); }
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] bool is_idle() noexcept;
  // Whether a message with that header has to be announced, as long as it is.
  [[nodiscard]] bool is_long(std::size_t header, std::uint64_t bytes) const noexcept;

  struct alarm final : timer {
    explicit alarm(request_peer& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).of.on_silent(); }), of(p) {}
    request_peer& of;
  };

  request_core* core;
  peer_core* below;                               // null once the connection has ended
  std::optional<protocol::send_credits> credits;  // once its hello has come
  protocol::receive_window window;
  bool hello_said = false;
  bool pumping = false;
  outgoing_word word;
  alarm silence{*this};
  list<request_call> waiting;
  list<asked> calls;
  list<held_request> held;
  std::uint32_t unanswered = 0;  // of calls: those that are bounded
  std::uint32_t announced = 0;   // likewise, that the peer may read
  std::uint64_t bytes = 0;

 private:
  void on_request(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_response(const protocol::request_header& h, ActiveMessage message) noexcept;
  void on_cancel(std::uint64_t id) noexcept;
};

struct request_core {
  request_core(Messages& of, const request_options& o);
  ~request_core();

  // Null: no memory.
  [[nodiscard]] request_peer* peer_on(peer_core& below) noexcept;
  // The same for what the peer has begun, whose connection ends where there is no memory.
  [[nodiscard]] request_peer* met_by(peer_core& below) noexcept;
  [[nodiscard]] asked* take_asked() noexcept;
  [[nodiscard]] held_request* take_held() noexcept;
  void release(asked& a) noexcept;
  void release(held_request& h) noexcept;
  void reap() noexcept;

  message_core* messages;
  reactor* home;
  request_options options;
  request_counters counters;
  std::unordered_map<std::uint16_t, std::shared_ptr<const request_handler>> handlers;
  std::vector<std::unique_ptr<asked>> all_asked;  // by index
  std::vector<std::unique_ptr<held_request>> all_held;
  asked* free_asked = nullptr;
  held_request* free_held = nullptr;
  std::vector<std::unique_ptr<request_peer>> peers;
  scope tasks;
};

}  // namespace cordma::detail
