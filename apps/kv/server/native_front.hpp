// native_front: the native protocol's part of a server: its address, and the workers that serve its
// clients.
#pragma once

#include "../keyspace/keyspace.hpp"
#include "logbook.hpp"
#include "native_entrance.hpp"
#include "worker.hpp"

#include <cordma/cordma.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

struct native_settings {
  std::uint64_t port = 0;  // 0: not offered
  std::string
      token_file;  // path, token in its first line; empty: the default user's password, if any
  bool one_sided = true;
};

// Made, used and destroyed by the main thread, while the workers run.
class native_front {
 public:
  struct surroundings {
    cordma::Context& context;
    std::span<const std::unique_ptr<worker>> workers;
    keyspace& keys;
    journal_gate* journal = nullptr;
    std::function<unix_ms(unsigned worker)> now;         // on that worker's thread
    std::function<bool(unsigned worker)> is_still = {};  // likewise; empty: never
    std::function<std::string(unsigned worker, std::string_view section)> information;  // likewise
    // Returns true if one more client may connect, else counts the refusal. On the first worker's
    // thread.
    std::function<bool()> has_place;
  };
  // `host`: address to listen on; empty: all. Connections wait for admit(). Throws cordma::error.
  native_front(const surroundings& around, const std::string& host, std::uint64_t port,
               const native::door_options& how);
  ~native_front();
  native_front(const native_front&) = delete;
  native_front& operator=(const native_front&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Transports that clients cannot connect over, with the reason.
  [[nodiscard]] const std::vector<std::pair<cordma::transport::kind, cordma::failure>>& missing()
      const noexcept {
    return missing_;
  }
  // Admits clients from now on. Called once.
  void admit();
  void stop_listening();
  // On that worker's thread, which holds no shard.
  void journal_advanced(unsigned worker) noexcept;
  // The journal makes clients wait from now on, or no longer. On any thread, which holds all
  // shards.
  void policy_changed() noexcept;
  struct figures {
    std::uint64_t open = 0;
    std::uint64_t connections = 0;
    std::uint64_t refused = 0;
    std::uint64_t timed_out = 0;
    std::uint64_t lent_bytes = 0;
    std::uint64_t batches = 0;
    std::uint64_t operations = 0;
  };
  [[nodiscard]] figures counted() const noexcept;

 private:
  // A position in the journal, and the last versions that the shards had assigned by then.
  struct mark {
    std::uint64_t appended = 0;
    std::vector<std::uint64_t> versions;
  };
  explicit native_front(const surroundings& around);  // without entrances
  void mark_safe() noexcept;
  void tell_safe() noexcept;  // up to mark_
  void begin_marking();
  [[nodiscard]] mark take_mark();

  keyspace& keys_;
  journal_gate* journal_;
  // Accessed while holding all shards.
  mark mark_;
  std::atomic<bool> marking_ = false;  // the first worker's thread reads it without
  std::span<const std::unique_ptr<worker>> workers_;
  std::vector<std::unique_ptr<native_entrance>> entrances_;  // each belongs to its worker's thread
  std::string address_;
  std::vector<std::pair<cordma::transport::kind, cordma::failure>> missing_;
};

// Returns the token that clients present, read from the file. Throws cordma::error if it cannot be
// read or its first line is empty.
[[nodiscard]] std::string native_token(const std::string& file);

}  // namespace kv
