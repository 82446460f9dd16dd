// One connection of a transfer: frames in both directions, and the slots in the receiver's memory
// for chunks.
#pragma once

#include "../../support/tls_channel.hpp"
#include "wire.hpp"

#include <cordma/cordma.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace copy {

using support::tls_channel;
using support::tls_context;

// The contents of a memory frame: chunks of this lane are written to `slots` adjacent slots of
// `slot_bytes` each, from `offset` in the memory that is mapped as `number`.
struct slot_memory {
  std::uint32_t number = 0;
  std::uint32_t slots = 0;
  std::uint32_t slot_bytes = 0;
  std::uint64_t offset = 0;
};
void encode(std::vector<std::byte>& out, const slot_memory& m);
[[nodiscard]] slot_memory decode_memory(frame_reader& in);

// The contents of a data frame: the next `bytes` bytes of the stream are for this offset, all in
// one slot.
struct slot_data {
  std::uint32_t number = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};
void encode(std::vector<std::byte>& out, const slot_data& d);
[[nodiscard]] slot_data decode_data(frame_reader& in);

class slot_write;

// Bound to the thread of its Worker. Frames are appended to out() in one piece, and sent in order.
// A caller that appends much data awaits room() repeatedly. Two tasks use a lane: write_out(), and
// the caller of next(). With TLS all data is sent within TLS, including chunks, and no memory of
// this side is mapped for the peer.
class lane {
 public:
  explicit lane(cordma::Stream stream) noexcept : stream_(std::move(stream)) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Performs the TLS handshake; all later data is encrypted. REQUIRES: nothing was written or read
  // before. Throws the errors of tls_channel::shake_hands() and of the Stream; truncated if the
  // stream ends.
  [[nodiscard]] cordma::task<void> secure(std::unique_ptr<tls_channel> channel);
  // Null without TLS.
  [[nodiscard]] const tls_channel* tls() const noexcept { return tls_.get(); }

  // The buffer to which frames are appended; kick() then starts the write.
  [[nodiscard]] std::vector<std::byte>& out() noexcept { return out_; }
  void kick() noexcept { something_.set(); }
  // Completes when little data waits to be written.
  [[nodiscard]] cordma::task<void> room();
  // Writes the appended frames. REQUIRES: write_out() has not begun.
  [[nodiscard]] cordma::task<void> say();
  // True if write_out() has begun.
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  // Writes appended frames until finish() was called and everything is written; then ends the
  // stream. Also returns if the peer has closed the connection; next() then reports the reason.
  // Throws the other errors of Stream::write().
  [[nodiscard]] cordma::task<void> write_out();
  void finish() noexcept {
    finishing_ = true;
    something_.set();
  }
  // Completes when write_out() has ended.
  [[nodiscard]] cordma::task<void> written();
  [[nodiscard]] bool finishing() const noexcept { return finishing_; }

  // Reads the next frame, which is valid until the next call. Returns false if the peer has ended
  // the stream between two frames. Throws the errors of Stream::read() and decode_head(), and with
  // TLS those of tls_channel::open().
  [[nodiscard]] cordma::task<bool> next();
  [[nodiscard]] frame_reader frame() const noexcept {
    return {head_.kind, std::span(in_).subspan(begin_ - head_.payload, head_.payload)};
  }

  // Received bytes, except those of chunks.
  [[nodiscard]] std::uint64_t heard() const noexcept { return heard_; }

  // Access rights that the memory of offered slots needs.
  [[nodiscard]] cordma::access slot_access() const noexcept;
  // Offers further slots in `memory` to the peer, and sets m.number. REQUIRES: `memory` outlives
  // the calls of next(). Throws the errors of Stream::map().
  void offer(const cordma::MemoryRegion& memory, slot_memory m);

  [[nodiscard]] cordma::Stream& stream() noexcept { return stream_; }

 private:
  friend class slot_write;
  // Bytes to send within the leaving frames.
  struct piece {
    std::size_t at = 0;  // bytes of frames before it
    cordma::Slice bytes;
    slot_write* whose = nullptr;  // null: no slot_write waits for it
  };
  [[nodiscard]] cordma::task<bool> have(std::size_t bytes);
  [[nodiscard]] cordma::task<std::size_t> open_some(std::span<std::byte> into);
  [[nodiscard]] cordma::task<void> take_data();
  [[nodiscard]] cordma::task<void> seal_leaving();
  [[nodiscard]] cordma::task<void> seal(std::span<const std::byte> plain);
  [[nodiscard]] cordma::task<void> write_sealed();
  void forget(const slot_write& w) noexcept;

  static constexpr std::size_t much = 256U << 10;  // limit of bytes that wait to be written
  cordma::Stream stream_;
  std::vector<std::byte> out_;
  std::vector<std::byte> leaving_;
  cordma::auto_event something_;
  cordma::event little_;
  cordma::event written_;
  bool finishing_ = false;
  bool begun_ = false;

  std::vector<std::byte> in_ = std::vector<std::byte>(64U << 10);
  std::size_t begin_ = 0;  // end of the last frame read
  std::size_t end_ = 0;    // end of the buffered bytes
  frame_head head_;
  std::uint64_t heard_ = 0;

  std::unique_ptr<tls_channel> tls_;
  std::vector<piece> pieces_;  // for out_
  std::vector<piece> leaving_pieces_;
  std::array<std::byte, 1> first_{};  // first byte of the data that was waited for
  struct offered {
    slot_memory what;
    std::span<std::byte> memory;
  };
  std::vector<offered> offers_;  // by number, with TLS
};

// A write to a slot of the peer, which begins with the construction. The peer reads frames that are
// appended later only after the bytes are in the slot. Bound to the lane's thread.
class slot_write {
 public:
  // Writes to `offset` of offered memory, all in one slot. The bytes must not change until done()
  // completes, or, if it does not, while the lane writes.
  slot_write(lane& way, const slot_memory& to, std::uint64_t offset, const cordma::Slice& bytes);
  slot_write(const slot_write&) = delete;
  slot_write& operator=(const slot_write&) = delete;
  ~slot_write();
  // Completes when the caller may reuse the bytes. Throws the errors of Stream::write_at().
  [[nodiscard]] cordma::task<void> done();

 private:
  friend class lane;
  lane& way_;
  std::optional<cordma::send_operation> direct_;  // without TLS
  cordma::event sealed_;
};

}  // namespace copy
