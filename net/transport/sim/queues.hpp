// The two work queues of a queue pair: fixed rings of requests with copies of their segment lists.
#pragma once

#include <cordma/net/transport/region_table.hpp>
#include <cordma/net/transport/sim/packet.hpp>
#include <cordma/runtime/check.hpp>

#include <span>
#include <vector>

namespace cordma::transport::sim {

// Copy bytes offset ... offset + n of a list, out of it or into it.
void gather(std::span<const segment> from, std::uint64_t offset, std::byte* to,
            std::size_t n) noexcept;
void scatter(std::span<const segment> to, std::uint64_t offset, const std::byte* from,
             std::size_t n) noexcept;
// True if every non-empty segment is in a region of its key that grants the access right.
[[nodiscard]] bool covered(const region_table& regions, std::span<const segment> list,
                           access right) noexcept;

struct send_entry {
  send_request request;  // without its pointers
  datagram_peer to;
  std::span<const segment> segments;
  std::uint64_t length = 0;             // bytes
  std::uint64_t first_psn = 0;          // valid once admitted
  std::uint32_t packets = 0;            // number of PSNs: of its packets or of the responses
  bool admitted = false;                // begun; has its PSNs
  wc_status doom = wc_status::success;  // fails with this status when it is first in the queue
  packet* copy = nullptr;               // of a put: its bytes, returned to the pool when it ends
  time_point departure{};               // UC, UD: when its last packet was sent
};

// Requests and puts in one order, each with a separate capacity. REQUIRES everywhere that the
// caller accounts for the requests, as the interface states.
class send_queue {
 public:
  explicit send_queue(const queue_pair_options& o);
  send_entry& push(const send_request& r) noexcept;
  [[nodiscard]] bool has_room_for_put() const noexcept { return puts_ < most_puts_; }
  // Adds a send of `copy.length` bytes, which are in `copy`. REQUIRES has_room_for_put().
  send_entry& put(packet& copy) noexcept;
  [[nodiscard]] send_entry& at(std::uint64_t index) noexcept { return ring_[index % ring_.size()]; }
  // Entries completed() ... posted() - 1 are outstanding.
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }
  [[nodiscard]] bool empty() const noexcept { return posted_ == completed_; }
  [[nodiscard]] send_entry& front() noexcept { return at(completed_); }
  void pop() noexcept {
    CORDMA_REQUIRE_OP(completed_, <, posted_);
    if (front().copy != nullptr) --puts_;
    ++completed_;
  }

 private:
  static constexpr std::size_t room_for_puts = 32;  // outstanding, rc only
  [[nodiscard]] std::size_t requests() const noexcept {
    return static_cast<std::size_t>(posted_ - completed_) - puts_;
  }
  // The next entry, blank.
  send_entry& next() noexcept;

  std::size_t depth_;      // requests outstanding
  std::size_t most_puts_;  // puts outstanding
  std::size_t puts_ = 0;
  std::size_t max_segments_;
  std::size_t max_inline_;
  std::vector<send_entry> ring_;
  std::vector<segment> segments_;
  std::vector<std::byte> inline_bytes_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
};

struct recv_entry {
  std::uint64_t id = 0;
  datagram_peer* from = nullptr;
  std::span<const segment> segments;
  std::uint64_t capacity = 0;  // bytes
};

class recv_queue {
 public:
  recv_queue(std::uint32_t depth, std::uint32_t max_segments);
  void push(const recv_request& r) noexcept;
  [[nodiscard]] bool empty() const noexcept { return posted_ == completed_; }
  [[nodiscard]] recv_entry& front() noexcept { return ring_[completed_ % ring_.size()]; }
  void pop() noexcept {
    CORDMA_REQUIRE_OP(completed_, <, posted_);
    ++completed_;
  }

 private:
  std::vector<recv_entry> ring_;
  std::vector<segment> segments_;
  std::size_t max_segments_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
};

}  // namespace cordma::transport::sim
