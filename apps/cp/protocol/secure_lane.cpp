// The TLS part of a lane.
#include "lane.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace copy {

using cordma::task;

namespace {

// Without this error an attacker on the network could end the stream unnoticed.
[[noreturn]] void fail_cut_off() {
  cordma::throw_error({cordma::errc::truncated, "TLS: the stream ended before the peer ended it"});
}

}  // namespace

// Consumes received data from the stream's buffer. To wait for more data, reads one byte of it.
task<void> lane::secure(std::unique_ptr<tls_channel> channel) {
  tls_ = std::move(channel);
  std::size_t waited = 0;
  for (;;) {
    const std::span<const std::byte> here =
        waited != 0 ? std::span<const std::byte>(first_) : stream_.peek();
    const cordma::result<tls_channel::step> tried = tls_->shake_hands(here);
    const bool has_said = !tls_->sealed().empty();
    co_await write_sealed();
    const tls_channel::step s = tried.value();
    if (waited == 0) stream_.consume(s.taken);
    waited = 0;
    if (s.over) co_return;
    if (s.taken != 0 || has_said) continue;
    waited = co_await stream_.read_some(first_);
    if (waited == 0) fail_cut_off();
  }
}

// Returns 0 if the peer has ended its side of TLS.
task<std::size_t> lane::open_some(std::span<std::byte> into) {
  std::size_t waited = 0;
  for (;;) {
    const std::span<const std::byte> here =
        waited != 0 ? std::span<const std::byte>(first_) : stream_.peek();
    const tls_channel::step s = tls_->open(here, into).value();
    if (waited == 0) stream_.consume(s.taken);
    waited = 0;
    if (s.given != 0 || s.over) co_return s.given;
    if (s.taken != 0) continue;
    waited = co_await stream_.read_some(first_);
    if (waited == 0) fail_cut_off();
  }
}

// Decrypts the bytes of a data frame directly into their slot.
task<void> lane::take_data() {
  frame_reader in = frame();
  const slot_data d = decode_data(in);
  const offered o = d.number < offers_.size() ? offers_[d.number] : offered();
  const std::uint64_t from = d.offset - o.what.offset;  // wraps for an offset before the slots
  const std::uint64_t all = std::uint64_t{o.what.slots} * o.what.slot_bytes;
  const bool fits = d.offset >= o.what.offset && from < all &&
                    d.bytes <= o.what.slot_bytes - from % o.what.slot_bytes;
  if (!fits) refuse(in.kind(), "a place that is in no slot");
  std::span<std::byte> into = o.memory.subspan(d.offset, d.bytes);
  const std::size_t here = std::min(end_ - begin_, into.size());
  std::memcpy(into.data(), in_.data() + begin_, here);
  begin_ += here;
  into = into.subspan(here);
  while (!into.empty()) {
    const std::size_t got = co_await open_some(into);
    if (got == 0)
      cordma::throw_error({cordma::errc::truncated, "the peer's stream ended within a chunk"});
    into = into.subspan(got);
  }
}

task<void> lane::seal_leaving() {
  std::size_t at = 0;
  for (std::size_t i = 0; i < leaving_pieces_.size(); ++i) {
    const std::span<const std::byte> before =
        std::span(leaving_).subspan(at, leaving_pieces_[i].at - at);
    co_await seal(before);
    at = leaving_pieces_[i].at;
    const std::span<const std::byte> chunk = leaving_pieces_[i].bytes.bytes();
    co_await seal(chunk);
    slot_write* const whose = std::exchange(leaving_pieces_[i].whose, nullptr);
    if (whose != nullptr) whose->sealed_.set();
  }
  const std::span<const std::byte> rest = std::span(leaving_).subspan(at);
  co_await seal(rest);
  leaving_pieces_.clear();
  co_await write_sealed();
}

task<void> lane::seal(std::span<const std::byte> plain) {
  while (!plain.empty()) {
    const std::size_t n = tls_->seal(plain);
    plain = plain.subspan(n);
    if (n == 0) co_await write_sealed();
  }
}

task<void> lane::write_sealed() {
  const std::span<const std::byte> now = tls_->sealed();
  if (now.empty()) co_return;
  co_await stream_.write(now);
  tls_->gone(now.size());
}

void lane::forget(const slot_write& w) noexcept {
  for (std::vector<piece>* const all : {&pieces_, &leaving_pieces_}) {
    for (piece& p : *all) {
      if (p.whose == &w) p.whose = nullptr;
    }
  }
}

}  // namespace copy
