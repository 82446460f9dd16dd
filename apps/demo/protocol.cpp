#include "protocol.hpp"

#include <cordma/runtime/result.hpp>

namespace demo {
namespace {

constexpr std::size_t blob_bytes = 64;

[[noreturn]] void refuse(std::string why) {
  cordma::throw_error({cordma::errc::invalid_value, "the peer sent " + std::move(why)});
}

}  // namespace

void reader::too_short() const { refuse("a message that ends too early"); }

void reader::expect(message_kind kind) {
  const std::uint8_t got = u8();
  if (got != static_cast<std::uint8_t>(kind)) {
    refuse("message kind " + std::to_string(got) + " where " +
           std::to_string(static_cast<int>(kind)) + " was due");
  }
}

std::vector<std::byte> encode(const windows& w) {
  writer out;
  out.u32(w.count).u32(w.bytes).bytes(w.blob);
  return {out.done().begin(), out.done().end()};
}

windows decode_windows(std::span<const std::byte> data) {
  reader in(data);
  windows w;
  w.count = in.u32();
  w.bytes = in.u32();
  const auto blob = in.bytes(blob_bytes);
  w.blob.assign(blob.begin(), blob.end());
  if (w.count == 0 || w.count > most_windows || w.bytes == 0 || w.bytes > largest_window) {
    refuse("windows of an impossible size: is it a tree server?");
  }
  return w;
}

void encode(writer& out, const entry& e) {
  out.u8(static_cast<std::uint8_t>(e.kind))
      .u32(e.mode)
      .u64(e.size)
      .long_text(e.path)
      .long_text(e.target);
}

entry decode_entry(reader& in) {
  entry e;
  const std::uint8_t kind = in.u8();
  if (kind < 1 || kind > 3) refuse("an entry of kind " + std::to_string(kind));
  e.kind = static_cast<entry_kind>(kind);
  e.mode = in.u32();
  e.size = in.u64();
  e.path = in.long_text();
  e.target = in.long_text();
  if (!stays_inside(e.path)) refuse("the path \"" + e.path + "\", which leads out of the tree");
  if (e.mode > 07777) refuse("permissions that do not exist");
  return e;
}

void encode(writer& out, const omission& o) { out.long_text(o.path).long_text(o.why); }

omission decode_omission(reader& in) {
  omission o;
  o.path = in.long_text();
  o.why = in.long_text();
  return o;
}

}  // namespace demo
