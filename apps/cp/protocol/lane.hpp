// One connection of a transfer: frames both ways, and the slots of the receiver's memory that chunks go to.
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

// What a lane's memory frame says: chunks for this lane go to `slots` places of `slot_bytes`, one behind the other,
// from `offset` on of what is mapped as `number`.
struct slot_memory {
  std::uint32_t number = 0;
  std::uint32_t slots = 0;
  std::uint32_t slot_bytes = 0;
  std::uint64_t offset = 0;
};
void encode(std::vector<std::byte>& out, const slot_memory& m);
[[nodiscard]] slot_memory decode_memory(frame_reader& in);

// What a lane's data frame says: the `bytes` bytes behind it are for there, all in one slot.
struct slot_data {
  std::uint32_t number = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};
void encode(std::vector<std::byte>& out, const slot_data& d);
[[nodiscard]] slot_data decode_data(frame_reader& in);

class slot_write;

// Bound to the thread of its Worker. Frames are appended to out() in one go and leave in their order; who appends a
// great deal awaits room() now and then. Two tasks run it: write_out(), and whoever calls next(). With TLS all of it is
// within TLS, chunks too, and nothing of this side's memory is mapped for the peer.
class lane {
 public:
  explicit lane(cordma::Stream stream) noexcept : stream_(std::move(stream)) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Shakes hands; with TLS from there on. REQUIRES that nothing was written or read yet. Throws what
  // tls_channel::shake_hands() fails with, and what the Stream does; truncated where that ends.
  [[nodiscard]] cordma::task<void> secure(std::unique_ptr<tls_channel> channel);
  // Null: it is without TLS.
  [[nodiscard]] const tls_channel* tls() const noexcept { return tls_.get(); }

  // Where frames are appended; then kick().
  [[nodiscard]] std::vector<std::byte>& out() noexcept { return out_; }
  void kick() noexcept { something_.set(); }
  // Done when what waits to be written is little.
  [[nodiscard]] cordma::task<void> room();
  // Writes what is appended. REQUIRES that write_out() has not begun.
  [[nodiscard]] cordma::task<void> say();
  // Whether write_out() has begun.
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  // Writes what is appended, until finish() and all is written; then the stream ends. Ends as well where the peer has
  // closed the connection: whoever calls next() hears why. Throws what else Stream::write() does.
  [[nodiscard]] cordma::task<void> write_out();
  void finish() noexcept {
    finishing_ = true;
    something_.set();
  }
  // Done when write_out() has ended.
  [[nodiscard]] cordma::task<void> written();
  [[nodiscard]] bool finishing() const noexcept { return finishing_; }

  // The next frame, valid until the next call. False: the peer has ended the stream between two frames. Throws what
  // Stream::read() does, what decode_head() does, and with TLS what tls_channel::open() fails with.
  [[nodiscard]] cordma::task<bool> next();
  [[nodiscard]] frame_reader frame() const noexcept {
    return {head_.kind, std::span(in_).subspan(begin_ - head_.payload, head_.payload)};
  }

  // Bytes that have come, but for those of chunks.
  [[nodiscard]] std::uint64_t heard() const noexcept { return heard_; }

  // The rights that the memory needs in which slots are offered.
  [[nodiscard]] cordma::access slot_access() const noexcept;
  // Tells the peer of more slots, in `memory`, which outlives the calls of next(): m.number is chosen here. Throws what
  // Stream::map() fails with.
  void offer(const cordma::MemoryRegion& memory, slot_memory m);

  [[nodiscard]] cordma::Stream& stream() noexcept { return stream_; }

 private:
  friend class slot_write;
  // Bytes that go out in the middle of leaving frames.
  struct piece {
    std::size_t at = 0;  // bytes of frames before it
    cordma::Slice bytes;
    slot_write* whose = nullptr;  // null: nobody waits any more
  };
  [[nodiscard]] cordma::task<bool> have(std::size_t bytes);
  [[nodiscard]] cordma::task<std::size_t> open_some(std::span<std::byte> into);
  [[nodiscard]] cordma::task<void> take_data();
  [[nodiscard]] cordma::task<void> seal_leaving();
  [[nodiscard]] cordma::task<void> seal(std::span<const std::byte> plain);
  [[nodiscard]] cordma::task<void> write_sealed();
  void forget(const slot_write& w) noexcept;

  static constexpr std::size_t much = 256U << 10;  // bytes that wait to be written
  cordma::Stream stream_;
  std::vector<std::byte> out_;
  std::vector<std::byte> leaving_;
  cordma::auto_event something_;
  cordma::event little_;
  cordma::event written_;
  bool finishing_ = false;
  bool begun_ = false;

  std::vector<std::byte> in_ = std::vector<std::byte>(64U << 10);
  std::size_t begin_ = 0;  // behind the frame that was read last
  std::size_t end_ = 0;    // of what is here
  frame_head head_;
  std::uint64_t heard_ = 0;

  std::unique_ptr<tls_channel> tls_;
  std::vector<piece> pieces_;  // of out_
  std::vector<piece> leaving_pieces_;
  std::array<std::byte, 1> first_{};  // of what comes, that was waited for
  struct offered {
    slot_memory what;
    std::span<std::byte> memory;
  };
  std::vector<offered> offers_;  // by their number, with TLS
};

// Bytes on their way to a slot of the peer's, from when this is made: what is appended to the lane later is read there
// once they are in place. Bound to the lane's thread.
class slot_write {
 public:
  // To `offset` of the memory that the peer has offered; all in one slot. The bytes stay as they are until done(), or if
  // it does not come to that, as long as the lane writes.
  slot_write(lane& way, const slot_memory& to, std::uint64_t offset, const cordma::Slice& bytes);
  slot_write(const slot_write&) = delete;
  slot_write& operator=(const slot_write&) = delete;
  ~slot_write();
  // Done when the bytes are the caller's again. Throws what Stream::write_at() does.
  [[nodiscard]] cordma::task<void> done();

 private:
  friend class lane;
  lane& way_;
  std::optional<cordma::send_operation> direct_;  // without TLS
  cordma::event sealed_;
};

}  // namespace copy
