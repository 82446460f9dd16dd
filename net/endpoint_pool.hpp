// EndpointPool: connections to more peers than there are queue pairs, made on first use.
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
  // Limit of connections, 1 to 65536, including those that are connecting or closing.
  std::uint32_t most = 16;
  connect_options connection = {};  // for each connection; private_data is copied
  // An evicted connection is closed gracefully, after all operations that were started on it. If
  // that takes longer, because the peer does not receive, it is aborted.
  duration close_timeout = std::chrono::seconds(5);
};

struct endpoint_pool_counters {
  std::uint64_t reused = 0;    // loans of an existing connection
  std::uint64_t connects = 0;  // successful
  std::uint64_t failures = 0;  // failed connects
  std::uint64_t evictions = 0;
  std::uint64_t aborts = 0;  // of the evictions: not done in time
};

// Makes connections on the first request for an address, and lends them. Of the connections without
// a loan, the least recently used is evicted to make room for a new one. This lets few queue pairs
// serve many peers, as dynamically connected transport does in hardware. An eviction first executes
// the operations that were started on the connection. Messages not received by then are lost: a
// caller that waits for a response keeps its loan until the response has arrived. Bound to the
// thread of its Worker, which outlives it, as do connection.messages. REQUIRES that no loan exists,
// and no borrow() is running, when it is destroyed; idle and closing connections are then aborted.
class EndpointPool {
  struct line;

 public:
  // A lent connection, which several loans may share. Move-only. REQUIRES that it ends before the
  // pool.
  class [[nodiscard]] Loan {
   public:
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), line_(std::move(other.line_)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan();
    // The connection; it may end at any time because of the peer or the network.
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

  // Returns a loan of the existing connection to the address `to`, unless that has ended, or of a
  // new one. A new one may have to wait for another to be released; waiting is FIFO. Callers for an
  // address that is connecting share the outcome. Throws the errors of connecting. On cancellation:
  // withdrawn; fails with canceled.
  [[nodiscard]] task<Loan> borrow(std::string to);
  // The same if it is connected now; never waits or allocates. REQUIRES the Worker's thread.
  [[nodiscard]] std::optional<Loan> try_borrow(std::string_view to) noexcept;
  // Closes all connections without a loan or a waiting borrow(), after the operations started
  // there. Done when they are closed. It also waits for connects that no borrow() needs any more.
  // On cancellation: fails with canceled; connections that began to close are still closed.
  [[nodiscard]] task<void> close();

  // Existing connections, including those in progress: at most endpoint_pool_options::most.
  [[nodiscard]] std::size_t size() const noexcept { return options_.most - places_.available(); }
  [[nodiscard]] const endpoint_pool_counters& counters() const noexcept { return counters_; }

 private:
  // State for one address.
  struct line : list_node {
    std::string to;
    Endpoint endpoint;
    event settled;               // set once connected or failed
    std::optional<failure> why;  // why connecting failed
    std::uint32_t askers = 0;
    std::uint32_t loans = 0;
    bool is_made = false;  // its connect is in progress
    bool waits = false;    // for a slot; counted in waiting_ while askers exist
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
  // Whether a connection is closing or is about to.
  [[nodiscard]] bool is_closing() const noexcept;
  void forget(const line& l) noexcept;
  // Ends the connection and releases its slot. drop() is for one that counts as busy.
  void release(line& l) noexcept;
  void drop(line& l) noexcept;

  Worker* worker_;
  endpoint_pool_options options_;
  std::vector<std::byte> private_data_;
  endpoint_pool_counters counters_;
  std::unordered_map<std::string, std::shared_ptr<line>, text_hash, std::equal_to<>> lines_;
  list<line> idle_;  // connected and without a loan, least recently used first
  semaphore places_;
  std::size_t waiting_ = 0;  // lines that wait for a slot
  std::size_t busy_ = 0;     // lines with a slot that are not closing
  std::size_t closing_ = 0;  // connections
  event changed_;            // set whenever close() may continue
  scope tasks_;
};

}  // namespace cordma
