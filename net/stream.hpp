// Stream: an ordered byte stream over a separate connection, with half-close.
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
// Whether an operation ends with some of its bytes, or with all of them.
enum class stream_extent : std::uint8_t { some, whole };
}  // namespace detail

struct stream_options {
  // Limit of bytes that the peer may have written and that were not read yet. It also limits the
  // bytes that were copied here and not yet written to the peer: a peer that offers a larger window
  // does not use more memory on this side.
  std::uint32_t window_bytes = 1U << 19;
  std::uint32_t notices = 64;  // pieces of the window; each is a receive. At least 16
};
static_assert(std::is_trivially_destructible_v<stream_options>);

// Resolves with the number of bytes read, at least one; 0 is the end of the stream: the peer writes
// no more. Errors: connection_reset, or the cause of the connection's failure (it ended before the
// stream), shutdown (the Stream or its Worker is destroyed), no_lock. On cancellation: withdrawn;
// fails with canceled; no bytes are lost.
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
  // Runs the operation's ready-list function directly. REQUIRES done(), and that it is awaited. The
  // operation and its Stream may be destroyed when it returns.
  void go_on() noexcept { run_function()(*this); }

  detail::stream_core* stream_;
  std::span<std::byte> into_;
  std::size_t got_ = 0;
  detail::stream_extent until_;
};

// Resolves with the number of bytes written. The caller owns them again then, and they are being
// sent; only a reply confirms that the peer has read them. Errors: not_connected (after
// shutdown_send() or close()), connection_reset and other causes of the connection's failure,
// shutdown, invalid_value, no_lock. On cancellation: a write that waits for the peer to read is
// withdrawn and fails with canceled; if a part is posted, it resolves with the length of that part
// once it has been sent.
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
  // Posts no more of it; it ends once the posted parts have ended.
  void end() noexcept;
  void fail(failure why) noexcept;

  detail::stream_core* stream_;
  std::span<const std::byte> bytes_;  // accessed here only if it is copied
  Slice registered_;                  // empty: copied
  std::size_t written_ = 0;
  std::uint32_t under_way_ = 0;  // requests that carry parts of it
  detail::stream_extent until_;
};

// Data is transferred by remote writes into a ring of the reader, and read from that ring. Bound to
// the thread of its Worker. Both ends of the connection have to be opened as streams; nothing else
// may use it. Destroying it ends the connection at once, and data that the peer has not read by
// then may be lost: close() first.
class Stream {
 public:
  // Takes ownership of the Endpoint, which has sent and received nothing yet. Errors: invalid_value
  // (options outside their bounds, or more notices than the endpoint has receives), not_connected
  // (the Endpoint is not connected yet, or no longer), not_supported (capabilities::ordered_path is
  // false), unsupported_version and connection_aborted (the peer is no stream), timed_out (the
  // peer's end was not opened within connect_timeout), no_memory, and the cause of the connection's
  // failure. On cancellation: fails with canceled, and the connection ends.
  [[nodiscard]] static task<Stream> open(Context context, Endpoint connected,
                                         stream_options options = {});
  Stream() noexcept;
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // Reads some of the available bytes, at once if there are any. An empty span succeeds with 0.
  stream_read_operation read_some(std::span<std::byte> into) noexcept;
  // Writes as many bytes as the peer's window and this side's copy buffer have space for, at least
  // one. The caller owns the bytes again once it is done; with enough space it is done at once.
  stream_write_operation write_some(std::span<const std::byte> bytes) noexcept;

  // Read or write the complete span. Throw the errors of read_some() and write_some(); a stream
  // that ends before that throws truncated.
  [[nodiscard]] task<void> read(std::span<std::byte> into);
  [[nodiscard]] task<void> write(std::span<const std::byte> bytes);
  // Writes all bytes, without a copy, from registered memory; done when the transport has accepted
  // them. Several may be in flight, and arrive in the order in which they were started. To cancel
  // one, first cancel those behind it; otherwise they arrive without the bytes that were to precede
  // them.
  stream_write_operation write(const Slice& bytes) noexcept;

  // Available bytes, without a copy, in one piece (there may be more behind its end). Valid until
  // consume(). Both REQUIRE the thread of its Worker.
  [[nodiscard]] std::span<const std::byte> peek() const noexcept;
  // REQUIRES bytes <= peek().size().
  void consume(std::size_t bytes) noexcept;

  // Maps memory of the program that the peer may write to directly. Returns its number at the peer,
  // which is valid once the peer has read a byte that is written here later. The memory needs
  // access::remote_write. Errors: invalid_value, not_permitted, not_connected, full (16 are
  // mapped), no_memory, no_lock.
  [[nodiscard]] result<std::uint32_t> map(const MemoryRegion& memory);
  // Writes to memory that the peer has mapped. The peer is not notified, but bytes written here
  // later are read only after these bytes have arrived. Errors: not_found (no such number),
  // invalid_value (outside of it), as write_some().
  send_operation write_at(std::uint32_t number, std::uint64_t offset, const Slice& bytes) noexcept;

  // Ends the sending direction: the peer reads the written bytes, and then the end. Reading here
  // continues. Idempotent.
  result<void> shutdown_send() noexcept;
  // Done when all written bytes are at the peer, and the connection is closed here. Bytes not read
  // here can still be read. If the connection fails before that, or had failed, it is closed and
  // this throws the cause; it does not throw if all written bytes are at the peer, which had ended
  // its own side and closed. On cancellation: fails with canceled; the written bytes, and the end,
  // are still sent.
  [[nodiscard]] task<void> close();

  [[nodiscard]] Endpoint& endpoint() noexcept;

 private:
  explicit Stream(std::unique_ptr<detail::stream_core> core) noexcept;
  std::unique_ptr<detail::stream_core> core_;
};

}  // namespace cordma
