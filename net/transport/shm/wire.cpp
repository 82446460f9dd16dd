#include <cordma/net/transport/shm/wire.hpp>

namespace cordma::transport::shm {

std::string get_text(std::span<const char> from) {
  std::string text;
  for (const char c : from) {
    if (c == '\0') break;
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

header_verdict inspect(std::span<const std::byte> bytes) noexcept {
  packet_header h{};
  if (bytes.size() < sizeof h) return {header_verdict::what::malformed, {}, 0};
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != wire_magic) return {header_verdict::what::malformed, {}, 0};
  if (h.version != wire_version) return {header_verdict::what::version, h.type, h.version};
  if (h.type < packet::hello || h.type > packet::fault) {
    return {header_verdict::what::malformed, {}, 0};
  }
  return {header_verdict::what::fine, h.type, h.version};
}

refusal make_refusal(packet type, errc code, std::string_view text) noexcept {
  auto r = make_packet<refusal>(type);
  r.code = code;
  put_text(r.text, text);
  return r;
}

}  // namespace cordma::transport::shm
