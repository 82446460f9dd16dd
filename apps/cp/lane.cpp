#include "lane.hpp"

#include <algorithm>
#include <cstring>

namespace copy {

using cordma::task;

void encode(std::vector<std::byte>& to, const slot_memory& m) {
  frame_writer out(to, frame_kind::memory);
  out.u32(m.number).u32(m.slots).u32(m.slot_bytes).u64(m.offset);
}

slot_memory decode_memory(frame_reader& in) {
  slot_memory m;
  m.number = in.u32();
  m.slots = in.u32();
  m.slot_bytes = in.u32();
  m.offset = in.u64();
  in.end();
  if (m.slots == 0 || m.slots > most_slots) refuse(in.kind(), "a number of slots that cannot be");
  return m;
}

task<void> lane::room() {
  while (out_.size() > much) {
    little_.reset();
    co_await little_.wait();
  }
}

task<void> lane::write_out() {
  begun_ = true;
  for (;;) {
    while (out_.empty()) {
      if (finishing_) {
        stream_.shutdown_send().value();
        co_return;
      }
      co_await something_.wait();
    }
    std::swap(out_, leaving_);
    little_.set();
    bool gone = false;
    try {
      co_await stream_.write(leaving_);
    } catch (const cordma::error& e) {
      gone = e.condition() == cordma::errc::not_connected;
      if (!gone) throw;
    }
    // The peer has closed the connection: what it said before is still to be read, and says why.
    if (gone) co_return;
    leaving_.clear();
  }
}

// False where the stream ends with nothing of it here.
task<bool> lane::have(std::size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (in_.size() - begin_ < bytes) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      if (in_.size() < bytes) in_.resize(bytes);
    }
    const std::span<std::byte> rest = std::span(in_).subspan(end_);
    const std::size_t got = co_await stream_.read_some(rest);
    if (got == 0 && end_ == begin_) co_return false;
    if (got == 0) {
      cordma::throw_error({cordma::errc::truncated, "the peer's stream ended within a frame"});
    }
    end_ += got;
  }
  co_return true;
}

task<bool> lane::next() {
  if (begin_ == end_) begin_ = end_ = 0;
  const bool more = co_await have(frame_head_bytes);
  if (!more) co_return false;
  head_ = decode_head(std::span(in_).subspan(begin_).first<frame_head_bytes>());
  const bool whole = co_await have(frame_head_bytes + head_.payload);
  if (!whole)
    cordma::throw_error({cordma::errc::truncated, "the peer's stream ended within a frame"});
  begin_ += frame_head_bytes + head_.payload;
  co_return true;
}

}  // namespace copy
