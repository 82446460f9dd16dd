// A server without sockets: a keyspace, a service, and clients that exchange bytes by calls.
#pragma once

#include "../../apps/kv/command/service.hpp"
#include "../../apps/kv/command/session.hpp"

#include <doctest/doctest.h>

#include <cordma/runtime/clock.hpp>

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv_test {

class server {
 public:
  explicit server(const kv::settings& values = {}, std::uint32_t shards = 1, unsigned workers = 1,
                  const std::string& config_file = {})
      : keys_(memories(shards), {.hash_seed = 7}),
        of(keys_, {values, {}}, options(workers, config_file)) {}

  void pass(kv::unix_ms milliseconds) {
    wall_ += milliseconds;
    time_.advance_to(time_.now() + std::chrono::milliseconds(milliseconds));
  }
  // Sets back the time of day only, as an administrator might.
  void set_back(std::int64_t milliseconds) { wall_ -= static_cast<kv::unix_ms>(milliseconds); }
  [[nodiscard]] kv::unix_ms now() const noexcept { return wall_; }

 private:
  static std::vector<std::unique_ptr<kv::memory_source>> memories(std::uint32_t shards) {
    std::vector<std::unique_ptr<kv::memory_source>> all;
    for (std::uint32_t i = 0; i < shards; ++i) all.push_back(std::make_unique<kv::plain_memory>());
    return all;
  }
  kv::service_options options(unsigned workers, const std::string& config_file) {
    kv::service_options o;
    o.config_file = config_file;
    o.workers = workers;
    o.time = &time_;
    o.wall_clock = [](void* self) noexcept { return static_cast<server*>(self)->wall_; };
    o.wall_context = this;
    return o;
  }

  kv::unix_ms wall_ = 1'700'000'000'000;
  cordma::virtual_clock time_;
  kv::keyspace keys_;

 public:
  kv::service of;
};

// Sends its words as arrays of bulk strings and returns the replies as bytes.
class client {
 public:
  explicit client(server& s, kv::session_origin origin = usual())
      : session_(
            s.of, std::move(origin),
            [](void* self) noexcept { ++static_cast<client*>(self)->woken; }, this) {}

  static kv::session_origin usual() {
    kv::session_origin o;
    o.peer = "127.0.0.1:50000";
    o.local = "127.0.0.1:6379";
    o.loopback = true;
    return o;
  }
  static std::string packed(std::span<const std::string_view> words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string_view w : words) {
      text += "$" + std::to_string(w.size()) + "\r\n" + std::string(w) + "\r\n";
    }
    return text;
  }
  void send(std::string_view bytes) { session_.received({bytes.data(), bytes.size()}); }
  std::string take() {
    session_.resume();
    const std::span<const char> p = session_.pending();
    std::string text(p.data(), p.size());
    session_.sent(p.size());
    return text;
  }
  std::string raw(std::string_view bytes) {
    send(bytes);
    return take();
  }
  // Sends words separated by blanks: "SET key value".
  std::string operator()(std::string_view line) {
    std::vector<std::string_view> words;
    while (!line.empty()) {
      const std::size_t end = line.find(' ');
      if (end != 0) words.push_back(line.substr(0, end));
      line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
    }
    return raw(packed(words));
  }
  std::string operator()(std::initializer_list<std::string_view> words) {
    return raw(packed(std::vector<std::string_view>(words)));
  }
  [[nodiscard]] kv::session& session() noexcept { return session_; }

  int woken = 0;

 private:
  kv::session session_;
};

inline std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}
inline std::string error(std::string_view text) { return "-" + std::string(text) + "\r\n"; }
inline std::string integer(long long n) { return ":" + std::to_string(n) + "\r\n"; }
inline const std::string ok = "+OK\r\n";
inline const std::string null = "$-1\r\n";

}  // namespace kv_test
