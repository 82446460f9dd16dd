// MemoryWindow: a part of a MemoryRegion that the peer of one Endpoint may use, until it is taken back.
#pragma once

#include <cordma/net/operations.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cordma {

namespace detail {
class window_core;
struct window_deleter {
  void operator()(window_core* window) const noexcept;
};
using owned_window = std::unique_ptr<window_core, window_deleter>;
}  // namespace detail

// A window of type 2, as the InfiniBand specification has it: nobody but the peer of its Endpoint can use
// its key. A handle, move-only; belongs to the Worker of that Endpoint and is used, and destroyed, on its
// thread only. Made by Endpoint::bind(). While it is bound its region cannot be deregistered.
// It ends, and its key with it, for good: by release() or destroying it, by the peer's send_invalidate(),
// and with the connection. On Soft-RoCE any peer of the device can invalidate it that guesses its key.
class MemoryWindow {
 public:
  MemoryWindow() noexcept = default;
  explicit MemoryWindow(detail::owned_window core) noexcept : core_(std::move(core)) {}

  // Whether the peer can use it.
  [[nodiscard]] explicit operator bool() const noexcept;
  // What it was bound to; 0 and local_read where it is empty.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] access rights() const noexcept;
  // What Received::invalidated names once the peer has invalidated it. 0: empty.
  [[nodiscard]] std::uint64_t key() const noexcept;

  // What lets the peer use it, in the form of MemoryRegion::export_blob(): RemoteMemory::import() reads
  // it. bad_state where it has ended, or is empty.
  [[nodiscard]] result<std::vector<std::byte>> export_blob() const;

  // From its return on the key is refused, and the region no longer held. Idempotent. no_lock: called
  // from another thread.
  result<void> release() noexcept;

 private:
  detail::owned_window core_;
};

namespace detail {

class bind_base : public post_base {
 public:
  // Of `region`; what is wrong with it is told when it is started.
  bind_base(endpoint_core& endpoint, const MemoryRegion& region, std::size_t offset,
            std::size_t length, access rights) noexcept;
  bind_base(bind_base&&) noexcept = default;
  ~bind_base();

 protected:
  friend class worker_core;
  // A window of the transport's, to be bound.
  [[nodiscard]] result<void> prepare() noexcept;
  void bound(std::uint64_t key) noexcept;
  owned_window window_;

 private:
  [[nodiscard]] result<void> check(const MemoryRegion& region, std::size_t offset,
                                   std::size_t length, access rights) const;
};

}  // namespace detail

// Resolves with the window once it is bound: its key is known to nobody before. Canceled while it waits
// for a place in the queue: withdrawn; later it resumes when the bind is done. Destroyed in flight, or
// with a window that nobody took: the window ends.
class [[nodiscard]] bind_operation final
    : public operation<bind_operation, MemoryWindow, detail::bind_base> {
 public:
  using operation::operation;
  bind_operation(bind_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  MemoryWindow take() noexcept { return MemoryWindow(std::move(window_)); }
};

}  // namespace cordma
