#include <cordma/net/protocol/request.hpp>

#include <cordma/net/transport/little_endian.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace cordma::protocol {
namespace {

using transport::load;
using transport::store;

constexpr std::string_view redirect_mark = "cRdr";

// The header comes from the peer, and may arrive when there is no memory for a message.
template <class... Parts>
failure broken_request(const Parts&... what) noexcept {
  return failure::of(errc::connection_aborted, {"the peer sent a request that is none: ", what...});
}

result<void> check_flags(const request_header& h) {
  using namespace request_flag;
  const bool asks = h.kind == request_kind::request;
  const unsigned known = asks                               ? one_way | receipt | writable
                         : h.kind == request_kind::response ? response_flag::written
                                                            : 0U;
  if ((h.flags & ~known) != 0) return broken_request("flags ", h.flags, " are unknown");
  if (asks && (h.flags & receipt) != 0 && (h.flags & one_way) == 0) {
    return broken_request("a receipt for what is answered");
  }
  return {};
}

result<void> decode(request_header& h, std::span<const std::byte> header) {
  const std::byte* const at = header.data();
  switch (h.kind) {
    case request_kind::request:
      if (header.size() != request_bytes) return broken_request("a request of another length");
      h.microseconds_left = load<std::uint64_t>(at + 16);
      h.room_bytes = load<std::uint64_t>(at + 24);
      h.room_addr = load<std::uint64_t>(at + 32);
      h.room_rkey = load<std::uint64_t>(at + 40);
      if ((h.flags & request_flag::one_way) != 0 && h.room_bytes != 0) {
        return broken_request("room for an answer that it does not want");
      }
      if (h.room_addr + h.room_bytes < h.room_addr) return broken_request("room that wraps");
      if ((h.flags & request_flag::writable) == 0 && (h.room_addr != 0 || h.room_rkey != 0)) {
        return broken_request("an address of room that is not writable");
      }
      return {};
    case request_kind::response: {
      if (header.size() < response_bytes) return broken_request("a response that is cut off");
      h.bytes = load<std::uint64_t>(at + 16);
      const std::size_t text = header.size() - response_bytes;
      const bool redirected = h.outcome == request_outcome::redirected;
      if (redirected ? text == 0 || text > longest_redirect : text != 0) {
        return broken_request("a response of another length");
      }
      if (h.outcome != request_outcome::ok && (h.flags & response_flag::written) != 0) {
        return broken_request("a response that failed and is written");
      }
      h.address = {reinterpret_cast<const char*>(at) + response_bytes, text};
      return {};
    }
    default:
      if (header.size() != request_head_bytes) return broken_request("a word of another length");
      return {};
  }
}

}  // namespace

std::size_t bytes_of(const request_header& h) noexcept {
  switch (h.kind) {
    case request_kind::request: return request_bytes;
    case request_kind::response: return response_bytes + h.address.size();
    default: return request_head_bytes;
  }
}

void encode(const request_header& h, std::span<std::byte> out) noexcept {
  CORDMA_REQUIRE_OP(h.address.size(), <=, longest_redirect);
  CORDMA_REQUIRE_OP(out.size(), >=, bytes_of(h));
  store(&out[0], request_version);
  store(&out[1], static_cast<std::uint8_t>(h.kind));
  store(&out[2], h.flags);
  store(&out[3], static_cast<std::uint8_t>(h.outcome));
  store(&out[4], h.given);
  store(&out[6], h.method);
  store(&out[8], h.id);
  if (h.kind == request_kind::request) {
    store(&out[16], h.microseconds_left);
    store(&out[24], h.room_bytes);
    store(&out[32], h.room_addr);
    store(&out[40], h.room_rkey);
  }
  if (h.kind == request_kind::response) {
    store(&out[16], h.bytes);
    if (!h.address.empty()) std::memcpy(&out[24], h.address.data(), h.address.size());
  }
}

result<request_header> decode_request(std::span<const std::byte> header) {
  if (header.size() < request_head_bytes) return broken_request("it is cut off");
  const auto version = load<std::uint8_t>(&header[0]);
  if (version != request_version) {
    return failure::of(errc::unsupported_version, {"the peer's requests: version: mine ",
                                                   request_version, ", theirs ", version});
  }
  const auto kind = load<std::uint8_t>(&header[1]);
  if (kind == 0 || kind > static_cast<std::uint8_t>(last_request_kind)) {
    return broken_request("kind ", kind, " is unknown");
  }
  const auto outcome = load<std::uint8_t>(&header[3]);
  if (outcome > static_cast<std::uint8_t>(last_outcome)) {
    return broken_request("outcome ", outcome, " is unknown");
  }
  request_header h{.kind = static_cast<request_kind>(kind),
                   .flags = load<std::uint8_t>(&header[2]),
                   .outcome = static_cast<request_outcome>(outcome),
                   .given = load<std::uint16_t>(&header[4]),
                   .method = load<std::uint16_t>(&header[6]),
                   .id = load<std::uint64_t>(&header[8])};
  if (outcome != 0 && h.kind != request_kind::response)
    return broken_request("an outcome of no response");
  if (h.method != 0 && h.kind != request_kind::request)
    return broken_request("a method of no request");
  const bool anonymous = h.kind == request_kind::hello || h.kind == request_kind::given;
  if (anonymous && h.id != 0) return broken_request("an id where there is none");
  const result<void> flags = check_flags(h);
  if (!flags) return flags.why();
  const result<void> rest = decode(h, header);
  if (!rest) return rest.why();
  return h;
}

void encode_redirect(std::string_view address, std::span<std::byte> out) noexcept {
  CORDMA_REQUIRE(address.size() <= longest_redirect &&
                 out.size() >= redirect_head_bytes + address.size());
  std::memcpy(out.data(), redirect_mark.data(), redirect_mark.size());
  store(&out[4], request_version);
  store(&out[5], static_cast<std::uint8_t>(address.size()));
  if (!address.empty()) std::memcpy(&out[6], address.data(), address.size());
}

std::string_view redirect_of(std::span<const std::byte> data) noexcept {
  if (data.size() < redirect_head_bytes) return {};
  const auto* const text = reinterpret_cast<const char*>(data.data());
  const std::size_t bytes = load<std::uint8_t>(&data[5]);
  const bool is_one = std::string_view(text, redirect_mark.size()) == redirect_mark &&
                      load<std::uint8_t>(&data[4]) == request_version &&
                      bytes <= longest_redirect && bytes <= data.size() - redirect_head_bytes;
  return is_one ? std::string_view(text + redirect_head_bytes, bytes) : std::string_view();
}

}  // namespace cordma::protocol
