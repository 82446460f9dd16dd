// The memory protection of the software transports: the registered ranges with their rights and
// keys. Corresponds to the translation and protection table of an RDMA NIC.
#pragma once

#include <cordma/net/transport/transport.hpp>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

namespace cordma::transport {

// Thread-safe. Registration locks; look-ups do not.
class region_table {
 private:
  struct entry;

 public:
  static constexpr std::size_t entries_per_chunk = 256;
  static constexpr std::size_t most_chunks = 1024;  // so at most 262,144 regions

  region_table() = default;
  region_table(const region_table&) = delete;
  region_table& operator=(const region_table&) = delete;
  ~region_table();

  // rkey = 40 random bits, then the index: unguessable, and different from that of an earlier user
  // of the index. invalid_value: an empty or wrapping range; no_memory: the table is full.
  // If there is an owner, a look-up for another owner finds nothing.
  result<memory_keys> add(const memory_range& range, const void* owner = nullptr);
  // Returns once no look-up holds the range. REQUIRES a key that add() returned.
  void remove(std::uint32_t lkey) noexcept;
  // The same by the remote key. Returns false, and does nothing, if the key is not of this owner.
  bool revoke(std::uint64_t rkey, const void* owner) noexcept;

  // Keeps a range registered while it is in use; empty if the access was refused.
  class pin {
   public:
    pin() noexcept = default;
    pin(pin&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)), addr_(other.addr_) {}
    pin& operator=(pin&& other) noexcept {
      if (this != &other) {
        release();
        entry_ = std::exchange(other.entry_, nullptr);
        addr_ = other.addr_;
      }
      return *this;
    }
    ~pin() { release(); }
    explicit operator bool() const noexcept { return entry_ != nullptr; }
    [[nodiscard]] std::byte* data() const noexcept { return addr_; }

   private:
    friend class region_table;
    pin(entry* e, std::byte* addr) noexcept : entry_(e), addr_(addr) {}
    void release() noexcept;  // inline: most pins are empty, and many are released at once
    entry* entry_ = nullptr;
    std::byte* addr_ = nullptr;
  };
  // Checks key, rights and bounds together, as a NIC does: no byte outside, no right missing.
  [[nodiscard]] pin resolve(std::uint64_t rkey, std::uint64_t addr, std::uint64_t length,
                            access wanted, const void* from = nullptr) noexcept;

  // A registration found by remote key, pinned: for owners that let peers map the memory.
  struct registration {
    pin hold;
    const memory_range* range = nullptr;
    std::uint32_t lkey = 0;
    explicit operator bool() const noexcept { return range != nullptr; }
  };
  [[nodiscard]] registration look_up(std::uint64_t rkey) noexcept;

  // The registered range of a local key; null if there is none. Stable until remove().
  [[nodiscard]] const memory_range* local(std::uint32_t lkey) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return used_.load(std::memory_order_relaxed); }

 private:
  struct entry {
    std::atomic<std::uint64_t> rkey{0};  // 0: free
    std::atomic<std::uint32_t> users{0};
    std::atomic<std::uint64_t> addr{0};
    std::atomic<std::uint64_t> length{0};
    std::atomic<access> rights{access::local_read};
    std::atomic<const void*> owner{nullptr};
    memory_range range;
  };
  using chunk = std::array<entry, entries_per_chunk>;

  [[nodiscard]] entry* at(std::size_t index) const noexcept;

  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  std::size_t next_ = 0;
  std::atomic<std::size_t> used_{0};
  std::array<std::atomic<chunk*>, most_chunks> chunks_{};
};

inline void region_table::pin::release() noexcept {
  if (entry_ != nullptr) entry_->users.fetch_sub(1, std::memory_order_release);
  entry_ = nullptr;
}

inline region_table::entry* region_table::at(std::size_t index) const noexcept {
  const std::size_t c = index / entries_per_chunk;
  if (c >= most_chunks) return nullptr;
  chunk* const found = chunks_[c].load(std::memory_order_acquire);
  return found != nullptr ? &(*found)[index % entries_per_chunk] : nullptr;
}

inline const memory_range* region_table::local(std::uint32_t lkey) const noexcept {
  const entry* const e = at(std::size_t{lkey} - 1);  // the index of lkey 0 is far above the limit
  if (e == nullptr || e->rkey.load(std::memory_order_acquire) == 0) return nullptr;
  return &e->range;
}

}  // namespace cordma::transport
