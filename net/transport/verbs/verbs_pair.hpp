// One queue pair: connected (RC, UC) or a datagram port (UD). README.md lists its guarantees.
#pragma once

#include <cordma/net/transport/checked_state.hpp>
#include <cordma/net/transport/timer_of.hpp>
#include <cordma/net/transport/verbs/life_phase.hpp>
#include <cordma/net/transport/verbs/peer_watch.hpp>
#include <cordma/net/transport/verbs/posting.hpp>
#include <cordma/net/transport/verbs/put_places.hpp>
#include <cordma/net/transport/verbs/request_names.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>
#include <cordma/net/transport/verbs/window.hpp>
#include <cordma/net/transport/verbs/work_queues.hpp>

#include <memory>
#include <optional>

namespace cordma::transport::verbs {

// Sets the fields of a successful receive that its message carries, by the flags of the completion.
void note_flags(completion& c, const ibv_wc& wc, const device& from) noexcept;

class datagram_room;
class port_directory;
class verbs_receive_queue;

// The settings that both sides of a connection agreed on.
struct agreed_terms {
  hello theirs;
  std::uint32_t peer = 0;        // number of its queue pair
  std::uint64_t peer_token = 0;  // out of band
  std::uint32_t answers = 0;     // reads and atomics of the peer, in flight
  std::uint8_t mtu = 0;          // an ibv_mtu: the offer of this side, until both have agreed
  std::uint8_t timeout = 0;      // code
  ibv_ah_attr path{};
  address_handle* to_control = nullptr;  // held
  std::optional<pair_descriptor> own;    // descriptor passed to this side's user
};

// Reserved memory for the events that a queue pair always reports.
struct own_events {
  event_place up = reserve_event();
  event_place end = reserve_event();
  event_place last;  // with a receive queue
};

// The receive queue that its messages consume receives from, if any.
struct shared_receives {
  verbs_receive_queue* from = nullptr;
  checked_state<drawing> state{drawing::apart};
};

// service::ud
struct datagram_parts {
  std::unique_ptr<datagram_room> room;
  std::unique_ptr<port_directory> directory;
  std::vector<std::pair<gid_bytes, unique_fd>> groups;
};

// Bound to the adapter's thread.
class verbs_pair final : public queue_pair {
 public:
  verbs_pair(verbs_adapter& home, const queue_pair_options& granted);
  ~verbs_pair() override;
  // Creates the queue pair on the device, ready for receives; full, no_memory.
  [[nodiscard]] result<void> make();

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override;
  [[nodiscard]] std::string peer_address() const override { return peer_; }
  [[nodiscard]] std::vector<property> properties() const override;
  [[nodiscard]] result<queue_pair_state> device_state() const override;
  [[nodiscard]] posted post_send(const send_request& request, completion& now) noexcept override;
  [[nodiscard]] posted post_recv(const recv_request& request, completion& now) noexcept override;
  using queue_pair::put;
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
  // On failure, `client` keeps its identifier if the client can still be notified.
  [[nodiscard]] result<void> answer(incoming& client, std::span<const std::byte> data);
  // service::ud: makes the port send and receive.
  [[nodiscard]] result<void> open_port();
  void on_news(const cm_news& news) noexcept;
  void on_word(const control_message& m) noexcept;
  void on_async(ibv_event_type what) noexcept;
  // Handles the first completion of a batch, and the similar ones after it; returns the next one.
  // Null: the first one is for on_completion(). REQUIRES that there is one.
  [[nodiscard]] const ibv_wc* take_usual(completion_outlet& out, const ibv_wc* next,
                                         const ibv_wc* end) noexcept;
  void on_completion(const ibv_wc& wc) noexcept;
  // For a completion of its receive queue: the status of the message, translated as on every
  // transport.
  [[nodiscard]] wc_status on_shared_receive(const ibv_wc& wc) noexcept;
  [[nodiscard]] std::size_t take(std::span<completion> out) noexcept;
  [[nodiscard]] bool has_completions() const noexcept {
    return sends_.has_finished() || receives_.any_finished();
  }
  // True if the device owes the completion of a request of this side, including the probe.
  [[nodiscard]] bool is_sending() const noexcept {
    return !sends_.idle() || (watch_.is_probing() && !has_failed());
  }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  // True if this control port is that of its peer. Each host numbers its queue pairs separately,
  // and through rdma_cm there are no tokens: a number without the address could be of an unknown
  // host.
  [[nodiscard]] bool has_peer_at(const datagram_address& where, std::uint32_t port) const noexcept;
  [[nodiscard]] bool receives_from(const verbs_receive_queue& q) const noexcept {
    return shared_.from == &q;
  }
  void tell_last_receive() noexcept;
  void device_gone(const failure& why) noexcept { enter_error(why); }
  void device_removed() noexcept;

 private:
  using phase = life_phase;
  // Needed until the connection is established.
  struct handshake {
    peer_addresses candidates;
    failure last{errc::unreachable};
    std::vector<std::byte> data;
  };

  // verbs_pair_data.cpp: requests and completions
  [[nodiscard]] bool carrying() const noexcept { return carries(phase_); }
  [[nodiscard]] bool has_failed() const noexcept { return phase_ == phase::dead; }
  void move_to(phase p) noexcept;
  void choose_usual() noexcept;
  [[nodiscard]] bool datagrams() const noexcept { return options_.type == service::ud; }
  [[nodiscard]] bool plain() const noexcept { return options_.peer == peer_kind::plain; }
  [[nodiscard]] bool puts() const noexcept { return options_.type == service::rc; }
  static constexpr std::uint32_t put_segments = 2;  // the head, and the bytes after it
  // Requests on the device at once: those of the layer above, the probe, and those of put().
  [[nodiscard]] std::uint32_t most_sends() const noexcept {
    return options_.send_depth + 1 + (puts() ? puts_beside(options_.send_depth) : 0);
  }
  [[nodiscard]] std::uint32_t completions() const noexcept {
    return most_sends() + options_.recv_depth;
  }
  // The last numbered request is a bind, or is not on the device: its completion is not on the fast
  // path.
  void note_special() noexcept {
    sends_.note_special();
    choose_usual();
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
  // The operation of an empty request that the peer's device answers after all earlier ones.
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
  // Returns errno, or 0 if the device has the receive.
  [[nodiscard]] int to_device(const recv_request& r, std::uint32_t place) noexcept;
  [[nodiscard]] bool takes_usual(completion_outlet& out, const ibv_wc& wc) noexcept;
  [[nodiscard]] bool takes_usual_receive(completion_outlet& out, const ibv_wc& wc) noexcept;
  void on_send(std::uint32_t number, const ibv_wc& wc) noexcept;
  void end_sends(std::uint32_t count, const ibv_wc& wc) noexcept;
  void after_failed_datagram() noexcept;
  void on_probe(const ibv_wc& wc) noexcept;
  void on_put(std::uint32_t number, const ibv_wc& wc) noexcept;
  [[nodiscard]] completion outcome_of(const send_slot& s) noexcept;
  void on_receive(std::uint32_t place, const ibv_wc& wc) noexcept;
  [[nodiscard]] wc_status begin_receive(const ibv_wc& wc) noexcept;
  [[nodiscard]] static completion outcome_of(const recv_slot& s) noexcept;
  // Completes a receive with `c`, which need not carry its id.
  void finish(std::uint32_t place, const completion& c) noexcept;
  [[nodiscard]] int post_datagram(std::uint32_t place) noexcept;
  // False: it was posted again. `bytes`: length of the message.
  [[nodiscard]] bool take_datagram(std::uint32_t place, const ibv_wc& wc,
                                   std::uint32_t& bytes) noexcept;
  [[nodiscard]] wc_status told(opcode op, wc_status status) const noexcept;
  void settle() noexcept;
  [[nodiscard]] bool outstanding() const noexcept {
    return !sends_.idle() || !receives_.idle() || awaits_last();
  }

  // receive_queue.cpp
  // True in error, or shortly before, while the device may still complete receives of its receive
  // queue.
  [[nodiscard]] bool awaits_last() const noexcept;
  void last_receive() noexcept;
  // True: the receive queue has taken over its objects on the device.
  [[nodiscard]] bool let_go() noexcept;

  // datagram.cpp
  void leave_groups() noexcept;
  [[nodiscard]] result<port_directory*> directory();
  // For the last numbered request. Null: no path to the peer.
  [[nodiscard]] ibv_ah* handle_to(const datagram_address& peer) noexcept;

  // verbs_pair_life.cpp: errors, closing, probing
  void enter_error(failure why) noexcept;
  void die() noexcept;
  void await_flushes() noexcept;
  void set_error_state() noexcept;
  void fail_request(wc_status status, opcode op, std::uint32_t vendor_err) noexcept;
  void revoke() noexcept;
  void take_off() noexcept;
  void never_came_up(cm_event::type what, failure why, std::span<const std::byte> data) noexcept;
  void came_up(std::vector<std::byte> data) noexcept;
  void came_up_by_sign() noexcept;
  void tell(event_place& place, cm_event::type what, failure why,
            std::vector<std::byte> data) noexcept;
  void say_goodbye() noexcept;
  void advance_close() noexcept;
  void await_puts() noexcept;
  void say(word what, std::uint16_t count = 0) noexcept;
  void on_timer() noexcept;
  void on_repeat() noexcept;
  void watch_peer() noexcept;
  void probe() noexcept;
  void watch_arrivals() noexcept;
  [[nodiscard]] failure reset(const char* how) const noexcept;

  // handshake.cpp: establishing
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
  made_pair native_;
  window_table windows_;
  owned_id id_;
  std::uint32_t number_ = 0;
  std::optional<table_place> place_;
  request_names names_;
  checked_state<life_phase> phase_{phase::idle};
  send_ring sends_;
  put_places puts_{puts_beside(options_.send_depth)};
  recv_table receives_;
  shared_receives shared_;
  own_events events_;
  pair_link completed_link_{*this};
  timer_of<&verbs_pair::on_timer> timer_{*this};  // end of patience: connecting, closing, flushing
  timer_of<&verbs_pair::on_repeat> repeat_{*this};  // control datagrams that may get lost; probing
  duration repeat_after_{};
  peer_watch watch_;
  agreed_terms terms_;
  std::string peer_;
  std::unique_ptr<handshake> handshake_;
  datagram_parts datagrams_;
};

}  // namespace cordma::transport::verbs
