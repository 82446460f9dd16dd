// common_door: the common part of the front doors: the list of clients, their next steps, and how
// they are closed.
#pragma once

#include "front_door.hpp"

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

namespace kv {

struct door_client {
  door_client(front_door& d, std::uint32_t i) noexcept : door(d), index(i) {}
  front_door& door;
  std::unique_ptr<conversation> talk;
  std::uint32_t index;
  std::uint32_t active = 0;  // second of the last byte received or sent
  // Operations in flight for it; the client is kept until the last has completed.
  std::uint16_t operations = 0;
  bool sending = false;   // the kernel is reading the pending bytes
  bool full = false;      // its send buffer is full; the door waits for space
  bool paused = false;    // it is not being read
  bool noted = false;     // in noted_
  bool woken = false;     // by its conversation, which resume() is due for
  bool said_all = false;  // it has closed its sending direction
  bool told_so = false;   // ... and its conversation has been notified
  bool closing = false;
};

// Client derives from door_client and adds the door's state per client. A derived door moves the
// bytes; this class decides when.
template <class Client>
class common_door : public front_door {
 public:
  void adopt(cordma::unique_fd socket, session_origin origin,
             const conversation_maker& maker) noexcept final;
  void stop_reading() noexcept final;
  void dismiss() noexcept final;
  void pass_second() noexcept final;
  [[nodiscard]] std::size_t clients() const noexcept final { return clients_; }
  [[nodiscard]] const door_counters& counters() const noexcept final { return counters_; }

 protected:
  common_door(cordma::reactor& loop, const door_settings& settings)
      : loop_(loop), settings_(settings), tick_(*this) {
    loop_.add(tick_, loop_.now() + std::chrono::seconds(1));
  }

  // May throw.
  [[nodiscard]] virtual std::unique_ptr<Client> make_client(std::uint32_t index,
                                                            cordma::unique_fd socket) = 0;
  // A client was noted: a call of tend_noted() is due.
  virtual void expect() noexcept = 0;
  // Sends the pending bytes: all of them, now or while it is `sending`, or until the socket is
  // `full`.
  virtual void send(Client& c) noexcept = 0;
  // Starts or stops reading the socket.
  virtual void mind_input(Client& c, bool wanted) noexcept = 0;
  // Passes on bytes that arrived early, as far as the conversation accepts them now. Returns true
  // if none are left. May throw.
  [[nodiscard]] virtual bool feed_kept(Client&) { return true; }
  // Closes its socket and ends operations in flight.
  virtual void shut(Client& c) noexcept = 0;
  virtual void accept_again() noexcept = 0;  // retries failed accepts

  void note(Client& c) noexcept;
  std::size_t tend_noted() noexcept;
  void close(Client& c) noexcept;
  void came(Client& c, std::size_t bytes) noexcept {
    counters_.received_bytes.add(bytes);
    c.active = second_;
  }
  void went(Client& c, std::size_t bytes) noexcept {
    counters_.sent_bytes.add(bytes);
    c.active = second_;
    c.talk->sent(bytes);
  }
  [[nodiscard]] bool is_wanted(const Client& c) const noexcept {
    return reading_ && !c.said_all && c.talk->ended() == session::ending::no &&
           c.talk->wants_input();
  }

  cordma::reactor& loop_;
  const door_settings& settings_;
  std::vector<std::unique_ptr<Client>> slots_;
  std::vector<Client*> noted_;  // to be handled in this pass or the next
  bool reading_ = true;
  door_counters counters_;

 private:
  struct tick final : cordma::timer {
    explicit tick(common_door& d) noexcept
        : timer([](timer& t) noexcept {
            common_door& of = static_cast<tick&>(t).door;
            of.loop_.add(t, of.loop_.now() + std::chrono::seconds(1));
            of.pass_second();
          }),
          door(d) {}
    common_door& door;
  };

  static void woken(void* context) noexcept;
  void go_on(Client& c) noexcept;
  [[nodiscard]] bool is_over(const Client& c) const noexcept;
  [[nodiscard]] bool is_kept_waiting(const Client& c) const noexcept;
  void tend_one(Client& c) noexcept;
  void tend_input(Client& c) noexcept;

  std::vector<std::uint32_t> free_;
  std::vector<Client*> looking_;  // the noted_ clients during tend_noted()
  std::size_t clients_ = 0;
  std::uint32_t second_ = 0;  // since the door was opened
  bool dismissing_ = false;
  tick tick_;
};

template <class Client>
void common_door<Client>::adopt(cordma::unique_fd socket, session_origin origin,
                                const conversation_maker& maker) noexcept try {
  if (free_.empty()) {
    slots_.push_back(nullptr);
    free_.reserve(slots_.size());  // releasing an index needs no memory
    noted_.reserve(slots_.size());
    looking_.reserve(slots_.size());
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  std::unique_ptr<Client> made = make_client(free_.back(), std::move(socket));
  Client& c = *made;
  c.talk = maker(std::move(origin), &woken, &c);
  c.active = second_;
  slots_[c.index] = std::move(made);
  free_.pop_back();
  ++clients_;
  note(c);
} catch (const std::exception&) {
  counters_.closed.add();  // out of memory for the client and for an error reply
}

template <class Client>
void common_door<Client>::note(Client& c) noexcept {
  if (c.noted) return;
  c.noted = true;
  noted_.push_back(&c);
  expect();
}

template <class Client>
std::size_t common_door<Client>::tend_noted() noexcept {
  const std::size_t n = noted_.size();
  looking_.swap(noted_);  // clients noted from here on belong to the next pass
  for (Client* c : looking_) {
    c->noted = false;
    tend_one(*c);
  }
  looking_.clear();
  return n;
}

template <class Client>
void common_door<Client>::woken(void* context) noexcept {
  Client& c = *static_cast<Client*>(context);
  c.woken = true;
  static_cast<common_door&>(c.door).note(c);
}

template <class Client>
void common_door<Client>::go_on(Client& c) noexcept try {
  if (std::exchange(c.woken, false)) c.talk->resume();
  if (reading_ && feed_kept(c) && c.said_all && !std::exchange(c.told_so, true)) {
    c.talk->no_more_input();
  }
} catch (const std::exception&) {
  close(c);
}

template <class Client>
bool common_door<Client>::is_over(const Client& c) const noexcept {
  const session::ending ending = c.talk->ended();
  if (ending == session::ending::now) return true;
  const bool last = dismissing_ || ending == session::ending::when_sent;
  return last && !c.sending && c.talk->pending().empty();
}

// True if a pause, or a journal with too much to write, stops it: nothing is pending and it is not
// read.
template <class Client>
bool common_door<Client>::is_kept_waiting(const Client& c) const noexcept {
  return !c.sending && c.talk->ended() == session::ending::no && !c.talk->wants_input() &&
         c.talk->pending().empty();
}

template <class Client>
void common_door<Client>::tend_one(Client& c) noexcept {
  // The bytes being sent are the conversation's memory, which it may move when it continues.
  if (!c.closing && !c.sending) go_on(c);
  if (!c.closing && c.talk->ended() == session::ending::now) close(c);
  if (!c.closing && !c.sending && !c.full && !c.talk->pending().empty()) send(c);
  if (!c.closing && is_over(c)) close(c);
  if (!c.closing) tend_input(c);
  if (!c.closing || c.operations != 0 || c.noted) return;
  counters_.closed.add();
  --clients_;
  const std::uint32_t index = c.index;
  slots_[index].reset();
  free_.push_back(index);
}

template <class Client>
void common_door<Client>::tend_input(Client& c) noexcept {
  const bool wanted = is_wanted(c);
  if (!wanted && !c.said_all && !c.paused) counters_.pauses.add();
  c.paused = !wanted;
  mind_input(c, wanted);
}

template <class Client>
void common_door<Client>::close(Client& c) noexcept {
  if (c.closing) return;
  c.closing = true;
  shut(c);
  note(c);
}

template <class Client>
void common_door<Client>::stop_reading() noexcept {
  reading_ = false;
  for (const std::unique_ptr<Client>& c : slots_) {
    if (c) note(*c);
  }
}

template <class Client>
void common_door<Client>::dismiss() noexcept {
  dismissing_ = true;
  stop_reading();
}

template <class Client>
void common_door<Client>::pass_second() noexcept {
  ++second_;
  accept_again();
  const std::uint32_t most = settings_.idle_seconds.load(std::memory_order_relaxed);
  for (const std::unique_ptr<Client>& c : slots_) {
    if (!c || c->closing) continue;
    if (c->full) note(*c);  // it may have read in the meantime
    if (is_kept_waiting(*c)) c->active = second_;
    if (most == 0 || second_ - c->active <= most) continue;
    counters_.timed_out.add();
    close(*c);
  }
}

}  // namespace kv
