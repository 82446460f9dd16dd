#include "greeting.hpp"

#include "auth.hpp"

#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace copy {

using cordma::task;

namespace {

constexpr std::string_view mark = "ccp2";

bool has_mark(std::span<const std::byte> data, std::size_t bytes) noexcept {
  return data.size() >= bytes && std::memcmp(data.data(), mark.data(), mark.size()) == 0;
}

}  // namespace

std::array<std::byte, greeting_bytes> encode(const greeting& g) {
  std::array<std::byte, greeting_bytes> data{};
  std::memcpy(data.data(), mark.data(), mark.size());
  data[mark.size()] = g.tls ? std::byte{1} : std::byte{0};
  std::ranges::copy(g.session, data.begin() + mark.size() + 1);
  data.back() = static_cast<std::byte>(g.number);
  return data;
}

greeting decode_greeting(std::span<const std::byte> data) {
  if (!has_mark(data, greeting_bytes) || data[mark.size()] > std::byte{1}) {
    cordma::throw_error(
        {cordma::errc::invalid_value, "a peer that is no cordma-cp, or of another version"});
  }
  greeting g;
  g.tls = data[mark.size()] == std::byte{1};
  std::ranges::copy(data.subspan(mark.size() + 1, nonce_bytes), g.session.begin());
  g.number = static_cast<std::uint32_t>(data[greeting_bytes - 1]);
  return g;
}

std::array<std::byte, 5> encode(unfit why) {
  std::array<std::byte, mark.size() + 1> data{};
  std::memcpy(data.data(), mark.data(), mark.size());
  data.back() = static_cast<std::byte>(why);
  return data;
}

std::string describe_rejection(std::span<const std::byte> data, const std::string& address) {
  if (!has_mark(data, mark.size() + 1)) return {};
  switch (static_cast<unfit>(data[mark.size()])) {
    case unfit::needs_tls: return "the server at " + address + " demands TLS: --tls";
    case unfit::has_no_tls:
      return "the server at " + address +
             " has no TLS: its cordma-cpd needs \"tls\" in its --config, or this client no --tls";
    case unfit::tls_only_on_tcp:
      return "the server at " + address + " has TLS over tcp alone: --transport tcp";
  }
  return {};
}

task<std::unique_ptr<lane>> open_lane(cordma::Context context, cordma::Endpoint made) {
  cordma::stream_options how;
  how.notices = std::min(how.notices, made.actual().recv_depth);
  cordma::Stream stream = co_await cordma::Stream::open(context, std::move(made), how);
  co_return std::make_unique<lane>(std::move(stream));
}

task<void> hear_in_time(lane& l, std::chrono::seconds time) {
  const bool more = co_await cordma::with_timeout(time, l.next());
  if (!more) cordma::throw_error({cordma::errc::connection_reset, "the peer went without a word"});
}

frame_reader expect(lane& l, frame_kind kind) {
  frame_reader in = l.frame();
  if (in.kind() == frame_kind::refusal) throw_refusal(in, "the server");
  if (in.kind() != kind) refuse(in.kind(), "no place in this conversation");
  return in;
}

nonce read_nonce(frame_reader& in) {
  nonce n{};
  std::ranges::copy(in.bytes(nonce_bytes), n.begin());
  return n;
}

std::optional<nonce> channel_of(const lane& l) {
  if (l.tls() == nullptr) return std::nullopt;
  return l.tls()->exported(label_of_proofs);
}

}  // namespace copy
