// The server that the program connects to, and the options of the connection.
#pragma once

#include "../native/client.hpp"
#include "resp_client.hpp"

#include <cordma/cordma.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace kv::cli {

inline constexpr const char* default_server = "127.0.0.1:7379";

struct service {
  std::string native = default_server;  // HOST:PORT
  std::string resp = {};                // HOST:PORT or a path; empty: the native protocol is used
  std::string user = {};                // over RESP
  std::string token = {};               // over RESP: the password
  std::optional<cordma::transport::kind> transport = {};
  cordma::wait_mode wait = cordma::wait_mode::adaptive;
  kv::way_of_gets gets = kv::way_of_gets::what_is_faster;
  unsigned resp_version = 2;
  std::chrono::milliseconds timeout = std::chrono::seconds(5);

  [[nodiscard]] bool is_resp() const noexcept { return !resp.empty(); }
  [[nodiscard]] const std::string& name() const noexcept { return is_resp() ? resp : native; }
  // Views into this object.
  [[nodiscard]] client_options as_native() const noexcept {
    return {.token = token, .transport = transport, .gets = gets, .timeout = timeout};
  }
  [[nodiscard]] resp_options as_resp() const noexcept {
    return {.user = user, .password = token, .version = resp_version, .timeout = timeout};
  }
};

}  // namespace kv::cli
