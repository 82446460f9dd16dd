// The frames of cordma-cp: every input is refused, or decoded exactly and encoded to the same
// bytes.
#include "../../apps/cp/protocol/lane.hpp"
#include "../../apps/cp/protocol/wire.hpp"

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/result.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

using copy::frame_kind;
using copy::frame_reader;
using copy::frame_writer;

std::vector<std::byte> again(frame_reader in) {
  std::vector<std::byte> out;
  switch (in.kind()) {
    case frame_kind::hello: copy::encode(out, copy::decode_hello(in)); break;
    case frame_kind::memory: copy::encode(out, copy::decode_memory(in)); break;
    case frame_kind::data: copy::encode(out, copy::decode_data(in)); break;
    case frame_kind::compare: copy::encode(out, copy::decode_compare(in)); break;
    case frame_kind::compared: copy::encode(out, copy::decode_compared(in)); break;
    case frame_kind::chunk: copy::encode(out, copy::decode_chunk(in)); break;
    case frame_kind::bundle: copy::encode(out, copy::decode_bundle(in)); break;
    case frame_kind::file_end: copy::encode(out, copy::decode_file_end(in)); break;
    case frame_kind::finished: copy::encode(out, copy::decode_tally(in)); break;
    case frame_kind::done: copy::encode(out, copy::decode_done(in)); break;
    case frame_kind::entries: {
      frame_writer w(out, in.kind());
      while (!in.empty()) {
        const copy::entry e = copy::decode_entry(in);
        CORDMA_REQUIRE(copy::stays_inside(e.path));
        copy::encode(w, e);
      }
      break;
    }
    case frame_kind::problems: {
      frame_writer w(out, in.kind());
      while (!in.empty()) copy::encode(w, copy::decode_problem(in));
      break;
    }
    case frame_kind::wants: {
      frame_writer w(out, in.kind());
      while (!in.empty()) copy::encode(w, copy::decode_want(in));
      break;
    }
    case frame_kind::items: {
      frame_writer w(out, in.kind());
      while (!in.empty()) copy::encode(w, copy::decode_item(in));
      break;
    }
    default: break;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (bytes.size() < copy::frame_head_bytes) return 0;
  try {
    const copy::frame_head head = copy::decode_head(bytes.first<copy::frame_head_bytes>());
    const std::span<const std::byte> rest = bytes.subspan(copy::frame_head_bytes);
    if (rest.size() < head.payload) return 0;
    const std::span<const std::byte> payload = rest.first(head.payload);
    const std::vector<std::byte> out = again(frame_reader(head.kind, payload));
    const std::span<const std::byte> whole = bytes.first(copy::frame_head_bytes + head.payload);
    CORDMA_REQUIRE(out.empty() || std::ranges::equal(out, whole));
  } catch (const cordma::error&) {
    // Refused: the only permitted error.
  }
  return 0;
}
