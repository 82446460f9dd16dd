// A message of the protocol of requests on its way, and what its failures mean.
#pragma once

#include <cordma/net/messages.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <optional>

namespace cordma::detail {

// A message of this protocol on its way, with its header.
class outgoing_word {
 public:
  [[nodiscard]] bool busy() const noexcept { return op_.has_value(); }
  [[nodiscard]] bool done() const noexcept { return busy() && op_->done(); }
  // It was handed to the transport. REQUIRES busy().
  [[nodiscard]] bool left() const noexcept { return op_->left(); }
  // Whether its data may still be read where it is.
  [[nodiscard]] bool reads_memory() const noexcept { return busy() && op_->reads_memory(); }
  // `told(context)` when it is done, perhaps at once; then take(). REQUIRES !busy().
  void send(endpoint_core& to, const protocol::request_header& h, const Slice& data, bool announced,
            void (*told)(void* context) noexcept, void* context) noexcept;
  // REQUIRES done().
  [[nodiscard]] result<void> outcome() noexcept;
  // The same, and it is not busy() any more.
  [[nodiscard]] result<void> take() noexcept;
  // It ends as canceled, where it waits for its turn. False: it does not.
  [[nodiscard]] bool cancel_if_queued() noexcept;
  // It is given up, and not told of.
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

// `place` holds the memory of `s`, where that has any.
void keep(MemoryRegion& place, const Slice& s) noexcept;
[[nodiscard]] failure breach_of_requests(const char* what);
// Whether a message that ended so has reached the peer.
[[nodiscard]] bool went_out(const result<void>& sent) noexcept;
// What is told of a request that may have been served.
[[nodiscard]] failure cut_off() noexcept;
// Of a call whose deadline has passed.
[[nodiscard]] failure too_late();

}  // namespace cordma::detail
