// Registered memory: MemoryRegion and Slice for local memory, RemoteMemory and RemoteSlice for
// memory of a peer, and the blob that transfers the description between them.
#pragma once

#include <cordma/net/transport/remote_keys.hpp>
#include <cordma/net/transport/types.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

struct ibv_mr;

namespace cordma {

using transport::access;
using transport::memory_kind;

namespace detail {
struct region_core;
void retain(region_core& region) noexcept;
void release(region_core& region) noexcept;
void require_host(const region_core& region) noexcept;
}  // namespace detail

// A piece of a MemoryRegion, as operations use it. 24 bytes, freely copied. It keeps nothing alive:
// the region must outlive every operation that uses the slice (an operation that is destroyed in
// flight keeps the region alive itself). A default-constructed slice is empty and valid for every
// operation.
class Slice {
 public:
  Slice() noexcept = default;
  // An address; for device memory, one that the CPU must not access.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // REQUIRES memory_kind::host.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    if (region_ != nullptr) detail::require_host(*region_);
    return {data_, size_};
  }
  // Kind of its region; host for an empty slice.
  [[nodiscard]] memory_kind kind() const noexcept;
  // REQUIRES offset + length <= size().
  [[nodiscard]] Slice part(std::size_t offset, std::size_t length) const noexcept {
    CORDMA_REQUIRE_OP(offset, <=, size_);
    CORDMA_REQUIRE_OP(length, <=, size_ - offset);
    return Slice(region_, data_ + offset, length);
  }
  [[nodiscard]] Slice first(std::size_t length) const noexcept { return part(0, length); }

  // For the library.
  Slice(detail::region_core* region, std::byte* data, std::size_t size) noexcept
      : region_(region), data_(data), size_(size) {}
  [[nodiscard]] detail::region_core* region() const noexcept { return region_; }

 private:
  detail::region_core* region_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};
static_assert(sizeof(Slice) <= 32);

// Memory registered with every transport of a Context. A handle: copies share one registration,
// which ends with the last copy. Thread-safe. Created by Context::allocate() and
// Context::register_memory().
class MemoryRegion {
 public:
  MemoryRegion() noexcept = default;
  explicit MemoryRegion(detail::region_core* owned) noexcept : core_(owned) {}
  MemoryRegion(const MemoryRegion& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) detail::retain(*core_);
  }
  MemoryRegion(MemoryRegion&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  MemoryRegion& operator=(MemoryRegion other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~MemoryRegion() {
    if (core_ != nullptr) detail::release(*core_);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return core_ != nullptr; }
  // An address; for device memory, one that the CPU must not access.
  [[nodiscard]] std::byte* data() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  // REQUIRES memory_kind::host.
  [[nodiscard]] std::span<std::byte> bytes() const noexcept;
  [[nodiscard]] access rights() const noexcept;
  // Kind and device as registered (device 0 for host memory).
  [[nodiscard]] memory_kind kind() const noexcept;
  [[nodiscard]] std::uint16_t device() const noexcept;
  // The memory as an array of trivially copyable objects. REQUIRES memory_kind::host, and data()
  // aligned for T.
  template <class T>
  [[nodiscard]] std::span<T> as() const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::span<std::byte> all = bytes();
    CORDMA_REQUIRE_OP(reinterpret_cast<std::uintptr_t>(all.data()) % alignof(T), ==, 0);
    return {reinterpret_cast<T*>(all.data()), all.size() / sizeof(T)};
  }

  // The complete region, or a part. Errors: invalid_value if the part is not inside the region.
  [[nodiscard]] Slice all() const noexcept { return Slice(core_, data(), size()); }
  operator Slice() const noexcept { return all(); }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] result<Slice> slice(std::size_t offset, std::size_t length) const;

  // Returns the blob that lets a peer use this memory: versioned, length-checked, little-endian,
  // and always RemoteMemory::blob_bytes long. It contains the keys: any process that has it can use
  // the granted rights. Errors: not_permitted (the region grants no remote right), invalid_value
  // (the Context has more transports than a blob can hold keys: transport::remote_keys::most).
  // Remote access ends with the registration, except through a RemoteView that a peer has.
  [[nodiscard]] result<std::vector<std::byte>> export_blob() const;

  // For programs that use libibverbs beside cordma: the key by which their own requests refer to
  // this memory (0: not registered there), and the registration itself. The registration is
  // borrowed, until the last handle is destroyed. Errors: not_supported: no transport of the
  // Context uses libibverbs; bad_state: empty.
  [[nodiscard]] std::uint32_t lkey(transport::kind k) const noexcept;
  [[nodiscard]] result<ibv_mr*> native_mr() const;

  // Ends the registration now: remote access is refused once it returns. Errors: in_use while other
  // handles, pool buffers, windows or operations that were destroyed in flight refer to it; the
  // handle then keeps it. Live operations are not counted, as with any Slice: wait for them first.
  result<void> deregister();

 private:
  detail::region_core* core_ = nullptr;
};

// A piece of remote memory, as one-sided operations use it. A value.
class RemoteSlice {
 public:
  RemoteSlice() noexcept = default;
  RemoteSlice(std::uint64_t addr, std::uint64_t size, const transport::remote_keys& keys) noexcept
      : addr_(addr), size_(size), keys_(keys) {}
  // In the owner's address space.
  [[nodiscard]] std::uint64_t addr() const noexcept { return addr_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  // 0: not exported on that transport.
  [[nodiscard]] std::uint64_t rkey(transport::kind k) const noexcept {
    std::uint64_t key = 0;
    return keys_.get(k, key) ? key : 0;
  }
  [[nodiscard]] const transport::remote_keys& keys() const noexcept { return keys_; }
  [[nodiscard]] result<RemoteSlice> slice(std::uint64_t offset, std::uint64_t length) const;

 private:
  std::uint64_t addr_ = 0;
  std::uint64_t size_ = 0;
  transport::remote_keys keys_;
};

// Memory of a peer, mapped for plain loads: Endpoint::view(). It may change while it is read: copy
// the bytes before checking them, and put a fence (std::memory_order_acquire) between two copies
// that must not be reordered. A value, and thread-safe. Copies share the mapping, which outlives
// the connection, the registration and the peer itself: the bytes then keep their last content, or
// have the current content of the peer's memory.
class RemoteView {
 public:
  RemoteView() noexcept = default;
  explicit RemoteView(transport::peer_view of) noexcept : of_(std::move(of)) {}
  [[nodiscard]] explicit operator bool() const noexcept { return of_.mapping != nullptr; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return of_.bytes; }

 private:
  transport::peer_view of_;
};

// A MemoryRegion of a peer, as its blob describes it. A value without resources: it does not keep
// the owner's memory alive.
class RemoteMemory {
 public:
  // Size of the longest blob, to which export_blob() pads.
  static constexpr std::size_t blob_bytes = 64;

  RemoteMemory() noexcept = default;
  // Parses an untrusted blob. Errors: invalid_value (truncated, damaged, without a key, with more
  // keys than fit; the message names the fault), unsupported_version (naming both versions). Keys
  // of transports that this build does not know are skipped. If all keys are skipped, operations on
  // it fail with not_supported.
  [[nodiscard]] static result<RemoteMemory> import(std::span<const std::byte> blob);

  [[nodiscard]] std::uint64_t size() const noexcept { return whole_.size(); }
  [[nodiscard]] access rights() const noexcept { return rights_; }
  // Number of keys in the blob that this build has no transport for.
  [[nodiscard]] std::size_t skipped() const noexcept;
  [[nodiscard]] RemoteSlice all() const noexcept { return whole_; }
  operator RemoteSlice() const noexcept { return whole_; }  // NOLINT(google-explicit-constructor)
  // Errors: invalid_value if the part is not inside.
  [[nodiscard]] result<RemoteSlice> slice(std::uint64_t offset, std::uint64_t length) const {
    return whole_.slice(offset, length);
  }

 private:
  RemoteSlice whole_;
  access rights_ = access::local_read;
};

}  // namespace cordma
