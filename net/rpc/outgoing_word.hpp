// An outgoing message of the request protocol, and the meaning of its failures.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <optional>

namespace cordma::detail {

// An outgoing message of the request protocol, with its header.
class outgoing_word {
 public:
  [[nodiscard]] bool busy() const noexcept { return op_.has_value(); }
  [[nodiscard]] bool done() const noexcept { return busy() && op_->done(); }
  // True if it was passed to the transport. REQUIRES busy().
  [[nodiscard]] bool left() const noexcept { return op_->left(); }
  // True if its data may still be read from the caller's memory.
  [[nodiscard]] bool reads_memory() const noexcept { return busy() && op_->reads_memory(); }
  // Calls `told(context)` when it is done, possibly during this call; call take() then. REQUIRES
  // !busy().
  void send(endpoint_core& to, const protocol::request_header& h, const Slice& data, bool announced,
            void (*told)(void* context) noexcept, void* context) noexcept;
  // REQUIRES done().
  [[nodiscard]] result<void> outcome() noexcept;
  // As outcome(), and makes it not busy().
  [[nodiscard]] result<void> take() noexcept;
  // Cancels it if it waits in the queue. False if it does not.
  [[nodiscard]] bool cancel_if_queued() noexcept;
  // Drops it without a callback.
  void drop() noexcept { op_.reset(); }

 private:
  std::array<std::byte, protocol::longest_response> header_;
  std::optional<message_send_operation> op_;
  void (*told_)(void* context) noexcept = nullptr;
  void* context_ = nullptr;
};
static_assert(protocol::longest_response <= most_am_header);
static_assert(protocol::request_bytes <= protocol::longest_response, "the longest of all headers");
static_assert(protocol::request_head_bytes <= protocol::response_bytes);
static_assert(protocol::request_id_of_messages >= protocol::first_reserved_id);

// Stores in `place` a reference to the memory of `s`, if it has any.
void keep(MemoryRegion& place, const Slice& s) noexcept;
[[nodiscard]] failure breach_of_requests(const char* what);
// True if a message with this outcome has reached the peer.
[[nodiscard]] bool went_out(const result<void>& sent) noexcept;
// The failure of a request that may have been served.
[[nodiscard]] failure cut_off() noexcept;
// The failure of a call after its deadline.
[[nodiscard]] failure too_late();

}  // namespace cordma::detail
