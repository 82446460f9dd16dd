// MemoryWindow: a part of a MemoryRegion that the peer of one Endpoint may use until it is revoked.
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

// A window of type 2 of the InfiniBand specification: only the peer of its Endpoint can use its
// key. A move-only handle. Belongs to the Worker of that Endpoint; used and destroyed on its thread
// only. Created by Endpoint::bind(). Its region cannot be deregistered while it is bound. The
// window and its key end for good by release() or destruction, by the peer's send_invalidate(), and
// with the connection. On Soft-RoCE any peer of the device that guesses its key can invalidate it.
class MemoryWindow {
 public:
  MemoryWindow() noexcept = default;
  explicit MemoryWindow(detail::owned_window core) noexcept : core_(std::move(core)) {}

  // Whether the peer can use it.
  [[nodiscard]] explicit operator bool() const noexcept;
  // Size and rights of the binding; 0 and local_read if it is empty.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] access rights() const noexcept;
  // The value of Received::invalidated once the peer has invalidated it. 0: empty.
  [[nodiscard]] std::uint64_t key() const noexcept;

  // Returns the blob that lets the peer use it, in the format of MemoryRegion::export_blob(), for
  // RemoteMemory::import(). Errors: bad_state if it has ended, or is empty.
  [[nodiscard]] result<std::vector<std::byte>> export_blob() const;

  // Once it returns, the key is refused and the region is no longer held. Idempotent. Errors:
  // no_lock: called from another thread.
  result<void> release() noexcept;

 private:
  detail::owned_window core_;
};

namespace detail {

class bind_base : public post_base {
 public:
  // An invalid `region` or range is reported when the operation is started.
  bind_base(endpoint_core& endpoint, const MemoryRegion& region, std::size_t offset,
            std::size_t length, access rights) noexcept;
  bind_base(bind_base&&) noexcept = default;
  ~bind_base();

 protected:
  friend class worker_core;
  // Allocates a window of the transport for the bind.
  [[nodiscard]] result<void> prepare() noexcept;
  void bound(std::uint64_t key) noexcept;
  owned_window window_;

 private:
  [[nodiscard]] result<void> check(const MemoryRegion& region, std::size_t offset,
                                   std::size_t length, access rights) const;
};

}  // namespace detail

// Resolves with the window once it is bound; its key is not visible before that. Canceled while it
// waits for a queue entry: withdrawn; later it resumes when the bind is done. If it is destroyed in
// flight, or with a window that was not taken, the window ends.
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
