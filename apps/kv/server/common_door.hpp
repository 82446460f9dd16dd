// common_door: what front doors have in common: who is there, what is to be done next for whom, and how he goes.
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
  std::uint32_t active = 0;      // the second in which bytes came from it or went to it
  std::uint16_t operations = 0;  // under way on its behalf: it stays until the last has ended
  bool sending = false;          // what is pending is the kernel's
  bool full = false;             // no room in its socket: that is waited for
  bool paused = false;           // it is not read
  bool noted = false;            // in noted_
  bool woken = false;            // by its conversation, which is to go on
  bool said_all = false;         // will send no more
  bool told_so = false;          // ... as its conversation knows
  bool closing = false;
};

// Client is a door_client, and what else a door has for each. A door says how bytes move; when, is said here.
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
  // Something is noted: tend_noted() is due.
  virtual void expect() noexcept = 0;
  // Something is pending. All of it, at once or while it is `sending`, or until the socket is `full`.
  virtual void send(Client& c) noexcept = 0;
  // From now on it is read, or not.
  virtual void mind_input(Client& c, bool wanted) noexcept = 0;
  // Hands over what had come before it was wanted, as far as it is now. Whether nothing is left. May throw.
  [[nodiscard]] virtual bool feed_kept(Client&) { return true; }
  // Its socket ends, and with it what is under way.
  virtual void shut(Client& c) noexcept = 0;
  virtual void accept_again() noexcept = 0;  // where that had failed

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
  std::vector<Client*> noted_;  // to be looked at in this pass, or the next
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
  std::vector<Client*> looking_;  // those of noted_, in tend_noted()
  std::size_t clients_ = 0;
  std::uint32_t second_ = 0;  // since it was opened
  bool dismissing_ = false;
  tick tick_;
};

template <class Client>
void common_door<Client>::adopt(cordma::unique_fd socket, session_origin origin,
                                const conversation_maker& maker) noexcept try {
  if (free_.empty()) {
    slots_.push_back(nullptr);
    free_.reserve(slots_.size());  // giving one back needs no memory
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
  counters_.closed.add();  // no memory for it, and none for a word about it
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
  looking_.swap(noted_);  // what is noted meanwhile is the next pass's
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

// By a pause, or a journal that has too much to write: nothing is to be sent, and it is not listened to either.
template <class Client>
bool common_door<Client>::is_kept_waiting(const Client& c) const noexcept {
  return !c.sending && c.talk->ended() == session::ending::no && !c.talk->wants_input() &&
         c.talk->pending().empty();
}

template <class Client>
void common_door<Client>::tend_one(Client& c) noexcept {
  // What is being sent is the conversation's memory, which it may move once it goes on.
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
    if (c->full) note(*c);  // it may have had its time to read
    if (is_kept_waiting(*c)) c->active = second_;
    if (most == 0 || second_ - c->active <= most) continue;
    counters_.timed_out.add();
    close(*c);
  }
}

}  // namespace kv
