// A blocking client of RESP: what the program speaks with Redis, and with cordma-kv's other door.
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
  std::string_view user = {};                                   // copied; empty: the default one
  std::string_view password = {};                               // copied; empty: none is said
  unsigned version = 2;                                         // of the protocol: 2 or 3
  std::chrono::milliseconds timeout = std::chrono::seconds(5);  // for each reply; zero: for ever
};
static_assert(std::is_trivially_destructible_v<resp_options>);

// Bound to one thread. Throws std::runtime_error, which says of whom and what: the server cannot be reached, does
// not admit it, goes away, or does not answer in time; resp_error where it does not speak RESP. An error that is
// its answer to a command is a value.
class resp_client {
 public:
  // "HOST:PORT", or the path of a unix socket.
  resp_client(const std::string& server, const resp_options& options);

  // A command that goes out with flush(); or before, where many wait.
  void add(std::span<const std::string_view> words);
  void add(std::initializer_list<std::string_view> words) {
    add(std::span(words.begin(), words.size()));
  }
  // However much it is: what comes meanwhile is taken in, so that neither side waits for the other.
  void flush();
  // The reply to the command that is the next in turn. The reference holds until the next call.
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
