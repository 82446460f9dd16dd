// The frame that is arriving: its header, which may arrive in pieces, and the destination of its
// payload.
#pragma once

#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/net/transport/word.hpp>
#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <utility>

namespace cordma::transport::tcp {

enum class destination : std::uint8_t { none, receive, region, answer, nowhere };

// Bound to the adapter's thread.
class arriving_frame {
 public:
  // Decodes a header from `bytes`, after the saved part of it, if any. `used`: number of bytes of
  // `bytes` consumed, which may end within the header.
  [[nodiscard, gnu::always_inline]] decoded read_header(std::span<const std::byte> bytes,
                                                        std::size_t& used) noexcept {
    if (saved_ != 0) [[unlikely]]
      return read_rest(bytes, used);
    const decoded d = decode(bytes);
    used = d.what == decoded::outcome::whole ? d.size : bytes.size();
    if (d.what == decoded::outcome::partial) [[unlikely]]
      save(bytes);
    return d;
  }

  void begin_payload(const frame& f, destination into) noexcept {
    head_ = f;
    into_ = into;
    left_ = f.length;
    offset_ = 0;
    expected_ = f.length;
  }
  [[nodiscard]] const frame& head() const noexcept { return head_; }
  [[nodiscard]] destination into() const noexcept { return into_; }
  [[nodiscard]] bool has_payload() const noexcept { return into_ != destination::none; }
  [[nodiscard]] std::uint32_t left() const noexcept { return left_; }      // bytes
  [[nodiscard]] std::uint32_t offset() const noexcept { return offset_; }  // bytes already stored
  // True if these were the last bytes of the payload.
  [[nodiscard]] bool advance(std::size_t bytes) noexcept {
    CORDMA_ASSERT_OP(bytes, <=, left_);
    offset_ += static_cast<std::uint32_t>(bytes);
    left_ -= static_cast<std::uint32_t>(bytes);
    return left_ == 0;
  }
  // Returns the destination of the payload.
  destination end_payload() noexcept { return std::exchange(into_, destination::none); }

  // A word is stored in a single access, in however many pieces it arrives. True if this is the
  // last piece.
  [[nodiscard]] bool add_to_word(std::span<const std::byte> bytes) noexcept {
    std::memcpy(&word_[offset_], bytes.data(), bytes.size());
    return bytes.size() == left_;
  }
  [[nodiscard]] std::uint64_t word() const noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, word_.data(), word_bytes);
    return value;
  }

  // Length of the arriving payload, or else of the previous one: a guess for the next one.
  void expect(std::uint32_t bytes) noexcept { expected_ = bytes; }
  [[nodiscard]] std::uint32_t expected() const noexcept { return expected_; }

 private:
  // Decodes a header that arrives in pieces.
  [[nodiscard, gnu::noinline]] decoded read_rest(std::span<const std::byte> bytes,
                                                 std::size_t& used) noexcept {
    used = std::min(decode({pieces_.data(), saved_}).size - saved_, bytes.size());
    save(bytes.first(used));
    const decoded d = decode({pieces_.data(), saved_});
    if (d.what == decoded::outcome::whole) saved_ = 0;
    return d;
  }
  [[gnu::noinline]] void save(std::span<const std::byte> bytes) noexcept {
    std::memcpy(&pieces_[saved_], bytes.data(), bytes.size());
    saved_ += bytes.size();
  }

  frame head_;
  destination into_ = destination::none;
  std::uint32_t left_ = 0;
  std::uint32_t offset_ = 0;
  std::uint32_t expected_ = 0;
  std::size_t saved_ = 0;  // bytes of a header that arrived in pieces
  header_buffer pieces_;
  std::array<std::byte, word_bytes> word_;
};

}  // namespace cordma::transport::tcp
