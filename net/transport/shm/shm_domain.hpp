// Registered memory of one process, and the epochs that show its peers the end of a registration.
#pragma once

#include <atomic>
#include <cordma/net/transport/region_table.hpp>
#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/peer_rule.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/process.hpp>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace cordma::transport::shm {

inline constexpr std::size_t epoch_count =
    region_table::entries_per_chunk * region_table::most_chunks + 1;
inline constexpr std::size_t epochs_bytes =
    (epoch_count * sizeof(std::uint32_t) + page_bytes - 1) / page_bytes * page_bytes;

// Counter in which one connection shows that its peer is accessing our memory.
struct accessor {
  const std::atomic<std::uint32_t>* accessing;
  int socket;
};

// Thread-safe.
class shm_domain final : public domain, public std::enable_shared_from_this<shm_domain> {
 public:
  shm_domain(shm_options options, peer_rule rule, meeting_place place, unique_fd epochs,
             mapped_view view);
  ~shm_domain() override;

  [[nodiscard]] const capabilities& caps() const noexcept override { return caps_; }
  result<memory_keys> register_memory(const memory_range& range) override;
  void deregister_memory(std::uint32_t lkey) noexcept override;
  result<std::unique_ptr<adapter>> open(reactor& home) override;

  [[nodiscard]] const shm_options& options() const noexcept { return options_; }
  [[nodiscard]] const peer_rule& rule() const noexcept { return rule_; }
  [[nodiscard]] const meeting_place& place() const noexcept { return place_; }
  [[nodiscard]] region_table& regions() noexcept { return regions_; }
  [[nodiscard]] int epochs_fd() const noexcept { return epochs_fd_.get(); }
  // Odd: registered. REQUIRES a key that register_memory() returned.
  [[nodiscard]] std::uint32_t epoch(std::uint32_t lkey) const noexcept {
    return epochs_[lkey].load(std::memory_order_acquire);
  }
  // True if barrier_joined() orders this process's accesses.
  [[nodiscard]] bool barriers() const noexcept { return barriers_; }
  // Unique among the adapters of this domain.
  [[nodiscard]] std::uint64_t next_request() noexcept {
    return request_.fetch_add(1, std::memory_order_relaxed);
  }

  void add(const accessor& a);
  void remove(const std::atomic<std::uint32_t>* accessing) noexcept;
  // Waits until every accessor that has already passed its check leaves the memory or hangs up, at
  // most one second.
  void wait_for(std::span<const accessor> accessors) const noexcept;

  // True if the local segments may be read from or, if `written`, written to.
  [[nodiscard, gnu::always_inline]] bool permits(const segment* segments, std::size_t count,
                                                 bool written) const noexcept {
    return count == 1 ? permits(segments[0], written) : permits_all(segments, count, written);
  }

 private:
  [[nodiscard, gnu::always_inline]] bool permits(const segment& s, bool written) const noexcept {
    if (s.length == 0) return true;
    const memory_range* const r = regions_.local(s.lkey);
    if (r == nullptr) return false;
    // Huge if it is before the region.
    const auto offset = static_cast<std::size_t>(s.addr - r->addr);
    return offset <= r->length && s.length <= r->length - offset &&
           (!written || has(r->rights, access::local_write));
  }
  [[nodiscard]] bool permits_all(const segment* segments, std::size_t count,
                                 bool written) const noexcept;
  void wait_for_accessors() noexcept;

  const shm_options options_;
  const peer_rule rule_;
  const meeting_place place_;
  capabilities caps_;
  region_table regions_;
  unique_fd epochs_fd_;
  mapped_view epochs_view_;
  std::atomic<std::uint32_t>* epochs_;
  const bool barriers_;
  std::atomic<std::uint64_t> request_{1};
  std::mutex mutex_;
  std::vector<accessor> accessors_;
  process_mark made_in_;
};

// Marks that this side is accessing memory of its peer. Bound to one thread.
class access_mark {
 public:
  explicit access_mark(const shm_domain& of) noexcept : fences_(!of.barriers()) {}
  // `accessing`: the counter that the owner of the memory reads.
  void enter(std::atomic<std::uint32_t>& accessing) noexcept {
    accessing.store(++count_, std::memory_order_relaxed);
    // The owner invalidates the epoch, or withdraws, runs a barrier on our processor, then reads
    // `accessing`.
    if (fences_) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }
  void leave(std::atomic<std::uint32_t>& accessing) noexcept {
    accessing.store(++count_, std::memory_order_release);
  }
  [[nodiscard]] bool is_inside() const noexcept { return count_ % 2 != 0; }

 private:
  std::uint32_t count_ = 0;
  bool fences_;
};

}  // namespace cordma::transport::shm
