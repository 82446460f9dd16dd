// A port of this host, for a program that needs its port number in advance.
#pragma once

#include <cordma/runtime/unique_fd.hpp>

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kv::test {

// Returns a port that is free at present.
inline int free_port() {
  const cordma::unique_fd s(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof a;
  REQUIRE(::bind(s.get(), reinterpret_cast<sockaddr*>(&a), bytes) == 0);
  REQUIRE(::getsockname(s.get(), reinterpret_cast<sockaddr*>(&a), &bytes) == 0);
  return ntohs(a.sin_port);
}

}  // namespace kv::test
