// The requests posted on a connection: rings of fixed size, without I/O.
#pragma once

#include <bit>
#include <cordma/net/transport/shm/cell.hpp>
#include <cordma/net/transport/shm/copy.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <cordma/runtime/check.hpp>
#include <cordma/runtime/list.hpp>
#include <cstring>
#include <memory>
#include <utility>

namespace cordma::transport::shm {

class shm_queue_pair;

enum class send_stage : std::uint8_t { waiting, fetch, flush, finished };

struct send_entry {
  send_request request;        // its segments are stored in the queue
  std::uint64_t total = 0;     // bytes
  std::uint64_t offset = 0;    // bytes done, for fragments and served requests
  std::uint64_t goal = 0;      // value of `fetched` or `taken` to reach
  std::uint64_t position = 0;  // in the ring, start of the message
  wc_status status = wc_status::success;
  send_stage at = send_stage::waiting;
};

// retired <= executed <= posted, as distances of running numbers. Bound to the adapter's thread.
class send_queue {
 public:
  explicit send_queue(const queue_pair_options& o)
      : mask_(std::bit_ceil(o.send_depth) - 1),
        per_entry_(o.max_segments),
        inline_bytes_(o.inline_bytes),
        entries_(std::make_unique<send_entry[]>(mask_ + std::size_t{1})),
        segments_(std::make_unique<segment[]>((mask_ + std::size_t{1}) * per_entry_)),
        inline_(std::make_unique<std::byte[]>((mask_ + std::size_t{1}) * inline_bytes_)) {
    CORDMA_REQUIRE_OP(o.send_depth, >, 0U);
    CORDMA_REQUIRE_OP(o.max_segments, <=, most_segments);
  }

  [[nodiscard]] bool empty() const noexcept { return retired_ == posted_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return posted_ - retired_; }
  [[nodiscard]] bool all_executed() const noexcept { return executed_ == posted_; }
  // True if some executed requests are not retired.
  [[nodiscard]] bool any_executed() const noexcept { return executed_ != retired_; }
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
  [[nodiscard]] std::uint32_t executed() const noexcept { return executed_; }
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] send_entry& operator[](std::uint32_t number) noexcept {
    return entries_[number & mask_];
  }
  // REQUIRES that there is one. The first entry that is not retired, and the first that is not
  // executed.
  [[nodiscard]] send_entry& oldest() noexcept { return (*this)[retired_]; }
  [[nodiscard]] send_entry& next() noexcept { return (*this)[executed_]; }

  // REQUIRES a free entry. Copies the request, and its bytes if they are inline.
  send_entry& post(const send_request& request) noexcept {
    const std::size_t place = posted_ & mask_;
    send_entry& e = entries_[place];
    segment* const own = &segments_[place * per_entry_];
    e = send_entry{};
    e.request = request;
    e.request.segments = own;
    std::copy_n(request.segments, request.segment_count, own);
    e.total = total_bytes(own, request.segment_count);
    if ((request.flags & post_flag::inline_data) != 0) {
      CORDMA_REQUIRE_OP(e.total, <=, inline_bytes_);
      std::byte* to = &inline_[place * inline_bytes_];
      for (std::size_t i = 0; i < request.segment_count; ++i) {
        std::memcpy(to, own[i].addr, own[i].length);
        own[i].addr = to;
        to += own[i].length;
      }
    }
    ++posted_;
    return e;
  }
  void execute() noexcept { ++executed_; }
  // REQUIRES any_executed().
  void retire() noexcept { ++retired_; }
  // Drops the oldest entry, executed or not.
  void drop() noexcept {
    if (!any_executed()) ++executed_;
    ++retired_;
  }
  // Clears post_flag::more in entries that found no space: a later poll executes them, and no
  // ring() follows then.
  void end_batch() noexcept {
    for (std::uint32_t i = executed_; i != posted_; ++i) {
      std::uint8_t& flags = (*this)[i].request.flags;
      flags = static_cast<std::uint8_t>(flags & ~unsigned{post_flag::more});
    }
  }

  // The number of the next message that the peer fetches.
  [[nodiscard]] std::uint64_t next_fetch() noexcept { return ++fetches_; }
  // Records that the peer has fetched `number` messages in total. False: this number is impossible.
  [[nodiscard]] bool on_fetched(std::uint64_t number) noexcept {
    if (number > fetches_ || number < fetched_) return false;
    fetched_ = number;
    return true;
  }
  // The peer failed because of the message at this position of the ring.
  void blame(std::uint64_t position, wc_status status) noexcept {
    for (std::uint32_t i = retired_; i != executed_; ++i) {
      send_entry& e = (*this)[i];
      if (e.position == position && e.at == send_stage::fetch) e.status = status;
    }
    if (!all_executed() && next().offset != 0 && next().position <= position) {
      next().status = status;
    }
  }
  // Checks the order of the numbers, as above. Not for hot paths.
  void check() const noexcept {
    CORDMA_ASSERT_OP(executed_ - retired_, <=, posted_ - retired_);
    CORDMA_ASSERT_OP(posted_ - retired_, <=, mask_ + 1);
  }

 private:
  std::uint32_t retired_ = 0;
  std::uint32_t executed_ = 0;
  std::uint32_t posted_ = 0;
  std::uint32_t mask_;
  std::uint32_t per_entry_;     // segments
  std::uint32_t inline_bytes_;  // per entry
  std::unique_ptr<send_entry[]> entries_;
  std::unique_ptr<segment[]> segments_;
  std::unique_ptr<std::byte[]> inline_;
  std::uint64_t fetches_ = 0;  // total messages for the peer to fetch
  std::uint64_t fetched_ = 0;  // total that this side has seen fetched
};

struct recv_entry {
  std::uint64_t id = 0;
  std::uint64_t capacity = 0;  // bytes
  const segment* segments = nullptr;
  std::uint16_t count = 0;
  bool permitted = true;
};

// With shared receives it stores only the one that a message has consumed. Bound to the adapter's
// thread.
class recv_queue {
 public:
  recv_queue(std::uint32_t depth, std::size_t segments_each)
      : mask_(std::bit_ceil(depth) - 1),
        entries_(std::make_unique<recv_entry[]>(mask_ + std::size_t{1})),
        segments_(std::make_unique<segment[]>((mask_ + std::size_t{1}) * segments_each)) {
    for (std::size_t i = 0; i <= mask_; ++i) entries_[i].segments = &segments_[i * segments_each];
  }

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return tail_ - head_; }
  // REQUIRES that there is one.
  [[nodiscard]] recv_entry& first() noexcept { return entries_[head_ & mask_]; }
  void pop() noexcept { ++head_; }
  // REQUIRES a free entry.
  [[gnu::always_inline]] void store(const recv_request& request,
                                    const shm_domain& domain) noexcept {
    recv_entry& r = entries_[tail_++ & mask_];
    r.id = request.id;
    r.count = request.segment_count;
    auto* const own = const_cast<segment*>(r.segments);
    for (std::size_t i = 0; i < r.count; ++i) own[i] = request.segments[i];
    r.capacity = total_bytes(own, r.count);
    r.permitted = domain.permits(own, r.count, true);
  }
  // Sets the status of the first receive that is flushed.
  void fail_first(wc_status status) noexcept { first_status_ = status; }
  [[nodiscard]] wc_status next_flushed() noexcept {
    CORDMA_ASSERT_OP(size(), <=, mask_ + 1);
    return std::exchange(first_status_, wc_status::wr_flush_err);
  }

 private:
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t mask_;
  std::unique_ptr<recv_entry[]> entries_;
  std::unique_ptr<segment[]> segments_;
  wc_status first_status_ = wc_status::wr_flush_err;
};

// A queue pair's entry in the list of those that a shared receive is available for.
struct turn : list_node {
  explicit turn(shm_queue_pair& q) noexcept : owner(&q) {}
  shm_queue_pair* owner;
};

}  // namespace cordma::transport::shm
