// The frames of the protocols: the decoders never read beyond their input. Accepted frames are
// within the limits that the upper layers rely on, and are encoded to the same bytes.
#include <cordma/net/protocol/credit_window.hpp>
#include <cordma/net/protocol/frame.hpp>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace cordma;
using namespace cordma::protocol;

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_offer(std::span<const std::byte> body) {
  const result<offer> o = decode_offer(body);
  if (!o) return;
  demand(o->total != 0 && o->parts <= most_parts && bytes_of(*o) <= body.size());
  demand(o->keys != 0 && o->keys <= most_devices);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < o->parts; ++i) {
    demand(o->part[i].addr + o->part[i].bytes >= o->part[i].addr);
    sum += o->part[i].bytes;
  }
  demand(o->parts == 0 || sum == o->total);
  std::array<std::byte, longest_offer> again{};
  encode(*o, again);
  demand(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(bytes_of(*o)),
                    body.begin()));
}

void check_want(std::span<const std::byte> body) {
  const result<want> w = decode_want(body);
  if (!w) return;
  std::array<std::byte, want_bytes> again{};
  encode(*w, again);
  demand(std::equal(again.begin(), again.end(), body.begin(), body.end()));
}

void check_hello(const frame_head& head, std::span<const std::byte> body) {
  const result<hello> h = decode_hello(head, body);
  if (!h) return;
  demand(h->eager_bytes >= least_eager_bytes && h->eager_bytes <= most_eager_bytes);
  demand(h->credits >= 1 && h->credits <= most_credits && h->offers >= 1 &&
         h->offers <= most_offers);
  demand(h->rails <= most_rails && h->devices >= 1 && h->devices <= most_devices);
  const agreed_rails both = agree(*h, {.rails = most_rails, .devices = most_devices});
  demand(both.rails >= 1 && both.rails <= most_rails && both.devices == h->devices);
  std::array<std::byte, hello_bytes> again{};
  encode(*h, again);
  const result<hello> same = decode_hello(head, again);
  demand(same.ok() && same->eager_bytes == h->eager_bytes && same->credits == h->credits &&
         same->offers == h->offers && same->rails == h->rails && same->devices == h->devices);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span in(reinterpret_cast<const std::byte*>(data), size);
  frame_head head;
  if (!decode(in, head)) return 0;
  const std::span body = in.subspan(head_bytes);
  demand(head.body == body.size());
  switch (head.kind) {
    case frame_kind::tag_ready: check_offer(body); break;
    case frame_kind::am_ready:
    case frame_kind::am_eager:
      demand(am_of(head.word).header <= body.size());
      check_offer(body);
      break;
    case frame_kind::hello: check_hello(head, body); break;
    case frame_kind::want: check_want(body); break;
    case frame_kind::rail: demand(body.size() <= longest_descriptor); break;
    case frame_kind::done: static_cast<void>(done_of(head.word).ok()); break;
    default: break;
  }
  return 0;
}
