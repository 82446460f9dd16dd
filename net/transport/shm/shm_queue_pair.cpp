#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {

shm_queue_pair::shm_queue_pair(shm_adapter& home, side which, const queue_pair_options& options,
                               std::string path)
    : domain_(home.of()),
      home_(home),
      events_room_(home.events(), event_queue::events_of(options)),
      side_(which),
      options_(options),
      path_(std::move(path)),
      socket_(home.sockets(), *this),
      connect_timer_(
          [](timer& t) noexcept { static_cast<pair_timer&>(t).owner.on_connect_timeout(); }, *this),
      call_timer_([](timer& t) noexcept { static_cast<pair_timer&>(t).owner.on_call_timer(); },
                  *this),
      rnr_timer_([](timer& t) noexcept { static_cast<pair_timer&>(t).owner.on_rnr_timeout(); },
                 *this),
      watch_timer_([](timer& t) noexcept { static_cast<pair_timer&>(t).owner.on_watch(); }, *this) {
  CORDMA_REQUIRE_OP(options_.send_depth, >, 0U);
  CORDMA_REQUIRE_OP(options_.max_segments, <=, most_segments);
  const std::uint32_t recvs = std::bit_ceil(options_.recv_depth);
  const std::uint32_t sends = std::bit_ceil(options_.send_depth);
  recv_mask_ = recvs - 1;
  send_mask_ = sends - 1;
  recvs_ = std::make_unique<recv_entry[]>(recvs);
  sends_ = std::make_unique<send_entry[]>(sends);
  shared_ = static_cast<reporting_receive_queue*>(options_.shared);
  const std::size_t each = options_.max_segments;
  const std::size_t of_recv = shared_ != nullptr ? shared_->max_segments() : each;
  const std::size_t sent = sends * each;
  segment_store_ = std::make_unique<segment[]>(sent + recvs * of_recv);
  for (std::size_t i = 0; i < recvs; ++i) recvs_[i].segments = &segment_store_[sent + i * of_recv];
  inline_store_ = std::make_unique<std::byte[]>(std::size_t{sends} * options_.inline_bytes);
  const result<std::uint64_t> random = random_number();
  probe_value_ = (random ? *random : 0) | 1;
  home_.attach(*this);
  if (shared_ != nullptr) shared_->enter();  // what leaves again is only what was made whole
}

shm_queue_pair::~shm_queue_pair() {
  if (home_.home().inherited()) leave_to_parent();
  if (state_ == state::connecting || asked_ != 0) home_.expect(-1);
  if (state_ == state::up) {
    withdraw();
    if (closing_ && !said_bye_) {
      auto p = make_packet<fault_packet>(packet::fault);
      p.position = no_position;
      p.code = errc::not_connected;
      put_text(p.text, "closed before everything was sent");
      static_cast<void>(send_packet(socket_.get(), p));
    }
  }
  CORDMA_ASSERT_OP(accesses_ % 2, ==, 0U);
  state_.become(state::error);
  if (shared_ != nullptr) leave_shared();
  close_hidden();
  end_socket();
  home_.drop_events(this);
  home_.detach(*this);
}

std::string shm_queue_pair::local_address() const {
  return "shm:process " + std::to_string(::getpid());
}

std::string shm_queue_pair::peer_address() const {
  return "shm:" + path_ + " (" + std::string(peer_text()) + ")";
}

introduction shm_queue_pair::introduce(packet type,
                                       std::span<const std::byte> data) const noexcept {
  auto i = make_packet<introduction>(type);
  i.cell_size = cell_bytes;
  i.ring_size = domain_.options().ring_bytes;
  i.rnr_timer_ns =
      static_cast<std::uint64_t>(std::max<duration::rep>(options_.rnr_timer.count(), 0));
  i.probe_address = reinterpret_cast<std::uintptr_t>(&probe_value_);
  i.probe_value = probe_value_;
  i.token = common_token_;
  i.pid = static_cast<std::uint32_t>(::getpid());
  i.rnr_retry = options_.rnr_retry;
  i.fences_itself = domain_.barriers() ? 0 : 1;
  i.reads_peer = can_read_peer_ ? 1 : 0;
  i.data_bytes = static_cast<std::uint8_t>(std::min(data.size(), i.data.size()));
  std::copy_n(data.data(), i.data_bytes, i.data.data());
  return i;
}

result<void> shm_queue_pair::adopt_socket(socket_fd& socket) noexcept {
  socket_.own(std::move(socket));
  const result<void> watched = socket_.watch(watched_for);
  if (!watched) socket = socket_.release();
  return watched;
}

// Whether the kernel lets us read the peer's memory, and it is the peer's.
bool shm_queue_pair::probe() noexcept {
  if (peer_.who.pid == 0) return false;
  std::uint64_t seen = 0;
  iovec local{&seen, sizeof seen};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(peer_.probe_address)),
               sizeof seen};
  return ::process_vm_readv(peer_.who.pid, &local, 1, &remote, 1, 0) ==
             static_cast<ssize_t>(sizeof seen) &&
         seen == peer_.probe_value;
}

void shm_queue_pair::establish(channel memory, peer_terms terms, std::vector<std::byte> data) {
  const channel& used = memory.control != nullptr ? memory : memory_;
  CORDMA_REQUIRE(used.control != nullptr);
  CORDMA_REQUIRE_OP(terms.page.size(), >=, sizeof(adapter_page));
  CORDMA_REQUIRE_OP(terms.epochs.size(), ==, epochs_bytes);
  const auto& incoming = used.control->direction[1 - static_cast<std::size_t>(side_)];
  domain_.add({&incoming.accessing, socket_.get()});
  if (state_ == state::connecting) home_.expect(-1);
  if (connect_timer_.pending()) home_.home().remove(connect_timer_);
  if (memory.control != nullptr) memory_ = std::move(memory);
  peer_ = std::move(terms);
  peer_page_ = reinterpret_cast<adapter_page*>(peer_.page.data());
  fences_ = !domain_.barriers();
  can_read_peer_ = probe();
  const std::size_t out = static_cast<std::size_t>(side_);
  const auto ring_bytes = static_cast<std::uint32_t>((memory_.view.size() - rings_at) / 4);
  writer_ = ring_writer(memory_.cells[out], ring_bytes, &out_control());
  reader_ = ring_reader(memory_.cells[1 - out], ring_bytes, &in_control());
  eager_ = std::min<std::uint64_t>(domain_.options().eager_bytes, ring_bytes / 4 - 64);
  CORDMA_ASSERT_OP(eager_, <, writer_.most_payload());
  state_.become(state::up);
  cm_event e;
  e.what = cm_event::type::established;
  e.pair = this;
  e.data = std::move(data);
  home_.report(std::move(e));
}

void shm_queue_pair::event_taken(cm_event::type what) noexcept {
  if (what == cm_event::type::established) {
    announced_ = true;
    open_ = state_ == state::up && !closing_;
    settle();
  } else if (what == cm_event::type::disconnected || what == cm_event::type::rejected ||
             what == cm_event::type::failed) {
    cause_out_ = true;
  }
}

// Recomputes what the fast paths look at.
void shm_queue_pair::settle() noexcept {
  const bool up = state_ == state::up && announced_;
  const bool sending = head_ != tail_ || (closing_ && up);
  plain_ = up && !sending && !dying_ && !fetch_.active && unanswered_.empty();
  if (state_ == state::up) set_waiting(sending);
}

std::size_t shm_queue_pair::poll(std::span<completion> out, bool& progressed) noexcept {
  if (state_ == state::error) return hand_out_flushed(out);
  if (state_ != state::up || !announced_) return 0;
  std::size_t n = receive(out, progressed);
  if (state_ != state::up) return n;
  if (plain_) return n;
  if (!unanswered_.empty()) flush_answers();
  if (head_ != tail_) {
    advance();
    if (state_ == state::up) n += retire(out.subspan(n));
  }
  if (state_ == state::up && closing_) advance_close();
  if (state_ == state::up && dying_ && !lent_ && n < out.size() && !has_whole()) {
    finish_dying();
  }
  if (state_ == state::up) settle();
  return n;
}

bool shm_queue_pair::has_work() noexcept {
  if (state_ == state::error) {
    return cause_out_ && (head_ != tail_ || !receives_empty() || owes_last());
  }
  if (state_ != state::up || !announced_) return false;
  if (fetch_.active) return true;
  if (reader_.ready()) {
    if (in_place && !by_receive_) return true;
    const message what = reader_.header().what;
    const bool needs_receive = what >= message::send && what <= message::write_imm;
    if (!receives_empty() || !needs_receive) return true;
    if (shared_ != nullptr && shared_->lends_to(*this)) return true;
  }
  if (dying_) return !reader_.ready();
  if (head_ == tail_) return closing_ && said_bye_ && writer_.taken() >= bye_goal_;
  if (exec_ != tail_ && !(closing_ && exec_ == close_mark_)) {
    if (serve_sent_) {
      if (out_control().served.load(std::memory_order_acquire) >= serves_sent_) return true;
    } else if (asked_ == 0) {
      const std::uint64_t known = writer_.known_taken();
      if (writer_.taken() != known) return true;
    }
  }
  if (head_ == exec_) return false;
  send_entry& e = sends_[head_ & send_mask_];
  return e.at == stage::finished ||
         (e.at == stage::fetch &&
          out_control().fetched.load(std::memory_order_acquire) >= e.goal) ||
         (e.at == stage::flush && writer_.taken() >= e.goal);
}

void shm_queue_pair::disconnect() noexcept {
  if (closing_ || state_ == state::error) return;
  if (state_ != state::up) {
    fail_connecting(failure(errc::not_connected, "closed before the connection was up"));
    return;
  }
  closing_ = true;
  open_ = false;
  plain_ = false;
  close_mark_ = tail_;
  advance();
  if (state_ == state::up) advance_close();
  watch_peer();
}

// As long as the peer owes something it is watched. Whatever it does shows: it takes messages, copies, serves, looks
// for a receive, sends messages, reads or writes our memory, or answers a question for a region. Nothing is owed for what
// is complete when it is posted, so that the fast paths know nothing of this.
void shm_queue_pair::watch_peer() noexcept {
  if (state_ != state::up || dying_ || watch_timer_.pending()) return;
  signs_seen_ = signs_of_life();
  suspected_ = false;
  home_.home().add(watch_timer_, after(home_.home().now(), options_.peer_timeout / 2));
}

std::uint64_t shm_queue_pair::signs_of_life() const noexcept {
  const ring_control& c = out_control();
  return c.taken.load(std::memory_order_relaxed) + c.fetched.load(std::memory_order_relaxed) +
         c.served.load(std::memory_order_relaxed) + c.held_up.load(std::memory_order_relaxed) +
         in_control().accessing.load(std::memory_order_relaxed) + reader_.position() +
         packets_taken_;
}

void shm_queue_pair::on_watch() noexcept {
  if (state_ != state::up || dying_ || (head_ == tail_ && !closing_)) return;
  if (signs_of_life() != signs_seen_) {
    watch_peer();
    return;
  }
  if (suspected_) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.peer_timeout);
    const std::string text = std::to_string(ms.count());  // short: allocates nothing
    fail(failure::of(errc::connection_reset, {peer_text(), " has not answered for ", text,
                                              " ms (peer_timeout) and is taken for dead"}));
    return;
  }
  // It may sleep, with a message in its ring that has no receive. Woken, it looks, and that shows.
  suspected_ = true;
  ring_doorbell();
  home_.home().add(watch_timer_, after(home_.home().now(), options_.peer_timeout / 2));
}

// What was posted before is carried out; then the last message goes out, and is taken.
void shm_queue_pair::advance_close() noexcept {
  CORDMA_ASSERT(closing_);
  if (!said_bye_) {
    if (head_ != close_mark_ || !writer_.room(1)) return;
    show_withheld();
    writer_.write(message::bye, 0, 0, 0, 0, 1, false);
    out_control().ended.store(end_of_stream::graceful, std::memory_order_release);
    said_bye_ = true;
    bye_goal_ = writer_.position();
    set_waiting(true);
    wake_peer();
  }
  if (writer_.taken() >= bye_goal_) fail(failure(errc::not_connected, "closed by this side"));
}

void shm_queue_pair::abort() noexcept {
  if (state_ == state::error) return;
  if (state_ != state::up) {
    fail_connecting(failure(errc::connection_reset, "aborted by this side"));
    return;
  }
  fail(failure(errc::connection_reset, "aborted by this side"));
}

// The program gets its memory back: from here on the peer copies nothing out of it, or into it.
void shm_queue_pair::withdraw() noexcept {
  if (said_bye_) return;
  out_control().ended.store(end_of_stream::withdrawn, std::memory_order_seq_cst);
  const accessor peer{&in_control().accessing, socket_.get()};
  domain_.wait_for({&peer, 1});
}

void shm_queue_pair::end_socket() noexcept {
  if (!socket_) return;
  if (memory_.control != nullptr) domain_.remove(&in_control().accessing);
  socket_fd ended = socket_.release();
  hang_up(ended);
}

// In a child of fork(): the rings and their counters are the parent's, and the domain's lock may be held for ever.
void shm_queue_pair::leave_to_parent() noexcept {
  state_.become(state::error);
  socket_.close();
}

void shm_queue_pair::fail(failure why, wc_status status) noexcept {
  if (state_ != state::up) return;
  state_.become(state::error);
  CORDMA_ASSERT_OP(exec_ - head_, <=, tail_ - head_);
  CORDMA_ASSERT_OP(tail_ - head_, <=, options_.send_depth);
  open_ = plain_ = false;
  dying_ = false;
  first_recv_status_ = status;
  if (!lent_) reader_.tell();
  withdraw();
  finish_taken();
  if (asked_ != 0) home_.expect(-1);
  asked_ = 0;
  if (rnr_timer_.pending()) home_.home().remove(rnr_timer_);
  if (call_timer_.pending()) home_.home().remove(call_timer_);
  accept_.reset();
  if (shared_ != nullptr) shared_->withdraw(*this);
  if (watch_timer_.pending()) home_.home().remove(watch_timer_);
  end_socket();
  cm_event e;
  e.what = cm_event::type::disconnected;
  e.pair = this;
  e.why = std::move(why);
  home_.report(std::move(e));
}

void shm_queue_pair::fail_and_tell(failure why, wc_status status, std::uint64_t position,
                                   wc_status mine) noexcept {
  auto p = make_packet<fault_packet>(packet::fault);
  p.position = position;
  p.code = why.code();
  p.status = static_cast<std::uint8_t>(status);
  put_text(p.text, why.message());
  static_cast<void>(say(p));
  const wc_status told = mine != wc_status::wr_flush_err ? mine : status;
  if (told != wc_status::wr_flush_err) {
    why.with_status(static_cast<std::uint16_t>(told), 0);
  }
  fail(std::move(why), mine);
}

void shm_queue_pair::malformed(const char* what) noexcept {
  fail_and_tell(failure::of(errc::connection_reset, {peer_text(), " broke the protocol: ", what}),
                wc_status::bad_resp_err, no_position);
}

void shm_queue_pair::starve() noexcept {
  if (state_ == state::up) {
    fail_and_tell(failure(errc::no_memory,
                          "no memory is left to go on with the connection: free some, or raise "
                          "the memory limit"),
                  wc_status::wr_flush_err, no_position);
  } else {
    fail_connecting(failure::of(errc::no_memory, {"no memory is left to connect with ", peer_text(),
                                                  ": free some, or raise the memory limit"}));
  }
}

void shm_queue_pair::on_connect_timeout() noexcept {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.connect_timeout);
  const std::string text = std::to_string(ms.count());  // short: allocates nothing
  const bool called = invitation_ == nullptr || limit_ == nullptr;
  fail_connecting(failure::of(
      errc::timed_out,
      {path_, called ? " did not answer within " : " could not be called for ", text, " ms: ",
       called ? "is its process stopped or busy? connect_timeout gives it longer" : limit_}));
}

void shm_queue_pair::fail_connecting(failure why, std::vector<std::byte> data) noexcept {
  if (state_ == state::error || state_ == state::up) return;
  if (state_ == state::connecting) home_.expect(-1);
  state_.become(state::error);
  if (connect_timer_.pending()) home_.home().remove(connect_timer_);
  if (call_timer_.pending()) home_.home().remove(call_timer_);
  invitation_.reset();
  close_hidden();
  end_socket();
  cm_event e;
  e.what = why.code() == errc::rejected ? cm_event::type::rejected : cm_event::type::failed;
  e.pair = this;
  e.why = std::move(why);
  e.data = std::move(data);
  home_.report(std::move(e));
}

// The socket has ended. What lies in the ring is delivered first, see finish_dying().
void shm_queue_pair::lose_peer(failure why) noexcept {
  if (state_ != state::up) {
    fail_connecting(std::move(why));
    return;
  }
  if (dying_) return;
  dying_ = true;
  plain_ = false;
  dying_why_ = std::move(why);
  socket_.unwatch();
}

void shm_queue_pair::finish_dying() noexcept {
  CORDMA_ASSERT(dying_);
  if (said_bye_ && writer_.taken() >= bye_goal_) {
    fail(failure(errc::not_connected, "closed by this side"));
    return;
  }
  // A peer that closed gracefully and went: its messages wait for receives, as long as nobody
  // waits for the peer itself.
  const bool graceful =
      in_control().ended.load(std::memory_order_acquire) == end_of_stream::graceful;
  if (graceful && reader_.ready() && head_ == tail_ && !closing_ && !fetch_.active) return;
  if (dying_position_ != no_position) {
    for (std::uint32_t i = head_; i != exec_; ++i) {
      send_entry& e = sends_[i & send_mask_];
      if (e.position == dying_position_ && e.at == stage::fetch) e.status = dying_status_;
    }
    if (exec_ != tail_ && sends_[exec_ & send_mask_].offset != 0 &&
        sends_[exec_ & send_mask_].position <= dying_position_) {
      sends_[exec_ & send_mask_].status = dying_status_;
    }
  }
  failure why = dying_why_ ? *dying_why_ : failure(errc::connection_reset);
  if (graceful) why = failure::of(errc::not_connected, {peer_text(), " closed the connection"});
  fail(std::move(why));
}

// In error: one completion for everything that was accepted, once the cause was told.
std::size_t shm_queue_pair::hand_out_flushed(std::span<completion> out) noexcept {
  if (!cause_out_) return 0;
  CORDMA_ASSERT_OP(tail_ - head_, <=, options_.send_depth);
  CORDMA_ASSERT_OP(recv_tail_ - recv_head_, <=, recv_mask_ + 1);
  std::size_t n = 0;
  for (; n < out.size() && head_ != tail_; ++head_) {
    const send_entry& e = sends_[head_ & send_mask_];
    completion& c = out[n++] = completion{};
    c.id = e.request.id;
    c.op = e.request.op;
    if (e.status != wc_status::success) {
      c.status = e.status;
    } else if (e.at == stage::finished) {
      c.byte_len = static_cast<std::uint32_t>(e.total);
    } else {
      c.status = wc_status::wr_flush_err;
    }
  }
  exec_ = head_;
  for (; n < out.size() && !receives_empty(); ++recv_head_) {
    completion& c = out[n++] = completion{};
    c.id = first_receive().id;
    c.op = opcode::recv;
    c.status = std::exchange(first_recv_status_, wc_status::wr_flush_err);
    c.from = taker();
  }
  if (owes_last() && receives_empty()) shared_->end(last_taken_);
  return n;
}

}  // namespace cordma::transport::shm
