// Streams: a function of the place says what each byte is.
#include "program.hpp"

#include <algorithm>

namespace cordma::schedule {

namespace {

std::byte stream_byte(std::uint64_t flow, std::uint64_t place) {
  return static_cast<std::byte>((place + flow) * 167 >> 2);
}

task<> write_stream(world* w, Stream* s, std::uint64_t flow, std::uint64_t bytes) {
  std::vector<std::byte> piece(3000);
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t n = std::min(bytes - done, 1 + w->chance.below(piece.size()));
    for (std::uint64_t i = 0; i < n; ++i) piece[i] = stream_byte(flow, done + i);
    const std::size_t taken = co_await s->write_some(std::span(piece).first(n));
    done += taken;
    if (w->chance.below(8) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  static_cast<void>(s->shutdown_send());
}

task<> read_stream(world* w, link* l, Stream* s, std::uint64_t flow) {
  std::vector<std::byte> piece(4000);
  std::uint64_t done = 0;
  for (;;) {
    const auto into = std::span(piece).first(1 + w->chance.below(piece.size()));
    const std::size_t n = co_await s->read_some(into);
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i) {
      if (piece[i] != stream_byte(flow, done + i)) co_return w->wrong("a wrong byte in a stream");
    }
    done += n;
    w->sum->bytes += n;
    if (w->chance.below(8) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  if (done != l->stream_bytes) co_return w->wrong("a stream that ended early, and well");
}

}  // namespace

task<> use_stream(world* w, link* l, bool client) {
  host_at& at = client ? *l->client_at : *l->server_at;
  const stream_options o{.window_bytes = static_cast<std::uint32_t>(1 + w->chance.below(5000)),
                         .notices = static_cast<std::uint32_t>(16 + w->chance.below(20))};
  Endpoint mine = std::move(client ? l->client : l->server);
  Stream s = co_await Stream::open(*at.context, std::move(mine), o);
  task_context& me = co_await this_task();
  scope both(me);
  both.spawn(write_stream(w, &s, client ? 1 : 0, l->stream_bytes));
  both.spawn(read_stream(w, l, &s, client ? 0 : 1));
  co_await both.join();
  co_await s.close();
}

}  // namespace cordma::schedule
