// EndpointPool: connections to more peers than there are queue pairs for, made on first use.
#pragma once

#include <cordma/net/connect.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/list.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/semaphore.hpp>
#include <cordma/runtime/task.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cordma {

class Worker;

struct endpoint_pool_options {
  // Connections at a time, 1 to 65536: those that are being made, and those that are being closed, included.
  std::uint32_t most = 16;
  connect_options connection = {};  // of each; private_data is copied
  // What makes room for another is closed gracefully, after all that was started on it. Longer than this that
  // takes only where its peer does not receive: then it is aborted.
  duration close_timeout = std::chrono::seconds(5);
};

struct endpoint_pool_counters {
  std::uint64_t reused = 0;    // loans of what was connected already
  std::uint64_t connects = 0;  // that succeeded
  std::uint64_t failures = 0;  // to connect
  std::uint64_t evictions = 0;
  std::uint64_t aborts = 0;  // of those: that were not done in time
};

// Connections that are made when they are first asked for, and lent; of those that nobody has on loan, the one
// that was used longest ago makes room for another. So few queue pairs talk with many peers, as dynamically
// connected transport does in hardware. What was started on a connection is carried out before it goes; what it
// has not received by then is not received any more: who waits for an answer keeps the loan until it is there.
// Bound to the thread of its Worker, which outlives it, as do connection.messages. REQUIRES that no loan is left,
// and no borrow() under way, when it is destroyed: then what is idle, or being closed, is aborted.
class EndpointPool {
  struct line;

 public:
  // A connection on loan; several may have it at a time. Move-only; ends before the pool does.
  class [[nodiscard]] Loan {
   public:
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), line_(std::move(other.line_)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan();
    // As any other: it ends when its peer ends it, or the network.
    [[nodiscard]] Endpoint& operator*() const noexcept;
    [[nodiscard]] Endpoint* operator->() const noexcept { return &**this; }

   private:
    friend class EndpointPool;
    Loan(EndpointPool& pool, std::shared_ptr<line> of) noexcept;
    EndpointPool* pool_;
    std::shared_ptr<line> line_;
  };

  // Throws cordma::error: invalid_value (options outside their bounds).
  explicit EndpointPool(Worker& worker, const endpoint_pool_options& options = {});
  EndpointPool(const EndpointPool&) = delete;
  EndpointPool& operator=(const EndpointPool&) = delete;
  ~EndpointPool();

  // A connection to that address: the one there is, unless it has ended, or a new one, for which it may have to
  // wait until another is free; first come, first served. Who asks for an address that is being connected to
  // waits for the same outcome. Throws what connecting ends with. On cancellation: withdrawn, canceled.
  [[nodiscard]] task<Loan> borrow(std::string to);
  // The same, where it is connected now; never waits, nor allocates. REQUIRES the Worker's thread.
  [[nodiscard]] std::optional<Loan> try_borrow(std::string_view to) noexcept;
  // Closes all that is not on loan, nor asked for, after what was started there; done when that is closed. Those
  // that are being made for nobody any more are waited for, too. On cancellation: canceled, and what it has begun to
  // close is closed nevertheless.
  [[nodiscard]] task<void> close();

  // Connections that there are, those under way included: at most endpoint_pool_options::most.
  [[nodiscard]] std::size_t size() const noexcept { return options_.most - places_.available(); }
  [[nodiscard]] const endpoint_pool_counters& counters() const noexcept { return counters_; }

 private:
  // What is known of one address.
  struct line : list_node {
    std::string to;
    Endpoint endpoint;
    event settled;               // connected, or failed
    std::optional<failure> why;  // it failed
    std::uint32_t askers = 0;
    std::uint32_t loans = 0;
    bool is_made = false;  // just now
    bool waits = false;    // for a place, and counts in waiting_ while somebody asks for it
  };
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const noexcept {
      return std::hash<std::string_view>()(s);
    }
  };
  class asking;
  [[nodiscard]] std::shared_ptr<line> find(std::string_view to) noexcept;
  [[nodiscard]] std::shared_ptr<line> open(const std::string& to);
  [[nodiscard]] task<void> connect(std::shared_ptr<line> l);
  [[nodiscard]] task<void> close_gently(std::shared_ptr<line> l);
  void returned(std::shared_ptr<line>& l) noexcept;
  void evict(line& l) noexcept;
  void make_room() noexcept;
  // Whether something is being closed, or is to be.
  [[nodiscard]] bool is_closing() const noexcept;
  void forget(const line& l) noexcept;
  // Ends it, and gives its place back; drop(): of one that counts as busy.
  void release(line& l) noexcept;
  void drop(line& l) noexcept;

  Worker* worker_;
  endpoint_pool_options options_;
  std::vector<std::byte> private_data_;
  endpoint_pool_counters counters_;
  std::unordered_map<std::string, std::shared_ptr<line>, text_hash, std::equal_to<>> lines_;
  list<line> idle_;  // connected, and nobody's: the one that was used longest ago first
  semaphore places_;
  std::size_t waiting_ = 0;  // for a place
  std::size_t busy_ = 0;     // have one, and are not being closed
  std::size_t closing_ = 0;  // connections
  event changed_;            // set whenever close() may go on
  scope tasks_;
};

}  // namespace cordma
