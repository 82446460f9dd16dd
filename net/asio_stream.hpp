// asio_stream: adapts a Stream to Asio's AsyncReadStream and AsyncWriteStream, so that
// asio::async_read, asio::ssl::stream, asio::buffered_stream and others run on it as on a socket.
#pragma once

#include <cordma/net/stream.hpp>
#include <cordma/runtime/asio.hpp>

#include <asio/any_io_executor.hpp>
#include <asio/buffer.hpp>
#include <asio/compose.hpp>
#include <asio/error.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

namespace cordma {

namespace detail {

[[nodiscard]] inline std::error_code code_of(const std::exception_ptr& e) noexcept {
  if (!e) return {};
  try {
    std::rethrow_exception(e);
  } catch (const std::system_error& failed) {
    return failed.code();
  } catch (...) {
    return asio::error::no_memory;
  }
}

// Returns the first buffer of the sequence that is not empty.
template <class Buffer, class Sequence>
[[nodiscard]] Buffer first_of(const Sequence& buffers) noexcept {
  const auto end = asio::buffer_sequence_end(buffers);
  for (auto at = asio::buffer_sequence_begin(buffers); at != end; ++at) {
    const Buffer b(*at);
    if (b.size() != 0) return b;
  }
  return Buffer();
}

// Implementation for asio::async_compose: starts the operation, then reports its outcome.
template <class Operation, bool Reads>
class stream_step {
 public:
  stream_step(Operation op, bool empty) noexcept : op_(std::move(op)), empty_(empty) {}
  template <class Self>
  void operator()(Self& self, std::exception_ptr error = {}, std::size_t bytes = 0) {
    if (!std::exchange(begun_, true)) {
      async(std::move(op_), std::move(self));
      return;
    }
    std::error_code code = code_of(error);
    if (Reads && !code && bytes == 0 && !empty_) code = asio::error::eof;
    self.complete(code, bytes);
  }

 private:
  Operation op_;
  bool empty_;
  bool begun_ = false;
};

}  // namespace detail

// Owns a Stream and the executor on which handlers without an executor run. Handlers receive
// (std::error_code, std::size_t). The end of the stream is asio::error::eof. Cancellation slots
// work. Bound to the Stream's thread. REQUIRES, like a socket, that it lives until its operations
// have completed, and at most one read and one write at a time.
class asio_stream {
 public:
  using executor_type = asio::any_io_executor;
  using lowest_layer_type = asio_stream;

  asio_stream(executor_type executor, Stream stream) noexcept
      : executor_(std::move(executor)), stream_(std::move(stream)) {}

  [[nodiscard]] executor_type get_executor() noexcept { return executor_; }
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  [[nodiscard]] const lowest_layer_type& lowest_layer() const noexcept { return *this; }
  [[nodiscard]] Stream& stream() noexcept { return stream_; }

  template <class MutableBufferSequence, class Token>
  auto async_read_some(const MutableBufferSequence& buffers, Token&& token) {
    const auto into = detail::first_of<asio::mutable_buffer>(buffers);
    const std::span<std::byte> bytes(static_cast<std::byte*>(into.data()), into.size());
    return compose<true>(stream_.read_some(bytes), bytes.empty(), std::forward<Token>(token));
  }
  template <class ConstBufferSequence, class Token>
  auto async_write_some(const ConstBufferSequence& buffers, Token&& token) {
    const auto from = detail::first_of<asio::const_buffer>(buffers);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(from.data()), from.size());
    return compose<false>(stream_.write_some(bytes), bytes.empty(), std::forward<Token>(token));
  }

 private:
  template <bool Reads, class Operation, class Token>
  auto compose(Operation op, bool empty, Token&& token) {
    return asio::async_compose<Token, void(std::error_code, std::size_t)>(
        detail::stream_step<Operation, Reads>(std::move(op), empty), token, executor_);
  }

  executor_type executor_;
  Stream stream_;
};

}  // namespace cordma
