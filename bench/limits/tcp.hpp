// Raw TCP sockets over loopback between two processes: ping-pong and a one-way stream, blocking or
// busy-polled. The limit of a transport over TCP without changes of the kernel's part.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "batches.hpp"
#include "sides.hpp"

namespace limits {

/// One end of a connection. Calls either block in the kernel or spin on EAGAIN, by `wait`.
class tcp_end {
 public:
  tcp_end(descriptor fd, wait_mode wait) : fd_(std::move(fd)) {
    const int on = 1;
    checked(::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
    if (wait == wait_mode::polling) {
      const int flags = checked(::fcntl(fd_.get(), F_GETFL), "F_GETFL");
      checked(::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK), "F_SETFL");
    }
  }

  void send_all(const std::vector<std::byte>& message) const {
    std::size_t done = 0;
    while (done < message.size()) {
      const auto sent =
          ::send(fd_.get(), message.data() + done, message.size() - done, MSG_NOSIGNAL);
      done += progress(sent, "send");
    }
  }

  void receive_all(std::vector<std::byte>& message) const {
    std::size_t done = 0;
    while (done < message.size()) {
      const auto got = ::recv(fd_.get(), message.data() + done, message.size() - done, 0);
      if (got == 0) {
        throw std::runtime_error("the peer closed the connection early");
      }
      done += progress(got, "recv");
    }
  }

 private:
  static std::size_t progress(ssize_t bytes, const char* what) {
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) {
      return 0;
    }
    return static_cast<std::size_t>(checked(bytes, what));
  }

  descriptor fd_;
};

/// A listening socket on a free port of 127.0.0.1.
class loopback_listener {
 public:
  loopback_listener() : fd_(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address_;
    auto* place = reinterpret_cast<sockaddr*>(&address_);
    checked(::bind(fd_.get(), place, length), "bind");
    checked(::getsockname(fd_.get(), place, &length), "getsockname");
    checked(::listen(fd_.get(), 1), "listen");
  }

  [[nodiscard]] tcp_end accept(wait_mode wait) const {
    return {descriptor(checked(::accept(fd_.get(), nullptr, nullptr), "accept")), wait};
  }
  [[nodiscard]] tcp_end connect(wait_mode wait) const {
    descriptor fd(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    const auto* place = reinterpret_cast<const sockaddr*>(&address_);
    checked(::connect(fd.get(), place, sizeof address_), "connect");
    return {std::move(fd), wait};
  }

 private:
  descriptor fd_;
  sockaddr_in address_{};
};

/// One-way time of `how.size` bytes: half of a round trip.
[[nodiscard]] inline measurement measure_tcp_latency(const settings& how) {
  const loopback_listener listener;
  peer_process peer(how.peer_cpu, [&] {
    const tcp_end end = listener.accept(how.wait);
    std::vector<std::byte> message(how.size);
    for (std::uint64_t step = 0; step < how.steps_in_all(); ++step) {
      end.receive_all(message);
      end.send_all(message);
    }
  });
  pin_to(how.own_cpu);
  const tcp_end end = listener.connect(how.wait);
  std::vector<std::byte> message(how.size);
  const auto ping = [&](std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      end.send_all(message);
      end.receive_all(message);
    }
  };
  ping(how.steps_per_batch());
  auto seconds = time_batches(how, ping);
  peer.join();
  return one_way("tcp-latency", how, std::move(seconds));
}

/// GB/s of messages of `how.size` bytes, received completely into one buffer. The time runs until
/// the receiver has acknowledged the last one, so bytes left in socket buffers do not count as
/// moved.
[[nodiscard]] inline measurement measure_tcp_bandwidth(const settings& how) {
  const loopback_listener listener;
  peer_process peer(how.peer_cpu, [&] {
    const tcp_end end = listener.accept(how.wait);
    std::vector<std::byte> message(how.size);
    for (std::uint64_t step = 0; step < how.steps_in_all(); ++step) {
      end.receive_all(message);
    }
    end.send_all(std::vector<std::byte>(1));
  });
  pin_to(how.own_cpu);
  const tcp_end end = listener.connect(how.wait);
  const std::vector<std::byte> message(how.size, std::byte{0x55});
  const auto stream = [&](std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      end.send_all(message);
    }
  };
  stream(how.steps_per_batch());
  const auto start = clock::now();
  auto seconds = time_batches(how, stream);
  std::vector<std::byte> acknowledgement(1);
  end.receive_all(acknowledgement);
  const double total = seconds_since(start);
  peer.join();
  return bandwidth("tcp-bandwidth", how, std::move(seconds), total);
}

}  // namespace limits
