// A blocking RESP client, for Redis and for the RESP port of cordma-kv.
#pragma once

#include "../resp/value.hpp"
#include "../resp/value_parser.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace kv::cli {

struct resp_options {
  std::string_view user = {};  // copied; empty: the default user
  // copied; empty: no password is sent
  std::string_view password = {};
  unsigned version = 2;                                         // protocol version: 2 or 3
  std::chrono::milliseconds timeout = std::chrono::seconds(5);  // for each reply; zero: no limit
};
static_assert(std::is_trivially_destructible_v<resp_options>);

// Bound to one thread. Throws std::runtime_error, naming the server and the reason, if the server
// cannot be reached, refuses the login, disconnects, or does not reply in time. Throws resp_error
// if its replies are not RESP. An error reply to a command is returned as a value.
class resp_client {
 public:
  // "HOST:PORT", or the path of a unix socket.
  resp_client(const std::string& server, const resp_options& options);

  // Adds a command. It is sent by flush(), or earlier if many commands are waiting.
  void add(std::span<const std::string_view> words);
  void add(std::initializer_list<std::string_view> words) {
    add(std::span(words.begin(), words.size()));
  }
  // Sends all commands. Replies that arrive meanwhile are read, so that neither side blocks the
  // other.
  void flush();
  // Returns the reply to the oldest unanswered command. The reference is valid until the next call.
  const resp_value& receive();

  resp_value call(std::span<const std::string_view> words);
  resp_value call(std::initializer_list<std::string_view> words) {
    return call(std::span(words.begin(), words.size()));
  }
  [[nodiscard]] const std::string& server() const noexcept { return server_; }

 private:
  void greet(const resp_options& options);
  enum class patience : std::uint8_t { none, all };
  void take_in(patience p);
  void wait_for_room();
  [[noreturn]] void fail_late() const;
  [[noreturn]] void fail(const std::string& why) const;

  std::string server_;
  std::chrono::milliseconds timeout_;
  cordma::unique_fd socket_;
  std::string out_;
  value_parser in_;
  resp_value reply_;
};

}  // namespace kv::cli
