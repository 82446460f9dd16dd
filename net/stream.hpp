// Stream: bytes in order over a connection of its own, with half-close.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/runtime/operation.hpp>
#include <cordma/runtime/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

namespace cordma {

namespace detail {
class stream_core;
// What ends an operation: some of its bytes, or all of them.
enum class stream_extent : std::uint8_t { some, whole };
}  // namespace detail

struct stream_options {
  // That the peer may have written and nobody has read yet; and that were copied here to be written there, and are
  // not yet: a peer that offers more room gets no more memory of this side's.
  std::uint32_t window_bytes = 1U << 19;
  std::uint32_t notices = 64;  // pieces of it; each is a receive. At least 16
};
static_assert(std::is_trivially_destructible_v<stream_options>);

// Resolves with how many bytes were read, at least one; 0 is the end: the peer writes no more. Errors:
// connection_reset, or what the connection broke for (its end came before the stream's), shutdown (the Stream
// or its Worker is gone), no_lock. On cancellation: withdrawn, canceled, and nothing is lost.
class [[nodiscard]] stream_read_operation final
    : public operation<stream_read_operation, std::size_t> {
 public:
  stream_read_operation(detail::stream_core& stream, std::span<std::byte> into,
                        detail::stream_extent until = detail::stream_extent::some) noexcept;
  stream_read_operation(stream_read_operation&&) noexcept = default;

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::stream_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  std::size_t take() const noexcept { return got_; }
  void fail(failure why) noexcept;
  [[nodiscard]] bool has_enough() const noexcept {
    return got_ == into_.size() || (got_ != 0 && until_ == detail::stream_extent::some);
  }
  // What the ready list would do. REQUIRES done(), and that it is awaited. It may be gone then, and its Stream.
  void go_on() noexcept { run_function()(*this); }

  detail::stream_core* stream_;
  std::span<std::byte> into_;
  std::size_t got_ = 0;
  detail::stream_extent until_;
};

// Resolves with how many bytes were written. They are yours again then, and on their way; that the peer has read
// them, only an answer tells. Errors: not_connected (after shutdown_send() or close()), connection_reset and what
// else the connection broke for, shutdown, invalid_value, no_lock. On cancellation: one that waits for the peer to
// read is withdrawn, canceled; where some of it is posted it resolves with that, once that is on its way.
class [[nodiscard]] stream_write_operation final
    : public operation<stream_write_operation, std::size_t> {
 public:
  stream_write_operation(detail::stream_core& stream, std::span<const std::byte> bytes,
                         detail::stream_extent until = detail::stream_extent::some) noexcept;
  stream_write_operation(detail::stream_core& stream, const Slice& bytes) noexcept;
  stream_write_operation(stream_write_operation&& other) noexcept;
  ~stream_write_operation();

 private:
  template <class, class, class>
  friend class operation;
  friend class detail::stream_core;
  void do_start() noexcept;
  void do_cancel() noexcept;
  std::size_t take() const noexcept { return written_; }
  // For a copied write: the bytes written so far may end it.
  [[nodiscard]] bool has_enough() const noexcept {
    return written_ != 0 && until_ == detail::stream_extent::some;
  }
  // No more of it is posted; it ends when what is posted has.
  void end() noexcept;
  void fail(failure why) noexcept;

  detail::stream_core* stream_;
  std::span<const std::byte> bytes_;  // read here only where it is copied
  Slice registered_;                  // empty: copied
  std::size_t written_ = 0;
  std::uint32_t under_way_ = 0;  // requests that carry parts of it
  detail::stream_extent until_;
};

// The data goes by remote writes into a ring of the reader's, and is read from there. Bound to the thread of
// its Worker. Both ends of the connection are opened as streams; nothing else may use it. Destroying it ends
// the connection at once; what the peer has not read by then may be lost: close() first.
class Stream {
 public:
  // Takes the Endpoint over, which has sent and received nothing yet. Errors: invalid_value (options outside
  // their bounds, or more notices than the endpoint has receives), not_connected (the Endpoint is not connected yet, or
  // no more), not_supported (capabilities::ordered_path is false), unsupported_version and connection_aborted (the peer is
  // no stream), timed_out (its end was not opened within connect_timeout), no_memory, and what the connection broke
  // for. On cancellation: canceled, and the connection ends.
  [[nodiscard]] static task<Stream> open(Context context, Endpoint connected,
                                         stream_options options = {});
  Stream() noexcept;
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Some of what is there, at once where there is any. An empty span succeeds with 0.
  stream_read_operation read_some(std::span<std::byte> into) noexcept;
  // As much as the peer has room for, and this side for copies, at least one byte. They are yours as soon as it is
  // done, which is at once where there is room.
  stream_write_operation write_some(std::span<const std::byte> bytes) noexcept;

  // All of it. Throw what read_some() and write_some() do; a stream that ends before is truncated.
  [[nodiscard]] task<void> read(std::span<std::byte> into);
  [[nodiscard]] task<void> write(std::span<const std::byte> bytes);
  // All of it, without a copy, from registered memory; done when the transport has taken it. Several can be under
  // way, and come in the order in which they were started: who gives up one gives up those behind it first, or else
  // they come without what was to be before them.
  stream_write_operation write(const Slice& bytes) noexcept;

  // What is here, without a copy, in one piece (there may be more behind its end): valid until consume(). Both
  // REQUIRE the thread of its Worker.
  [[nodiscard]] std::span<const std::byte> peek() const noexcept;
  // REQUIRES bytes <= peek().size().
  void consume(std::size_t bytes) noexcept;

  // Memory of the program's that the peer may write to directly: its number at the peer, once a byte that is
  // written here later has been read there. It needs access::remote_write. Errors: invalid_value,
  // not_permitted, not_connected, full (16 are mapped), no_memory, no_lock.
  [[nodiscard]] result<std::uint32_t> map(const MemoryRegion& memory);
  // To memory that the peer has mapped; nothing is told there, but what is written here later is read only after
  // these bytes are in place. Errors: not_found (no such number), invalid_value (outside of it), as write_some().
  send_operation write_at(std::uint32_t number, std::uint64_t offset, const Slice& bytes) noexcept;

  // The peer reads what was written, and then the end; reading here goes on. Idempotent.
  result<void> shutdown_send() noexcept;
  // Done when all that was written is at the peer, and the connection is closed here. What has not been read
  // here can still be. Where it breaks before that, or had broken, the connection is closed and this throws what it
  // broke for; but not where all that was written is at the peer, which had ended its own side and went. On
  // cancellation: canceled; what was written, and the end, go out all the same.
  [[nodiscard]] task<void> close();

  [[nodiscard]] Endpoint& endpoint() noexcept;

 private:
  explicit Stream(std::unique_ptr<detail::stream_core> core) noexcept;
  std::unique_ptr<detail::stream_core> core_;
};

}  // namespace cordma
