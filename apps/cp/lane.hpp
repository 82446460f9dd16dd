// One connection of a transfer: frames both ways, and the slots of the receiver's memory that chunks go to.
#pragma once

#include "wire.hpp"

#include <cordma/cordma.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace copy {

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

// Bound to the thread of its Worker. Frames are appended to out() in one go and leave in their order; who appends a
// great deal awaits room() now and then. Two tasks run it: write_out(), and whoever calls next().
class lane {
 public:
  explicit lane(cordma::Stream stream) noexcept : stream_(std::move(stream)) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Where frames are appended; then kick().
  [[nodiscard]] std::vector<std::byte>& out() noexcept { return out_; }
  void kick() noexcept { something_.set(); }
  // Done when what waits to be written is little.
  [[nodiscard]] cordma::task<void> room();
  // Whether write_out() has begun; before, its frames can still be written otherwise.
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  // Writes what is appended, until finish() and all is written; then the stream ends. Ends as well where the peer has
  // closed the connection: whoever calls next() hears why. Throws what else Stream::write() does.
  [[nodiscard]] cordma::task<void> write_out();
  void finish() noexcept {
    finishing_ = true;
    something_.set();
  }

  // The next frame, valid until the next call. False: the peer has ended the stream between two frames. Throws what
  // Stream::read() does, and what decode_head() does.
  [[nodiscard]] cordma::task<bool> next();
  [[nodiscard]] frame_reader frame() const noexcept {
    return {head_.kind, std::span(in_).subspan(begin_ - head_.payload, head_.payload)};
  }

  [[nodiscard]] cordma::Stream& stream() noexcept { return stream_; }

 private:
  [[nodiscard]] cordma::task<bool> have(std::size_t bytes);

  static constexpr std::size_t much = 256U << 10;  // bytes that wait to be written
  cordma::Stream stream_;
  std::vector<std::byte> out_;
  std::vector<std::byte> leaving_;
  cordma::auto_event something_;
  cordma::event little_;
  bool finishing_ = false;
  bool begun_ = false;

  std::vector<std::byte> in_ = std::vector<std::byte>(64U << 10);
  std::size_t begin_ = 0;  // behind the frame that was read last
  std::size_t end_ = 0;    // of what is here
  frame_head head_;
};

}  // namespace copy
