// One queue pair: connected (RC, UC) or a datagram port (UD). What it promises is in README.md.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/verbs/arrival_watch.hpp>
#include <cordma/net/transport/verbs/posting.hpp>
#include <cordma/net/transport/verbs/put_places.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>
#include <cordma/net/transport/verbs/window.hpp>

#include <bit>
#include <memory>
#include <optional>

namespace cordma::transport::verbs {

struct send_slot {
  std::uint64_t id;
  std::uint32_t byte_len;  // of a read, unless it failed
  std::uint32_t vendor_err;
  std::uint32_t window;  // of a bind; of others anything
  opcode op;
  wc_status status;
  bool on_device;  // the device owes a completion, or one of a later request that stands for it
};

// While it is posted nothing but its id and on_device.
struct recv_slot {
  std::uint64_t id;
  std::uint32_t byte_len;
  std::uint32_t imm;
  std::uint32_t vendor_err;
  opcode op;
  wc_status status;
  bool has_imm;
  bool on_device;
  std::uint32_t invalidated;  // a key; 0: none
};
static_assert(sizeof(recv_slot) == 32);
static_assert(std::is_trivially_copyable_v<recv_slot> && std::is_trivially_copyable_v<send_slot>);

// Where a queue pair stands.
enum class life_phase : std::uint8_t {
  idle,        // made; to be connected out of band
  resolving,   // rdma_cm looks for the device and the path
  requesting,  // the peer is asked
  accepting,   // the client's last word is missing
  attaching,   // out of band: the peer has yet to say that it is connected as well
  open,
  closing,       // disconnect() was called: goodbye follows what was posted
  goodbye_sent,  // until the peer answers
  dead,          // in error
};
// Whether the right one may follow the left one. A peer has several addresses: each is resolved in its turn.
[[nodiscard]] constexpr bool operator>>(life_phase from, life_phase to) noexcept {
  using enum life_phase;
  switch (to) {
    case idle: return false;
    case resolving: return from <= requesting;
    case requesting: return from == resolving;
    case accepting:
    case attaching: return from == idle;
    case open: return from <= attaching && from != resolving;
    case closing: return from == open;
    case goodbye_sent: return from == closing;
    case dead: return true;
  }
  return false;
}

// The send queue: requests end in order. taken <= done <= posted, as distances of running numbers.
class send_ring {
 public:
  explicit send_ring(std::uint32_t depth)
      : mask_(std::bit_ceil(std::max(depth, 1U)) - 1), at_(new send_slot[mask_ + std::size_t{1}]) {
    CORDMA_REQUIRE_OP(depth, <=, most_depth);
  }
  [[nodiscard]] send_slot& operator[](std::uint32_t number) noexcept { return at_[number & mask_]; }
  [[nodiscard]] bool idle() const noexcept { return done == posted; }
  // One was posted last that a usual completion does not end; and whether such a one is outstanding.
  void note_special() noexcept { special_ = posted; }
  [[nodiscard]] bool has_special() const noexcept { return special_ - done - 1 < posted - done; }
  std::uint32_t posted = 0;
  std::uint32_t done = 0;   // have their final status
  std::uint32_t taken = 0;  // reported

 private:
  std::uint32_t mask_;
  std::uint32_t special_ = 0;  // `posted` behind the last one
  std::unique_ptr<send_slot[]> at_;
};

// The receive queue: a table, because a datagram port gives a receive back to the device when what
// came does not fit into it, and then others end first.
class recv_table {
 public:
  explicit recv_table(std::uint32_t depth)
      : depth_(depth),
        slots_(new recv_slot[depth]()),
        free_(new std::uint32_t[depth]),
        finished_(new std::uint32_t[depth]) {
    CORDMA_REQUIRE_OP(depth, <=, most_depth);
    for (std::uint32_t i = 0; i < depth; ++i) free_[i] = depth - 1 - i;
    free_count_ = depth;
  }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] bool full() const noexcept { return free_count_ == 0; }
  [[nodiscard]] recv_slot& operator[](std::uint32_t place) noexcept { return slots_[place]; }
  [[nodiscard]] std::uint32_t reserve() noexcept { return free_[--free_count_]; }
  void finish(std::uint32_t place) noexcept { finished_[(first_ + count_++) % depth_] = place; }
  [[nodiscard]] bool idle() const noexcept { return free_count_ + count_ == depth_; }
  [[nodiscard]] bool any_finished() const noexcept { return count_ != 0; }
  // Takes back a place that was never finished.
  void release(std::uint32_t place) noexcept { free_[free_count_++] = place; }
  // REQUIRES any_finished(); the slot stays readable until the next reserve().
  [[nodiscard]] const recv_slot& take() noexcept {
    const std::uint32_t place = finished_[first_];
    first_ = (first_ + 1) % depth_;
    --count_;
    free_[free_count_++] = place;
    return slots_[place];
  }

 private:
  std::uint32_t depth_;
  std::unique_ptr<recv_slot[]> slots_;
  std::unique_ptr<std::uint32_t[]> free_;
  std::unique_ptr<std::uint32_t[]> finished_;
  std::uint32_t free_count_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

// Of a receive that succeeded: what came with the message, and was told by the flags of its completion.
void note_flags(completion& c, const ibv_wc& wc, const device& from) noexcept;

struct datagram_room;
class port_directory;
class verbs_receive_queue;

// Bound to the adapter's thread.
class verbs_pair final : public queue_pair {
 public:
  verbs_pair(verbs_adapter& home, const queue_pair_options& granted);
  ~verbs_pair() override;
  // The queue pair on the device, ready to receive into; full, no_memory.
  [[nodiscard]] result<void> make();

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override { return peer_; }
  [[nodiscard]] std::vector<property> properties() const override;
  [[nodiscard]] result<queue_pair_state> device_state() const override;
  [[nodiscard]] posted post_send(const send_request& request, completion& now) noexcept override;
  [[nodiscard]] posted post_recv(const recv_request& request, completion& now) noexcept override;
  [[nodiscard]] bool put(message_head head, const std::byte* data,
                         std::uint32_t bytes) noexcept override;
  void ring() noexcept override;
  void disconnect() noexcept override;
  void abort() noexcept override;
  result<std::vector<std::byte>> descriptor() override;
  result<void> connect(std::span<const std::byte> peer_descriptor) override;
  result<std::uint32_t> make_window(const window_range& range) override;
  void free_window(std::uint32_t window) noexcept override { windows_.free(window); }
  result<datagram_peer> self() override;
  result<datagram_peer> group(const address& name) override;
  result<void> join(const address& group) override;
  result<void> leave(const address& group) override;
  result<address> bind(const address& where) override;
  result<std::uint64_t> resolve(const address& to) override;
  void forget(std::uint64_t request) noexcept override;

  // Called by the adapter.
  void begin(std::vector<socket_address> candidates, std::string peer,
             std::span<const std::byte> data);
  // Where it fails, `client` keeps its identifier as long as there is somebody to be told.
  [[nodiscard]] result<void> answer(incoming& client, std::span<const std::byte> data);
  // service::ud: to where it sends and receives.
  [[nodiscard]] result<void> open_port();
  void on_news(const cm_news& news) noexcept;
  void on_word(const control_message& m) noexcept;
  void on_async(ibv_event_type what) noexcept;
  // First; where both are false on_completion() is for it.
  [[nodiscard]] bool takes_usual(verbs_adapter& home, const ibv_wc& wc) noexcept;
  [[nodiscard]] bool takes_usual_receive(verbs_adapter& home, const ibv_wc& wc) noexcept;
  void on_completion(const ibv_wc& wc) noexcept;
  // Of its receive queue: what became of a message, told as every transport does.
  [[nodiscard]] wc_status on_shared_receive(const ibv_wc& wc) noexcept;
  [[nodiscard]] std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_completions() const noexcept {
    return sends_.taken != sends_.done || receives_.any_finished();
  }
  // Whether the device owes the completion of a request of this side's own, its probe among them.
  [[nodiscard]] bool is_sending() const noexcept {
    return !sends_.idle() || (probing_ && !failed_);
  }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  // Whether its peer's control port is the one there. Each host numbers its queue pairs by itself, and through
  // rdma_cm there are no tokens: a number without the address could be of a host that it never spoke to.
  [[nodiscard]] bool has_peer_at(const datagram_address& where, std::uint32_t port) const noexcept;
  [[nodiscard]] bool receives_from(const verbs_receive_queue& q) const noexcept {
    return shared_ == &q;
  }
  void tell_last_receive() noexcept;
  void device_gone(const failure& why) noexcept { enter_error(why); }
  void device_removed() noexcept;

 private:
  using phase = life_phase;
  struct timed : timer {
    timed(verbs_pair& p, timer::function f) noexcept : timer(f), owner(&p) {}
    verbs_pair* owner;
  };
  // Needed until the connection is up.
  struct handshake {
    peer_addresses candidates;
    failure last{errc::unreachable};
    std::vector<std::byte> data;
  };

  // verbs_pair_data.cpp: requests and completions
  [[nodiscard]] bool carrying() const noexcept {
    return phase_ == phase::open || phase_ == phase::closing || phase_ == phase::goodbye_sent;
  }
  // By its place, once it has one.
  void name_requests() noexcept;
  void move_to(phase p) noexcept {
    phase_.become(p);
    puts_.close();  // came_up() opens them
    choose_usual(p);
  }
  // From closing on an end may be what something waits for, and before it is open a receive may open it.
  // Nothing goes ahead of what waits for a doorbell.
  void choose_usual(phase p) noexcept {
    const bool direct = options_.type == service::rc && p != phase::dead && !home_.has_list(*this);
    usual_ops_ = direct ? plain_ops : 0;
    usual_sends_ = p < phase::closing && !sends_.has_special() ? send_ids_ : ~send_ids_;
    usual_receives_ =
        p == phase::open && options_.type == service::rc ? receive_ids_ : ~receive_ids_;
  }
  [[nodiscard]] bool datagrams() const noexcept { return options_.type == service::ud; }
  [[nodiscard]] bool plain() const noexcept { return options_.peer == peer_kind::plain; }
  [[nodiscard]] bool puts() const noexcept { return options_.type == service::rc; }
  static constexpr std::uint32_t put_segments = 2;  // the head, and what is behind it
  // Requests on the device at once: those of the layer above, the probe, and what is put.
  [[nodiscard]] std::uint32_t most_sends() const noexcept {
    return options_.send_depth + 1 + (puts() ? most_puts : 0);
  }
  [[nodiscard]] std::uint32_t completions() const noexcept {
    return most_sends() + options_.recv_depth;
  }
  // The opcodes that send_queue::post_one() is enough for; on connections that lose nothing.
  static constexpr std::uint32_t plain_ops =
      1U << static_cast<unsigned>(opcode::send) | 1U << static_cast<unsigned>(opcode::send_imm) |
      1U << static_cast<unsigned>(opcode::write) | 1U << static_cast<unsigned>(opcode::write_imm) |
      1U << static_cast<unsigned>(opcode::read);
  // The request that was numbered last is a bind, or is not on the device: its end is not a usual one.
  void note_special() noexcept {
    sends_.note_special();
    choose_usual(phase_);
  }
  [[nodiscard]] unsigned usual_marks(const send_request& r, std::uint64_t total,
                                     send_slot& slot) noexcept;
  [[nodiscard]] posted post_usual(const send_request& r, std::uint64_t total, std::uint32_t number,
                                  send_slot& slot) noexcept;
  [[nodiscard]] posted post_gathered(const send_request& r) noexcept;
  [[nodiscard]] bool fill(ibv_send_wr& wr, ibv_sge* sges, const send_request& r,
                          std::uint32_t number) noexcept;
  [[nodiscard]] bool fill_special(ibv_send_wr& wr, const send_request& r, std::uint64_t total,
                                  send_slot& slot) noexcept;
  // A request of nothing that the peer's device answers behind everything before it.
  [[nodiscard]] access right_to_ask() const noexcept;
  [[nodiscard]] ibv_wr_opcode opcode_to_ask() const noexcept;
  [[nodiscard]] posted post_unusual(const send_request& r) noexcept;
  void post(post_list& l) noexcept;
  void drop_list() noexcept;
  void park(send_slot& slot) noexcept;
  void refused(std::uint32_t first, std::size_t count, std::size_t bad, bool known,
               int code) noexcept;
  void refused_receive(std::uint32_t place, int code) noexcept;
  [[nodiscard]] posted post_unusual_recv(const recv_request& r, std::uint32_t place) noexcept;
  // errno, 0 where the device has it.
  [[nodiscard]] int to_device(const recv_request& r, std::uint32_t place) noexcept;
  void on_send(std::uint32_t number, const ibv_wc& wc) noexcept;
  void end_sends(std::uint32_t count, const ibv_wc& wc) noexcept;
  void after_failed_datagram() noexcept;
  void on_probe(const ibv_wc& wc) noexcept;
  void on_put(std::uint32_t number, const ibv_wc& wc) noexcept;
  [[nodiscard]] completion outcome_of(const send_slot& s) noexcept;
  void on_receive(std::uint32_t place, const ibv_wc& wc) noexcept;
  [[nodiscard]] wc_status begin_receive(const ibv_wc& wc) noexcept;
  [[nodiscard]] static completion outcome_of(const recv_slot& s) noexcept;
  // A receive ends with `c`, which need not name it.
  void finish(std::uint32_t place, const completion& c) noexcept;
  [[nodiscard]] int post_datagram(std::uint32_t place) noexcept;
  // False: it was posted again. `bytes`: of the message.
  [[nodiscard]] bool take_datagram(std::uint32_t place, const ibv_wc& wc,
                                   std::uint32_t& bytes) noexcept;
  [[nodiscard]] wc_status told(opcode op, wc_status status) const noexcept;
  void settle() noexcept;
  [[nodiscard]] bool outstanding() const noexcept {
    return !sends_.idle() || !receives_.idle() || awaits_last();
  }

  // receive_queue.cpp
  // In error, or about to be, while the device may still complete receives of its receive queue.
  [[nodiscard]] bool awaits_last() const noexcept;
  void last_receive() noexcept;
  // True: the receive queue has taken over what the device has of it.
  [[nodiscard]] bool let_go() noexcept;

  // datagram.cpp
  void leave_groups() noexcept;
  [[nodiscard]] result<port_directory*> directory();
  // For the request that was numbered last. Null: no way there.
  [[nodiscard]] ibv_ah* handle_to(const datagram_address& peer) noexcept;

  // verbs_pair_life.cpp: errors, closing, probing
  void enter_error(failure why) noexcept;
  void set_error_state() noexcept;
  void fail_request(wc_status status, opcode op, std::uint32_t vendor_err) noexcept;
  void revoke() noexcept;
  void take_off() noexcept;
  void never_came_up(cm_event::type what, failure why, std::span<const std::byte> data) noexcept;
  void came_up(std::vector<std::byte> data) noexcept;
  void came_up_by_sign() noexcept;
  void tell(event_place& place, cm_event::type what, failure why,
            std::vector<std::byte> data) noexcept;
  void out_of_memory() noexcept;
  void say_goodbye() noexcept;
  void advance_close() noexcept;
  void await_puts() noexcept;
  void say(word what, std::uint16_t count = 0) noexcept;
  void on_timer() noexcept;
  void on_repeat() noexcept;
  void watch_peer() noexcept;
  void probe() noexcept;
  void watch_arrivals() noexcept;
  void set_waiting(bool on) noexcept;
  [[nodiscard]] failure reset(const char* how) const noexcept;

  // handshake.cpp: coming up
  void try_next_candidate() noexcept;
  [[nodiscard]] result<void> try_candidate(const socket_address& to);
  void next_or_fail(failure why) noexcept;
  void follow(const cm_news& news);
  void on_resolved();
  void request();
  void on_response(const cm_news& news);
  void on_refusal(const cm_news& news);
  [[nodiscard]] std::uint8_t offered_mtu() noexcept;
  [[nodiscard]] hello greeting(hello_kind kind);
  void agree(const hello& theirs, const read_depths& reads);
  void agree_unsaid(const read_depths& reads);
  [[nodiscard]] result<void> ask_path(ibv_qp_state state, ibv_qp_attr& attr, int& mask) const;
  [[nodiscard]] failure hung_up() const;
  [[nodiscard]] result<void> make_ready(std::uint32_t peer_number);
  [[nodiscard]] result<void> to_receive(ibv_qp_attr attr, int mask);
  [[nodiscard]] result<void> to_send(ibv_qp_attr attr, int mask);
  [[nodiscard]] ibv_qp_attr granted_attributes() const;
  [[nodiscard]] result<void> attach_to(const pair_descriptor& d);

  verbs_adapter& home_;
  queue_pair_options options_;
  ibv_cq* queue_ = nullptr;
  owned<ibv_qp> qp_;
  ibv_qp_cap given_{};  // by the device, for what options_ ask: at least that
  send_queue requests_;
  window_table windows_;
  owned_id id_;
  std::uint32_t number_ = 0;
  verbs_adapter::place place_;
  std::uint64_t send_ids_ = 0;  // the wr_id of its request number 0
  std::uint64_t receive_ids_ = 0;
  std::uint64_t put_ids_ = 0;
  // Those whose completions takes_usual() and takes_usual_receive() are for; else names that nothing of it has.
  std::uint64_t usual_sends_ = 0;
  std::uint64_t usual_receives_ = 0;
  std::uint32_t usual_ops_ =
      0;  // by bit, see post_send(); none once it failed, or while a list is held back
  bool placed_ = false;
  checked_state<life_phase> phase_{phase::idle};
  bool receiving_ = false;  // the device may take messages: the peer can be ahead of its last word
  bool established_ = false;
  bool failed_ = false;
  bool waiting_ = false;  // counted by the adapter as waiting
  bool peer_said_goodbye_ = false;
  bool probing_ = false;
  std::uint8_t timeout_code_ = 0;
  std::uint8_t mtu_ = 0;  // an ibv_mtu: what this side offers, until both have agreed
  hello theirs_;
  std::uint32_t peer_number_ = 0;
  std::uint32_t answers_ = 0;  // reads and atomics of the peer, in flight
  ibv_ah_attr path_{};
  address_handle* to_control_ = nullptr;  // held
  send_ring sends_;
  put_places puts_;
  recv_table receives_;
  verbs_receive_queue* shared_ = nullptr;
  bool had_last_ = false;  // nothing comes out of shared_ any more
  event_place up_place_ = reserve_event();
  event_place end_place_ = reserve_event();
  event_place last_place_;  // with shared_
  pair_link completed_link_{*this};
  timed timer_;   // the end of patience: connecting, closing, flushing
  timed repeat_;  // control datagrams that may get lost; probing
  duration repeat_after_{};
  duration silence_{};  // after which an idle peer is asked, at the latest
  std::uint32_t activity_ = 0;
  std::uint32_t activity_seen_ = 0;
  arrival_watch watch_;  // service::uc
  std::string peer_;
  std::unique_ptr<handshake> handshake_;
  std::optional<pair_descriptor> own_descriptor_;
  std::uint64_t peer_token_ = 0;
  std::unique_ptr<datagram_room> room_;  // service::ud
  std::unique_ptr<port_directory> directory_;
  std::vector<std::pair<gid_bytes, unique_fd>> groups_;
};

}  // namespace cordma::transport::verbs
