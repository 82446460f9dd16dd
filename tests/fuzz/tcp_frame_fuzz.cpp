// The decoders of the tcp transport: they never read beyond their input, and accepted frames are
// within the limits that the transport relies on.
#include <cordma/net/transport/tcp/frame.hpp>
#include <cordma/net/transport/tcp/hello.hpp>
#include <cstdlib>

namespace {

using namespace cordma::transport;
using namespace cordma::transport::tcp;

void demand(bool holds) {
  if (!holds) std::abort();
}

// A decoded frame is encoded to the same bytes.
void check_frame(std::span<const std::byte> in) {
  const decoded d = decode(in);
  if (d.what == decoded::outcome::partial) demand(d.size > in.size());
  if (d.what != decoded::outcome::whole) return;
  demand(d.size <= in.size() && d.size == header_size(d.value.type));
  demand(d.value.length <= most_message);
  demand(has_payload(d.value.type) || d.value.type == frame_type::read || d.value.length == 0 ||
         is_atomic(d.value.type));
  header_buffer again;
  demand(encode(d.value, again) == d.size);
  demand(std::memcmp(again.data(), in.data(), d.size) == 0);
}

void check_hello(std::span<const std::byte> in) {
  const decoded_hello d = decode_hello(in);
  if (d.what == decoded_hello::outcome::partial) demand(d.size > in.size());
  if (d.what != decoded_hello::outcome::whole) return;
  const hello& h = d.value;
  demand(d.size <= in.size() && d.size == hello_fixed + h.data_length);
  demand(h.data_length <= (opens(h.kind) ? most_request_data : most_accept_data));
  demand(h.recv_depth <= most_depth && h.credit <= h.recv_depth && h.read_depth <= most_reads);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> in{reinterpret_cast<const std::byte*>(data), size};
  check_frame(in);
  check_hello(in);
  return 0;
}
