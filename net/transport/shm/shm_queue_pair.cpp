#include <sys/uio.h>
#include <unistd.h>

#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_queue_pair.hpp>

namespace cordma::transport::shm {

shm_queue_pair::shm_queue_pair(shm_adapter& home, const queue_pair_options& options,
                               std::string path)
    : accesses_(home.of()),
      domain_(home.of()),
      home_(home),
      sends_(options),
      share_(*this, options.shared),
      receives_(options.recv_depth, share_.max_segments(options.max_segments)),
      events_room_(home.events(), event_queue::events_of(options)),
      options_(options),
      socket_(home.sockets(), *this),
      handshake_(*this, std::move(path)) {
  home_.attach(*this);
  share_.enter();  // last: only a completely constructed pair leaves the queue again
}

shm_queue_pair::~shm_queue_pair() {
  if (home_.home().inherited()) {
    // In a child of fork(): the rings and their counters belong to the parent, and the domain's
    // lock may be held forever.
    if (state_ < state::error) state_.become(state::error);
    socket_.close();
  }
  handshake_.stop();
  if (talk_.end_question()) home_.expect(-1);
  if (is_up()) {
    withdraw();
    if (ending_.is_closing() && !ending_.said_bye()) {
      auto p = make_packet<fault_packet>(packet::fault);
      p.position = no_position;
      p.code = errc::not_connected;
      put_text(p.text, "closed before everything was sent");
      static_cast<void>(send_packet(socket_.get(), p));
    }
  }
  CORDMA_ASSERT(!accesses_.is_inside());
  if (state_ < state::error) state_.become(state::error);
  if (share_) share_.leave(*this, receives_.size(), receives_.first().id);
  end_socket();
  home_.drop_events(*this);
  home_.detach(*this);
}

std::string shm_queue_pair::local_address() const {
  return "shm:process " + std::to_string(::getpid());
}

std::string shm_queue_pair::peer_address() const {
  return "shm:" + handshake_.path() + " (" + std::string(peer_text()) + ")";
}

result<void> shm_queue_pair::adopt_socket(socket_fd& socket) noexcept {
  socket_.own(std::move(socket));
  const result<void> watched = socket_.watch(watched_for);
  if (!watched) socket = socket_.release();
  return watched;
}

// True if the kernel lets us read the peer's memory, and it is the peer's.
bool shm_queue_pair::probe() const noexcept {
  if (peer_.who.pid == 0) return false;
  std::uint64_t seen = 0;
  iovec local{&seen, sizeof seen};
  iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(peer_.probe_address)),
               sizeof seen};
  return ::process_vm_readv(peer_.who.pid, &local, 1, &remote, 1, 0) ==
             static_cast<ssize_t>(sizeof seen) &&
         seen == peer_.probe_value;
}

void shm_queue_pair::establish(peer_terms terms, std::vector<std::byte> data) {
  CORDMA_REQUIRE(memory_.control != nullptr);
  CORDMA_REQUIRE_OP(terms.page.size(), >=, sizeof(adapter_page));
  CORDMA_REQUIRE_OP(terms.epochs.size(), ==, epochs_bytes);
  domain_.add({&in_control().accessing, socket_.get()});
  handshake_.came_up();
  peer_ = std::move(terms);
  peer_page_ = reinterpret_cast<adapter_page*>(peer_.page.data());
  peer_.is_readable = probe();
  const auto ring_bytes = static_cast<std::uint32_t>((memory_.view.size() - rings_at) / 4);
  writer_ = ring_writer(memory_.cells[0], ring_bytes, memory_.ring[0]);
  reader_ = ring_reader(memory_.cells[1], ring_bytes, memory_.ring[1]);
  eager_ = std::min<std::uint64_t>(domain_.options().eager_bytes, ring_bytes / 4 - 64);
  CORDMA_ASSERT_OP(eager_, <, writer_.most_payload());
  state_.become(state::up);
  home_.report(*this, cm_event::type::established, errc::ok, std::move(data));
}

void shm_queue_pair::event_taken(cm_event::type what) noexcept {
  if (what == cm_event::type::established && state_ == state::up) {
    state_.become(state::open);
    open_ = !ending_.is_closing();
    settle();
  } else if (what == cm_event::type::disconnected || what == cm_event::type::rejected ||
             what == cm_event::type::failed) {
    state_.become(state::over);
  }
}

// Recomputes the flags of the fast paths.
void shm_queue_pair::settle() noexcept {
  const bool open = state_ == state::open;
  const bool sending = !sends_.empty() || (open && ending_.is_closing());
  plain_ = open && !sending && !ending_.has_lost_peer() && !arriving_.is_fetched() &&
           !talk_.owes_answers();
  if (is_up()) set_waiting(sending);
}

std::size_t shm_queue_pair::poll(std::span<completion> out, bool& progressed) noexcept {
  if (state_ == state::over) return hand_out_flushed(out);
  if (state_ != state::open) return 0;
  std::size_t n = receive(out, progressed);
  if (state_ != state::open || plain_) return n;
  if (talk_.owes_answers()) flush_answers();
  if (!sends_.empty()) {
    advance();
    if (is_up()) n += retire(out.subspan(n));
  }
  if (is_up() && ending_.is_closing()) advance_close();
  if (is_up() && ending_.has_lost_peer() && !lent_ && n < out.size() && !has_whole()) {
    finish_dying();
  }
  if (is_up()) settle();
  return n;
}

bool shm_queue_pair::has_work() noexcept {
  if (state_ == state::over) return !sends_.empty() || !receives_.empty() || owes_last();
  if (state_ != state::open) return false;
  if (arriving_.is_fetched()) return true;
  if (reader_.ready()) {
    if (takes_in_place()) return true;
    const message what = reader_.header().what;
    const bool needs_receive = what >= message::send && what <= message::write_imm;
    if (!needs_receive || !receives_.empty() || share_.lends_to(*this)) return true;
  }
  if (ending_.has_lost_peer()) return !reader_.ready();
  if (sends_.empty()) return ending_.said_bye() && ending_.is_bye_taken(writer_.taken());
  if (!sends_.all_executed() && !ending_.stops_at(sends_.executed())) {
    if (service_.is_pending()) {
      const std::uint64_t served = out_control().served.load(std::memory_order_acquire);
      if (served >= service_.requests()) return true;
    } else if (!talk_.awaits_answer()) {
      const std::uint64_t known = writer_.known_taken();
      if (writer_.taken() != known) return true;
    }
  }
  return sends_.any_executed() &&
         is_done(sends_.oldest(), out_control().fetched.load(std::memory_order_acquire));
}

void shm_queue_pair::disconnect() noexcept {
  if (ending_.is_closing()) return;
  if (!is_up()) {
    return fail_connecting(failure(errc::not_connected, "closed before the connection was up"));
  }
  open_ = false;
  plain_ = false;
  ending_.close_at(sends_.posted());
  advance();
  if (is_up()) advance_close();
  watch_peer();
}

// Watches the peer while it owes something. A request that completes in its post call owes nothing,
// so the fast paths do not use the watch.
void shm_queue_pair::watch_peer() noexcept {
  if (!is_up() || ending_.has_lost_peer() || watch_.runs()) return;
  watch_.start(home_.home(), options_.peer_timeout / 2, signs_of_life());
}

std::uint64_t shm_queue_pair::signs_of_life() const noexcept {
  const ring_control& c = out_control();
  return c.taken.load(std::memory_order_relaxed) + c.fetched.load(std::memory_order_relaxed) +
         c.served.load(std::memory_order_relaxed) + c.held_up.load(std::memory_order_relaxed) +
         in_control().accessing.load(std::memory_order_relaxed) + reader_.position();
}

void shm_queue_pair::on_watch() noexcept {
  if (!is_up() || ending_.has_lost_peer() || (sends_.empty() && !ending_.is_closing())) return;
  const unsigned silent = watch_.end_period(signs_of_life());
  if (silent > 1) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.peer_timeout);
    const std::string text = std::to_string(ms.count());  // short: the string does not allocate
    fail(failure::of(errc::connection_reset, {peer_text(), " has not answered for ", text,
                                              " ms (peer_timeout) and is taken for dead"}));
    return;
  }
  // The peer may sleep with a message in its ring that has no receive. The doorbell wakes it, and
  // its look shows here.
  if (silent != 0) ring_doorbell();
  watch_.go_on(home_.home(), options_.peer_timeout / 2);
}

// Waits until the requests posted before are carried out, then sends the last message and waits
// until it is taken.
void shm_queue_pair::advance_close() noexcept {
  CORDMA_ASSERT(ending_.is_closing());
  if (!ending_.said_bye()) {
    if (!ending_.stops_at(sends_.retired()) || !writer_.room(1)) return;
    show_withheld();
    writer_.write(message::bye, 0, 0, 0, 0, 1, false);
    out_control().ended.store(end_of_stream::graceful, std::memory_order_release);
    ending_.say_bye(writer_.position());
    set_waiting(true);
    wake_peer();
  }
  if (ending_.is_bye_taken(writer_.taken())) {
    fail(failure(errc::not_connected, "closed by this side"));
  }
}

void shm_queue_pair::abort() noexcept {
  fail(failure(errc::connection_reset, "aborted by this side"));
}

// The program may reuse its memory: from here on the peer copies nothing from it or into it.
void shm_queue_pair::withdraw() noexcept {
  if (ending_.said_bye()) return;
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

void shm_queue_pair::fail(failure why, wc_status status) noexcept {
  if (!is_up()) return fail_connecting(std::move(why));
  state_.become(state::error);
  sends_.check();
  open_ = plain_ = false;
  receives_.fail_first(status);
  if (!lent_) reader_.tell();
  withdraw();
  finish_taken();
  if (talk_.end_question()) home_.expect(-1);
  handshake_.stop();
  share_.withdraw(*this);
  home_.home().remove(rnr_timer_);
  watch_.stop(home_.home());
  end_socket();
  home_.report(*this, cm_event::type::disconnected, std::move(why));
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
  if (is_up()) {
    fail_and_tell(failure(errc::no_memory,
                          "no memory is left to go on with the connection: free some, or raise "
                          "the memory limit"),
                  wc_status::wr_flush_err, no_position);
  } else {
    fail_connecting(failure::of(errc::no_memory, {"no memory is left to connect with ", peer_text(),
                                                  ": free some, or raise the memory limit"}));
  }
}

void shm_queue_pair::fail_connecting(failure why, std::vector<std::byte> data) noexcept {
  if (state_ != state::unconnected && state_ != state::connecting) return;
  handshake_.stop();
  state_.become(state::error);
  end_socket();
  const bool rejected = why.code() == errc::rejected;
  home_.report(*this, rejected ? cm_event::type::rejected : cm_event::type::failed, std::move(why),
               std::move(data));
}

// The socket has ended. Messages in the ring are delivered first, see finish_dying().
void shm_queue_pair::lose_peer(failure why) noexcept {
  if (!is_up()) return fail_connecting(std::move(why));
  if (ending_.has_lost_peer()) return;
  ending_.lose_peer(std::move(why));
  plain_ = false;
  socket_.unwatch();
}

// Nothing more of the peer can be delivered.
void shm_queue_pair::lose_peer_now(failure why) noexcept {
  lose_peer(std::move(why));
  finish_dying();
}

void shm_queue_pair::finish_dying() noexcept {
  CORDMA_ASSERT(ending_.has_lost_peer());
  if (ending_.is_bye_taken(writer_.taken())) {
    fail(failure(errc::not_connected, "closed by this side"));
    return;
  }
  // The peer closed gracefully and disconnected: its messages wait for receives, unless this side
  // waits for the peer itself.
  const bool graceful =
      in_control().ended.load(std::memory_order_acquire) == end_of_stream::graceful;
  if (graceful && reader_.ready() && sends_.empty() && !ending_.is_closing() &&
      !arriving_.is_fetched()) {
    return;
  }
  if (ending_.position() != no_position) sends_.blame(ending_.position(), ending_.status());
  fail(graceful ? failure::of(errc::not_connected, {peer_text(), " closed the connection"})
                : ending_.cause());
}

// Over: returns one completion for each accepted request.
std::size_t shm_queue_pair::hand_out_flushed(std::span<completion> out) noexcept {
  CORDMA_ASSERT_OP(sends_.size(), <=, options_.send_depth);
  std::size_t n = 0;
  for (; n < out.size() && !sends_.empty(); sends_.drop()) {
    const send_entry& e = sends_.oldest();
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
  for (; n < out.size() && !receives_.empty(); receives_.pop()) {
    completion& c = out[n++] = completion{};
    c.id = receives_.first().id;
    c.op = opcode::recv;
    c.status = receives_.next_flushed();
    c.from = taker();
  }
  if (owes_last() && receives_.empty()) share_.end();
  return n;
}

}  // namespace cordma::transport::shm
