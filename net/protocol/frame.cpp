#include <cordma/net/protocol/frame.hpp>

#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/transport/little_endian.hpp>

#include <algorithm>

namespace cordma::protocol {
namespace {

using transport::load;
using transport::store;

// The frame comes from the peer, and may arrive when there is no memory for a message.
template <class... Parts>
failure broken(const Parts&... what) noexcept {
  return failure::of(errc::connection_aborted,
                     {"the peer sent a frame that is no frame: ", what...});
}

struct bounds {
  parameter name;
  const char* text;
  std::uint32_t hello::* value;
  std::uint32_t least;
  std::uint32_t most;
};
constexpr std::array<bounds, 5> parameters{{
    {parameter::eager_bytes, "eager_bytes", &hello::eager_bytes, least_eager_bytes,
     most_eager_bytes},
    {parameter::credits, "credits", &hello::credits, 1, most_credits},
    {parameter::offers, "offers", &hello::offers, 1, most_offers},
    {parameter::rails, "rails", &hello::rails, 0, most_rails},
    {parameter::devices, "devices", &hello::devices, 1, most_devices},
}};
static_assert(parameters.size() * parameter_bytes == hello_bytes);

}  // namespace

void encode(const frame_head& h, std::span<std::byte, head_bytes> out) noexcept {
  store(&out[0], first_word(h));
  store(&out[8], h.word);
}

result<void> decode(std::span<const std::byte> frame, frame_head& h) {
  if (frame.size() < head_bytes) return broken("it is shorter than a head");
  const auto first = load<std::uint64_t>(&frame[0]);
  const auto kind = static_cast<std::uint8_t>(first);
  if (kind == 0 || kind > static_cast<std::uint8_t>(last_kind)) {
    return broken("kind ", kind, " is unknown");
  }
  h = head_of(first, load<std::uint64_t>(&frame[8]));
  if (h.body != frame.size() - head_bytes) {
    return broken("a body of ", frame.size() - head_bytes, " bytes, where its head says ", h.body);
  }
  const bool empty =
      h.kind == frame_kind::given || h.kind == frame_kind::done || h.kind == frame_kind::wrote;
  if (empty && h.body != 0) return broken("a body where there is none");
  if (h.kind == frame_kind::rail && h.body > longest_descriptor) {
    return broken("a descriptor of ", h.body, " bytes");
  }
  const bool active = h.kind == frame_kind::am_eager || h.kind == frame_kind::am_ready;
  if (active && am_of(h.word).header > h.body) return broken("a header longer than its body");
  return {};
}

result<done_word> done_of(std::uint64_t word) {
  const auto outcome = static_cast<std::uint8_t>(word >> 32);
  if (outcome > static_cast<std::uint8_t>(offer_outcome::failed)) {
    return broken("outcome ", outcome, " is unknown");
  }
  return done_word{static_cast<std::uint32_t>(word), static_cast<offer_outcome>(outcome)};
}

void encode(const offer& o, std::span<std::byte> out) noexcept {
  CORDMA_REQUIRE_OP(o.parts, <=, most_parts);
  CORDMA_REQUIRE_OP(o.keys, >=, 1);
  CORDMA_REQUIRE_OP(o.keys, <=, most_devices);
  CORDMA_REQUIRE_OP(out.size(), >=, bytes_of(o));
  store(&out[0], o.total);
  store(&out[8], o.number);
  store(&out[12], o.parts);
  store(&out[14], o.keys);
  for (std::size_t i = 0; i < o.parts; ++i) {
    std::byte* const at = &out[bytes_of_offer(i, o.keys)];
    store(at, o.part[i].addr);
    store(at + 8, o.part[i].bytes);
    for (std::size_t k = 0; k < o.keys; ++k) {
      store(at + part_bytes + k * key_bytes, o.part[i].rkeys[k]);
    }
  }
}

result<offer> decode_offer(std::span<const std::byte> body) {
  if (body.size() < offer_head_bytes) return broken("an offer that is cut off");
  offer o{.total = load<std::uint64_t>(&body[0]),
          .number = load<std::uint32_t>(&body[8]),
          .parts = load<std::uint16_t>(&body[12]),
          .keys = load<std::uint16_t>(&body[14])};
  if (o.total == 0) return broken("an offer of nothing");
  if (o.parts > most_parts) {
    return broken("an offer of ", o.parts, " parts");
  }
  if (o.keys == 0 || o.keys > most_devices) {
    return broken("an offer of ", o.keys, " keys");
  }
  if (body.size() < bytes_of(o)) return broken("an offer that is cut off");
  std::uint64_t left = o.total;
  for (std::size_t i = 0; i < o.parts; ++i) {
    const std::byte* const at = &body[bytes_of_offer(i, o.keys)];
    offer_part p{.addr = load<std::uint64_t>(at), .bytes = load<std::uint64_t>(at + 8)};
    for (std::size_t k = 0; k < o.keys; ++k) {
      p.rkeys[k] = load<std::uint64_t>(at + part_bytes + k * key_bytes);
    }
    if (p.bytes == 0 || p.addr + p.bytes < p.addr) return broken("an offer of no memory");
    if (p.bytes > left) return broken("an offer whose parts are more than its sum");
    left -= p.bytes;
    o.part[i] = p;
  }
  if (left != 0 && o.parts != 0) return broken("an offer whose parts are less than its sum");
  return o;
}

void encode(const want& w, std::span<std::byte, want_bytes> out) noexcept {
  store(&out[0], w.bytes);
  store(&out[8], w.addr);
  store(&out[16], w.rkey);
}

result<want> decode_want(std::span<const std::byte> body) {
  if (body.size() != want_bytes) return broken("a want that is cut off");
  const want w{load<std::uint64_t>(&body[0]), load<std::uint64_t>(&body[8]),
               load<std::uint64_t>(&body[16])};
  if (w.addr + w.bytes < w.addr) return broken("a want of no memory");
  return w;
}

void encode(const hello& h, std::span<std::byte, hello_bytes> out) noexcept {
  std::byte* at = out.data();
  for (const bounds& p : parameters) {
    store(at, static_cast<std::uint16_t>(p.name));
    store(at + 2, std::uint16_t{0});
    store(at + 4, h.*p.value);
    at += parameter_bytes;
  }
}

result<hello> decode_hello(const frame_head& head, std::span<const std::byte> body) {
  if (head.word != frame_version) {
    return failure::of(errc::unsupported_version, {"the peer's messages: version: mine ",
                                                   frame_version, ", theirs ", head.word});
  }
  if (body.size() % parameter_bytes != 0) return broken("a hello that is cut off");
  hello h;
  std::array<bool, parameters.size()> seen{};
  for (; !body.empty(); body = body.subspan(parameter_bytes)) {
    const auto name = load<std::uint16_t>(&body[0]);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (name != static_cast<std::uint16_t>(parameters[i].name)) continue;
      if (seen[i]) return broken(parameters[i].text, " is said twice");
      seen[i] = true;
      h.*parameters[i].value = load<std::uint32_t>(&body[4]);
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bounds& p = parameters[i];
    if (!seen[i]) return broken(p.text, " is not said");
    const std::uint32_t value = h.*p.value;
    if (value < p.least || value > p.most) {
      return broken(p.text, " is ", value, ", not between ", p.least, " and ", p.most);
    }
  }
  return h;
}

agreed_rails agree(const hello& mine, const hello& theirs) noexcept {
  const std::uint32_t devices = std::min(mine.devices, theirs.devices);
  const auto wish = [devices](const hello& h) { return h.rails != 0 ? h.rails : devices; };
  return {.rails = std::min(wish(mine), wish(theirs)), .devices = devices};
}

}  // namespace cordma::protocol
