// A worker with its front door, a conversation behind it, and clients with blocking sockets.
#pragma once

#include "../../apps/kv/server/reception.hpp"
#include "../../apps/kv/server/worker.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace kv::test {

// Echoes its input. It stops reading while more than `most` bytes are unsent. After '!' the
// conversation ends once all is sent, after '~' it ends at once, and '^' throws.
class parrot final : public conversation {
 public:
  static constexpr std::size_t most = 64 << 10;
  explicit parrot(std::atomic<std::uint32_t>& count) : seat_(count) {}
  void received(std::span<const char> bytes) override {
    for (const char c : bytes) {
      if (c == '!') ending_ = session::ending::when_sent;
      if (c == '~') ending_ = session::ending::now;
      if (c == '^') throw std::bad_alloc();
    }
    unsent_.append(bytes.data(), bytes.size());
  }
  void no_more_input() override { ending_ = session::ending::when_sent; }
  [[nodiscard]] std::span<const char> pending() const noexcept override { return unsent_; }
  void sent(std::size_t bytes) noexcept override { unsent_.erase(0, bytes); }
  [[nodiscard]] bool wants_input() const noexcept override { return unsent_.size() < most; }
  [[nodiscard]] session::ending ended() const noexcept override { return ending_; }

 private:
  seat seat_;
  std::string unsent_;
  session::ending ending_ = session::ending::no;
};

// A parrot that responds only after release(), like a server that writes to disk before it
// responds.
class late_parrot final : public conversation {
 public:
  late_parrot(std::unique_ptr<conversation> inner, session::wake_function wake, void* context)
      : inner_(std::move(inner)), wake_(wake), context_(context) {
    last = this;
  }
  // Releases the most recent one; called on its worker's thread.
  static void release() {
    last->released_ = true;
    last->wake_(last->context_);
  }
  inline static late_parrot* last = nullptr;
  [[nodiscard]] bool heard_all() const noexcept { return heard_all_; }

  void received(std::span<const char> bytes) override { inner_->received(bytes); }
  void no_more_input() override {
    heard_all_ = true;
    inner_->no_more_input();
  }
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return released_ ? inner_->pending() : std::span<const char>();
  }
  void sent(std::size_t bytes) noexcept override { inner_->sent(bytes); }
  [[nodiscard]] bool wants_input() const noexcept override { return inner_->wants_input(); }
  [[nodiscard]] session::ending ended() const noexcept override {
    return released_ ? inner_->ended() : session::ending::no;
  }

 private:
  std::unique_ptr<conversation> inner_;
  session::wake_function wake_;
  void* context_;
  bool released_ = false;
  bool heard_all_ = false;
};

inline conversation_maker late(conversation_maker plain) {
  return [plain = std::move(plain)](session_origin o, session::wake_function wake, void* context) {
    return std::make_unique<late_parrot>(plain(std::move(o), wake, context), wake, context);
  };
}

inline const std::vector<io_choice>& engines() {
  static const std::vector<io_choice> all = [] {
    std::vector<io_choice> found{io_choice::asio};
    door_settings s;
    cordma::reactor loop;
    if (make_ring_door(loop, s)) found.insert(found.begin(), io_choice::uring);
    return found;
  }();
  return all;
}

// A server that listens on 127.0.0.1 with any free port, unless `where` names another address.
class open_house {
 public:
  explicit open_house(io_choice io, std::uint32_t most = 10'000, unsigned workers = 1)
      : most_(most) {
    for (unsigned i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<worker>(
          worker_options{.index = i, .wait = cordma::wait_mode::event, .io = io}, settings, log_));
    }
    front().call([this] { reception_ = std::make_unique<reception>(workers_, log_); });
  }
  ~open_house() {
    front().call([this] { reception_->close(); });
    workers_.clear();
  }
  worker& front() { return *workers_.front(); }
  worker& at(unsigned i) { return *workers_[i]; }
  std::uint32_t clients() {
    std::uint32_t n = 0;
    for (const auto& w : workers_) n += w->clients();
    return n;
  }
  // Waits until `met` is true, for at most ten seconds.
  template <class Condition>
  bool soon(Condition met) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!met()) {
      if (std::chrono::steady_clock::now() > end) return false;
      front().call([] {});
    }
    return true;
  }
  std::uint16_t listen(conversation_maker (*wrap)(conversation_maker) = nullptr) {
    std::vector<listening> l = listen_tcp({"127.0.0.1"}, 0, door::tcp, {});
    const std::string address = l.front().address;
    open(std::move(l.front()), wrap);
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  void open(listening l, conversation_maker (*wrap)(conversation_maker) = nullptr) {
    reception::hall h;
    h.maker = [wrap](worker& w) -> conversation_maker {
      conversation_maker plain = [&w](session_origin, session::wake_function, void*) {
        return std::make_unique<parrot>(w.clients());
      };
      return wrap != nullptr ? wrap(std::move(plain)) : plain;
    };
    h.inside = [this] { return clients(); };
    h.most = [this] { return most_; };
    h.refusal = "-ERR max number of clients reached\r\n";
    front().call([this, &l, &h] { reception_->open(std::move(l), h); });
  }
  [[nodiscard]] const reception_counters& counters() { return reception_->counters(); }

  door_settings settings;

 private:
  logbook log_{{}, log_level::warning};
  std::uint32_t most_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::unique_ptr<reception> reception_;
};

// Repeats `call` after EINTR. A ring that has just ended interrupts its thread, and a wait with a
// timeout is not restarted by the kernel.
template <class Call>
ssize_t uninterrupted(Call call) {
  for (;;) {
    const ssize_t n = call();
    if (n >= 0 || errno != EINTR) return n;
  }
}

// A client with blocking calls, of at most ten seconds each.
class visitor {
 public:
  explicit visitor(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    set_up();
    connected_ = ::connect(fd(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
    const int one = 1;
    ::setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  explicit visitor(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), a.sun_path);
    set_up();
    connected_ = ::connect(fd(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
  }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] bool connected() const noexcept { return connected_; }
  bool say(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n =
          uninterrupted([&] { return ::send(fd(), text.data(), text.size(), MSG_NOSIGNAL); });
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // Returns this number of bytes, or fewer if the connection ends before.
  [[nodiscard]] std::string hear(std::size_t bytes) const {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n =
          uninterrupted([&] { return ::recv(fd(), text.data() + got, bytes - got, 0); });
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    text.resize(got);
    return text;
  }
  // True if the peer has closed without sending more.
  [[nodiscard]] bool hears_the_end() const {
    char c = 0;
    const ssize_t n = uninterrupted([&] { return ::recv(fd(), &c, 1, 0); });
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }
  void say_no_more() const { ::shutdown(fd(), SHUT_WR); }
  // Resets the connection, as a process does that is killed with unread bytes.
  void die() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_.reset();
  }

 private:
  void set_up() const {
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  cordma::unique_fd socket_;
  bool connected_ = false;
};

// A text without repeated parts and without the parrot's control characters.
inline std::string long_text(std::size_t bytes) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) text += std::to_string(i) + ' ';
  text.resize(bytes);
  return text;
}

}  // namespace kv::test
