// What stands behind Messages: who waits for what, of all its endpoints; and one frame_port per transport.
#pragma once

#include <cordma/net/datapath/completion_sink.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/frame.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/protocol/tag_matcher.hpp>
#include <cordma/runtime/scope.hpp>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace cordma::detail {

class request_call;
struct frame_entry;
struct frame_port;
struct rail_core;
struct request_core;
struct request_peer;

// request_peer.cpp: active messages that are the library's own, and the end of who spoke them.
void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept;
void on_requests_end(request_peer& peer) noexcept;
// Whether nothing of it waits, or is on its way, or is to be answered to this side.
[[nodiscard]] bool is_idle(request_peer& peer) noexcept;

// Bytes of one read or write: devices take less at a time than messages may be long.
inline constexpr std::uint64_t longest_request = 1U << 30;

// Room for one frame that comes: posted, held by whoever has not asked for it yet, or free.
struct message_segment : list_node {
  struct kept : protocol::tag_message {
    kept(std::uint64_t tag, const void* from, message_segment& s) noexcept
        : tag_message(tag, from), owner(&s) {}
    message_segment* owner;
  };
  [[nodiscard]] bool is_offer() const noexcept {
    return head.kind == protocol::frame_kind::tag_ready ||
           head.kind == protocol::frame_kind::am_ready;
  }
  // Of what it holds. REQUIRES that it was looked at by peer_core::on_frame().
  [[nodiscard]] std::span<const std::byte> body() const noexcept {
    return {room.addr + protocol::head_bytes, head.body};
  }
  [[nodiscard]] std::span<const std::byte> header() const noexcept {
    return body().subspan(is_offer() ? protocol::bytes_of(what) : 0, header_bytes);
  }
  [[nodiscard]] std::span<const std::byte> data() const noexcept {
    return body().subspan(header_bytes);
  }
  [[nodiscard]] std::uint64_t length() const noexcept {
    return is_offer() ? what.total : body().size() - header_bytes;
  }
  frame_port* port = nullptr;
  transport::segment room;
  std::uint32_t index = 0;
  message_segment* next_free = nullptr;
  peer_core* from = nullptr;  // while it is held; null: that is gone
  bool taken = false;         // of an active message: it is read, or was
  bool left = false;          // it is held, and `from` is gone
  std::uint16_t header_bytes = 0;
  protocol::frame_head head;
  protocol::offer what;         // where is_offer()
  std::optional<kept> waiting;  // of a tagged message that nobody has asked for
};

// A message that was announced to the peer, until that has said what became of it.
struct open_offer : list_node {
  [[nodiscard]] std::size_t take(std::uint64_t most, std::span<Slice> out) noexcept;

  message_send* op = nullptr;  // null: destroyed meanwhile
  std::uint32_t number = 0;
  std::uint32_t in_flight = 0;  // requests that read its memory
  bool open = false;
  bool cut = false;  // the connection has ended
  std::uint8_t pinned = 0;
  std::uint16_t sends = 0;  // slices: of what the peer cannot read, and is sent as it wants it
  std::uint16_t slice = 0;  // where `sent` ends
  std::uint64_t in_slice = 0;
  std::uint64_t total = 0;
  std::uint64_t sent = 0;
  protocol::want wanted;
  std::optional<protocol::offer_outcome> answer;
  std::array<Slice, most_message_slices> slices;
  std::array<region_core*, most_message_slices> pins{};
};

// What one rail reads of a message: its bytes from `begin` to `end` are not here yet.
struct fetch_piece {
  std::uint64_t begin = 0;
  std::uint64_t at = 0;  // up to here they are asked for
  std::uint64_t end = 0;
  std::uint32_t reads = 0;  // in flight
  std::uint8_t rail = 0;
  bool again =
      false;  // a read failed, and its rail with it: all that is not here is to be read once more
};

// A message that the peer has announced and that is wanted.
struct fetch : list_node {
  enum class by : std::uint8_t {
    reads,   // of the peer's memory
    writes,  // by the peer, to where it belongs
    parts,   // frames of it
  };
  void settle() noexcept;
  // settle() comes next, once the entry is free.
  void read_done(const frame_entry& e, const transport::completion& c) noexcept;
  [[nodiscard]] bool all_here() const noexcept;
  [[nodiscard]] std::span<fetch_piece> all_pieces() noexcept {
    return std::span(pieces).first(piece_count);
  }

  peer_core* peer = nullptr;
  message_receive* op = nullptr;  // null: destroyed meanwhile
  protocol::offer from;
  std::uint64_t tag = 0;
  Slice into;
  MemoryRegion keeps;        // where the receive was destroyed
  std::uint64_t wanted = 0;  // bytes: what fits
  std::uint64_t asked = 0;   // of what is written or sent
  std::uint64_t got = 0;     // likewise
  by way = by::reads;
  std::uint8_t piece_count = 0;
  std::array<fetch_piece, protocol::most_rails> pieces;  // of what is read
  std::uint32_t reads = 0;                               // in flight
  bool reading = false;                                  // in read_on(): it finishes there
  std::optional<failure> broken;
  fetch* next_free = nullptr;
};

// A request to a queue pair, and room for the head of a frame and what is short.
struct frame_entry {
  enum class use : std::uint8_t { free, message, control, read, part };
  static constexpr std::uint32_t bytes = 512;
  use what = use::free;
  std::uint8_t pinned = 0;
  std::uint32_t index = 0;
  std::uint32_t lkey = 0;
  std::byte* data = nullptr;
  frame_entry* next_free = nullptr;
  peer_core* peer = nullptr;
  message_send* op = nullptr;  // null: destroyed meanwhile, or none
  fetch* reads_for = nullptr;
  rail_core* over = nullptr;  // of a read that goes over another connection than its peer's own
  std::uint8_t piece = 0;     // of a read
  std::uint32_t length = 0;   // likewise
  open_offer* part_of = nullptr;
  std::array<region_core*, most_message_slices> pins{};
};

// By which rails go, and where a region has the keys for it.
struct rail_device {
  adapter_poller* via;
  std::size_t place;
};

// One more connection to a peer, on which parts of its long messages are read. Its end is no error.
struct rail_core {
  // Where it cannot be made there is no link.
  rail_core(peer_core& of, std::uint32_t number) noexcept;
  ~rail_core();
  rail_core(const rail_core&) = delete;
  rail_core& operator=(const rail_core&) = delete;

  [[nodiscard]] bool usable() const noexcept;
  // What the peer said of its side. connection_aborted, unsupported_version: that is no descriptor.
  [[nodiscard]] result<void> connect(std::span<const std::byte> peer_descriptor) noexcept;
  void close(const failure& why) noexcept;
  // The link has ended.
  void on_end() noexcept;
  void on_pair_gone() noexcept;
  [[nodiscard]] result<void> make(const transport::queue_pair_options& like);

  static constexpr std::uint32_t sends = 16;  // places in its send queue
  peer_core* peer;
  std::uint32_t device;
  std::unique_ptr<endpoint_core> link;
  std::vector<std::byte> descriptor;
  std::uint32_t free_sends = 0;
  std::uint64_t bytes = 0;      // that came by it
  std::uint64_t under_way = 0;  // bytes of reads that are posted on it
  bool heard = false;           // the peer's descriptor
  bool failed = false;          // a read
};

// Frames over one transport.
struct frame_port final : completion_sink {
  frame_port(message_core& of, worker_core& worker, adapter_poller& over);
  ~frame_port();
  [[nodiscard]] result<void> make();

  bool on_completion(std::uint32_t index, const transport::completion& c) noexcept override;
  void on_joined(endpoint_core& endpoint) override;
  void on_worker_gone() noexcept override;
  void on_received(message_segment& s, const transport::completion& c) noexcept;
  void on_sent(frame_entry& e, const transport::completion& c) noexcept;

  // One more peer, that may use so many: of the first ones they are had at once, of the others when they are used.
  // Throws std::bad_alloc, which connecting and accepting take for no_memory. unpromise() gives it back.
  void promise(std::uint32_t segments, std::uint32_t sends);
  void unpromise(std::uint32_t segments, std::uint32_t sends) noexcept;
  void grow_segments(std::uint32_t to);
  void grow_entries(std::uint32_t to);
  void grow_by_need() noexcept;
  // False: not now; what waits for it goes on when another is free.
  [[nodiscard]] bool has_entry() noexcept;
  void feed() noexcept;
  void release(message_segment& s) noexcept;
  // The same, and its peer's credit goes back, where that is there.
  static void let_go(message_segment& s) noexcept;
  // REQUIRES that its peer has_place().
  [[nodiscard]] frame_entry& take_entry(peer_core& peer, frame_entry::use what,
                                        rail_core* over = nullptr) noexcept;
  void release(frame_entry& e) noexcept;
  // The queue pair of that rail is gone, or all of that peer: what it had in flight ends.
  void flush(peer_core& peer, const rail_core* only = nullptr) noexcept;

  [[nodiscard]] std::uint64_t id_of(std::uint32_t index) const noexcept {
    return sink_id(sink_number, index);
  }

  static constexpr std::uint32_t is_send = 1U << 31;  // in an index
  message_core* core;
  worker_core* worker;  // null once it is gone
  adapter_poller* via;
  std::uint32_t eager_bytes;  // of each segment
  std::uint32_t may_post = 0;
  std::unique_ptr<transport::receive_queue> queue;
  std::uint32_t posted = 0;
  std::uint32_t promised_segments = 0;
  std::uint32_t promised_sends = 0;
  std::uint32_t left = 0;  // segments held of peers that are gone: beyond what is promised
  bool starved = false;    // there was no entry for a peer
  std::vector<message_segment*> segments;  // by index
  std::vector<frame_entry*> entries;       // likewise
  message_segment* free_segments = nullptr;
  frame_entry* free_entries = nullptr;
  std::vector<std::unique_ptr<message_segment[]>> segment_chunks;
  std::vector<std::unique_ptr<frame_entry[]>> entry_chunks;
  std::vector<MemoryRegion> memory;
  std::vector<rail_device> devices;  // the first is `via`
  list<peer_core> peers;
};

// One connection that carries frames; part of its endpoint_core.
struct peer_core : list_node {
  peer_core(endpoint_core& of, frame_port& over);
  ~peer_core();
  peer_core(const peer_core&) = delete;
  peer_core& operator=(const peer_core&) = delete;

  void send(message_send& op) noexcept;
  // Carries out what waits, as far as there is room.
  void pump() noexcept;
  void on_connected() noexcept;
  void on_closing() noexcept;
  // Whether a message goes out at once.
  [[nodiscard]] bool sends_now(bool is_long) const noexcept;
  // REQUIRES that `s` is from here.
  void on_frame(message_segment& s, std::uint32_t bytes) noexcept;
  // A request of its own came back.
  void on_sent(frame_entry& e, const transport::completion& c) noexcept;
  // The connection has ended: what waits ends with it.
  // Ends the connection, for that.
  void fail(failure why) noexcept;
  void on_end() noexcept;
  // Nobody holds the endpoint: what nobody has asked for is dropped.
  void on_handle_gone() noexcept;
  // The Messages are gone.
  void on_port_gone() noexcept;
  // The endpoint's queue pair is gone: so are those of the rails.
  void on_pair_gone() noexcept;
  [[nodiscard]] bool idle() noexcept;
  [[nodiscard]] Endpoint* handle() const noexcept;
  // Of the rails, for Endpoint::properties().
  void describe(std::vector<transport::property>& out) const;

  // A message of it is let go: its credit goes back.
  void let_go(message_segment& s) noexcept;
  // Somebody wants the announced message that `s` holds.
  void start_fetch(message_segment& s, message_receive& op) noexcept;
  void refuse(message_segment& s) noexcept;
  void say_done(std::uint32_t offer, protocol::offer_outcome outcome) noexcept;

  endpoint_core* endpoint;
  // As whom the matcher knows it: while Worker::endpoint() connects, that will be its endpoint.
  const endpoint_core* sender;
  frame_port* port;     // null once the Messages are gone
  std::uint32_t sends;  // places in the queue pair's send queue, and those that are free
  std::uint32_t free_sends;
  std::optional<protocol::hello> theirs;  // once it has come
  std::optional<protocol::send_credits> credits;
  protocol::receive_window window;
  bool hello_said = false;
  bool pumping = false;
  list<message_send> waiting;
  list<fetch> fetches;
  list<message_segment> held;  // by who has not asked for them yet, or reads them
  std::vector<std::unique_ptr<open_offer>> offers;
  list<open_offer> sending;  // of them, what is wanted
  std::uint32_t open_offers = 0;
  std::uint32_t next_offer = 0;
  std::uint32_t announced = 0;  // by the peer, and not answered: `dones` has room for them
  std::vector<protocol::done_word> dones;  // that are due
  request_peer* requests = nullptr;        // once it spoke any
  // Its hello of requests, while there are no Requests here to take it.
  std::optional<protocol::request_header> greeting;
  protocol::agreed_rails agreed;                  // once `theirs` is there
  std::vector<std::unique_ptr<rail_core>> rails;  // from number 1 on
  struct alarm final : timer {
    explicit alarm(peer_core& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).of.on_silent(); }), of(p) {}
    peer_core& of;
  };
  // While messages wait for `theirs`, or the end for this side's hello to be received.
  alarm silence{*this};
  bool was_silent = false;
  std::uint32_t rails_said = 0;
  // Of long messages, on the endpoint's own connection: here, and posted.
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_under_way = 0;

 private:
  [[nodiscard]] protocol::hello own_hello() const noexcept;
  void on_hello(const message_segment& s) noexcept;
  [[nodiscard]] bool nothing_waits() noexcept;
  // For the peer's hello, while messages wait for it.
  void listen() noexcept;
  void stop_listening() noexcept;
  void on_silent() noexcept;
  void on_tagged(message_segment& s) noexcept;
  void on_active(message_segment& s) noexcept;
  void on_answer(const message_segment& s) noexcept;
  // connection_aborted, no_memory.
  [[nodiscard]] result<void> on_announced(message_segment& s);
  // What it said cannot be: the connection ends.
  [[nodiscard]] std::optional<failure> obstacle(const message_send& op) const;
  [[nodiscard]] bool is_long(const message_send& op) const noexcept;
  [[nodiscard]] bool has_room(bool is_long) const noexcept;
  [[nodiscard]] bool has_place() const noexcept { return free_sends != 0 && port->has_entry(); }
  void post(message_send& op) noexcept;
  void post_eager(message_send& op) noexcept;
  void say_control() noexcept;
  void post_frame(frame_entry& e, protocol::frame_head head,
                  std::span<const Slice> behind = {}) noexcept;
  void post(frame_entry& e, transport::send_request& request) noexcept;

  // long_message.cpp: announced here
  [[nodiscard]] bool readable(const message_send& op) const noexcept;
  void post_offer(message_send& op) noexcept;
  [[nodiscard]] open_offer* take_offer(message_send& op) noexcept;
  [[nodiscard]] open_offer* offer_of(std::uint32_t number) noexcept;
  void on_want(std::uint32_t number, const protocol::want& want) noexcept;
  void send_on(open_offer& o) noexcept;
  void post_write(frame_entry& e, std::span<const Slice> from, std::uint64_t addr,
                  std::uint64_t rkey) noexcept;
  void part_sent(open_offer& o) noexcept;
  void end_offer(open_offer& o) noexcept;
  void on_done(protocol::done_word word) noexcept;
  void cut_offers() noexcept;
  // announced by the peer
  [[nodiscard]] bool writable(const fetch& f) const noexcept;
  void go_on(fetch& f) noexcept;
  void ask_on(fetch& f) noexcept;
  void on_part(std::uint32_t number, std::span<const std::byte> bytes) noexcept;
  void on_wrote(std::uint32_t number) noexcept;

  // rails.cpp
  void make_rails() noexcept;
  void say_rails() noexcept;
  void on_rail(std::uint64_t number, std::span<const std::byte> descriptor) noexcept;
  [[nodiscard]] rail_core* rail(std::size_t number) const noexcept {
    return number == 0 ? nullptr : rails[number - 1].get();
  }
  // For reads of a message.
  [[nodiscard]] bool usable(std::size_t number, const protocol::offer& from) const noexcept;
  [[nodiscard]] std::size_t rail_after(std::size_t number,
                                       const protocol::offer& from) const noexcept;
  void plan(fetch& f) noexcept;
  void read_on(fetch& f) noexcept;
  void read_piece(fetch& f, std::uint8_t index) noexcept;
  void post_read(fetch& f, std::uint8_t index) noexcept;
};

[[nodiscard]] failure breach(const char* what);
[[nodiscard]] failure plain_messages();

// What was started on an endpoint of Worker::endpoint() that will carry frames: it waits. Receives wait in the
// matcher.
struct early_messages : list_node {
  early_messages(endpoint_core& of, message_core& with);
  ~early_messages();
  void send(message_send& op) noexcept;
  void start(request_call& op) noexcept;
  // On the connection that its endpoint has now.
  void start_all() noexcept;
  void on_end() noexcept;
  void on_messages_gone() noexcept;
  void on_requests_gone(const request_core& gone) noexcept;

  endpoint_core* endpoint;
  message_core* core;  // null once the Messages are gone
  list<message_send> sends;
  list<request_call> calls;
};

struct message_core {
  message_core(Worker& worker, const message_options& options);
  ~message_core();
  // What a connection over that transport is asked for, to carry frames. not_supported, full, no_memory,
  // invalid_value, no_lock.
  [[nodiscard]] result<endpoint_options> options_on(adapter_poller& via, endpoint_options asked);
  void receive(message_receive& op) noexcept;
  [[nodiscard]] std::optional<TagReceived> probe(const protocol::tag_pattern& pattern) noexcept;
  [[nodiscard]] std::optional<TaggedMessage> claim(const protocol::tag_pattern& pattern) noexcept;
  // The message in `s` is for `op`.
  void hand_over(message_segment& s, message_receive& op) noexcept;
  // Null: no memory.
  [[nodiscard]] fetch* take_fetch() noexcept;
  void release(fetch& f) noexcept;
  // Of an active message: begins its handler.
  void run(message_segment& s) noexcept;
  void end(protocol::tag_receive& r, const failure& why) noexcept;
  void end_receives(const failure& why) noexcept;
  // Of those that wait for that one alone.
  void end_receives_from(const endpoint_core& sender, const failure& why) noexcept;
  void on_worker_gone() noexcept;

  message_options options;
  reactor* home;
  std::shared_ptr<worker_anchor> anchor;
  protocol::tag_matcher matcher;
  std::unordered_map<std::uint16_t, std::shared_ptr<const am_handler>> handlers;
  std::uint64_t handler_failures = 0;
  std::uint64_t dropped = 0;
  std::vector<std::unique_ptr<fetch>> all_fetches;
  // They end the fetches that their requests are for.
  std::vector<std::unique_ptr<frame_port>> ports;
  fetch* free_fetches = nullptr;
  request_core* requests = nullptr;  // null: none are served
  list<early_messages> unwired;
  scope tasks;

 private:
  // The receive queue for a connection over that transport.
  [[nodiscard]] result<transport::receive_queue*> queue_on(adapter_poller& via);
};

}  // namespace cordma::detail
