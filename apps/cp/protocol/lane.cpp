#include "lane.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

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

void encode(std::vector<std::byte>& to, const slot_data& d) {
  frame_writer out(to, frame_kind::data);
  out.u32(d.number).u64(d.offset).u32(d.bytes);
}

slot_data decode_data(frame_reader& in) {
  slot_data d;
  d.number = in.u32();
  d.offset = in.u64();
  d.bytes = in.u32();
  in.end();
  return d;
}

namespace {

[[noreturn]] void fail_truncated(const char* what) {
  cordma::throw_error({cordma::errc::truncated, what});
}

}  // namespace

task<void> lane::room() {
  while (out_.size() > much) {
    little_.reset();
    co_await little_.wait();
  }
}

task<void> lane::say() {
  std::swap(out_, leaving_);
  std::swap(pieces_, leaving_pieces_);
  if (tls_) {
    co_await seal_leaving();
  } else {
    co_await stream_.write(leaving_);
  }
  leaving_.clear();
}

task<void> lane::write_out() {
  begun_ = true;
  for (;;) {
    while (out_.empty()) {
      if (finishing_ && tls_) {
        tls_->close();
        co_await write_sealed();
      }
      if (finishing_) {
        stream_.shutdown_send().value();
        written_.set();
        co_return;
      }
      co_await something_.wait();
    }
    little_.set();
    bool gone = false;
    try {
      co_await say();
    } catch (const cordma::error& e) {
      gone = e.condition() == cordma::errc::not_connected;
      if (!gone) throw;
    }
    // The peer has closed the connection. Its earlier frames, which may contain the reason, are
    // still to be read.
    if (!gone) continue;
    written_.set();
    co_return;
  }
}

task<void> lane::written() { co_await written_.wait(); }

// Returns false if the stream ends and no byte is buffered.
task<bool> lane::have(std::size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (in_.size() - begin_ < bytes) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      if (in_.size() < bytes) in_.resize(bytes);
    }
    const std::span<std::byte> rest = std::span(in_).subspan(end_);
    std::size_t got = 0;
    if (tls_) {
      got = co_await open_some(rest);
    } else {
      got = co_await stream_.read_some(rest);
    }
    if (got == 0 && end_ == begin_) co_return false;
    if (got == 0) fail_truncated("the peer's stream ended within a frame");
    end_ += got;
    heard_ += got;
  }
  co_return true;
}

task<bool> lane::next() {
  for (;;) {
    if (begin_ == end_) begin_ = end_ = 0;
    const bool more = co_await have(frame_head_bytes);
    if (!more) co_return false;
    head_ = decode_head(std::span(in_).subspan(begin_).first<frame_head_bytes>());
    const bool whole = co_await have(frame_head_bytes + head_.payload);
    if (!whole) fail_truncated("the peer's stream ended within a frame");
    begin_ += frame_head_bytes + head_.payload;
    if (head_.kind != frame_kind::data || !tls_) co_return true;
    co_await take_data();
  }
}

cordma::access lane::slot_access() const noexcept {
  using cordma::access;
  return tls_ ? access::local_write : access::local_write | access::remote_write;
}

void lane::offer(const cordma::MemoryRegion& memory, slot_memory m) {
  const auto next = static_cast<std::uint32_t>(offers_.size());
  m.number = tls_ ? next : stream_.map(memory).value();
  if (tls_) offers_.push_back({m, memory.bytes()});
  encode(out_, m);
  kick();
}

slot_write::slot_write(lane& way, const slot_memory& to, std::uint64_t offset,
                       const cordma::Slice& bytes)
    : way_(way) {
  if (!way.tls_) {
    direct_.emplace(way.stream_.write_at(to.number, offset, bytes));
    direct_->start();
  } else if (bytes.size() == 0) {
    sealed_.set();
  } else {
    encode(way.out_, slot_data{to.number, offset, static_cast<std::uint32_t>(bytes.size())});
    way.pieces_.push_back({way.out_.size(), bytes, this});
    way.kick();
  }
}

slot_write::~slot_write() {
  if (!direct_ && !sealed_.is_set()) way_.forget(*this);
}

task<void> slot_write::done() {
  if (!direct_) {
    co_await sealed_.wait();
    co_return;
  }
  cordma::send_operation& written = *direct_;
  co_await written;
}

}  // namespace copy
