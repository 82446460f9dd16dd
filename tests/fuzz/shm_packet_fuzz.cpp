// Data that a foreign process may send to the rendezvous socket, and write into a ring. Input: one
// byte that selects; then packets with the length in their first byte (times two), or cells of 64
// bytes.
#include <cordma/net/transport/shm/ring.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cstdlib>

#include "../transport/shm_rogue.hpp"
#include "meeting_place.hpp"

namespace {

using namespace cordma;             // NOLINT(google-build-using-namespace)
using namespace cordma::transport;  // NOLINT(google-build-using-namespace)

struct server {
  meeting_place directory;
  reactor home{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> d = *make_shm({.directory = directory.path});
  std::unique_ptr<adapter> a = std::move(*d->open(home));
  std::unique_ptr<listener> l = std::move(*a->listen({"", 4711}));
  std::unique_ptr<queue_pair> q;
  std::vector<std::byte> landing = std::vector<std::byte>(4096);
  memory_keys keys = *d->register_memory(
      {landing.data(), landing.size(), transport::access::local_write | all_remote, -1});

  void poll() {
    completion out[32];
    bool progressed = false;
    static_cast<void>(a->poll(out, progressed));
    while (a->has_events()) {
      cm_event e = a->next_event();
      if (e.what != cm_event::type::connect_request) continue;
      auto made = a->accept(e.request, {}, {});
      if (made) q = std::move(*made);
    }
    home.turn();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static server s;
  if (size < 2) return 0;
  const bool as_packets = data[0] % 2 == 0;
  const bool connected = data[0] % 4 != 0;
  std::span<const std::byte> rest = std::as_bytes(std::span(data + 1, size - 1));
  socket_fd stranger;
  std::unique_ptr<shm_test::rogue> rogue;
  int socket = -1;
  if (connected) {
    rogue = std::make_unique<shm_test::rogue>(s.directory.path + "/4711");
    socket = rogue->socket.get();
    for (int i = 0; i < 64; ++i) s.poll();
    if (s.q != nullptr) {
      const segment to{s.landing.data(), 100, s.keys.lkey};
      completion now;
      for (std::uint64_t i = 0; i < 4; ++i) {
        static_cast<void>(s.q->post_recv({i, 1, &to, nullptr}, now));
      }
    }
  } else {
    auto d = shm::dial_name(s.directory.path + "/4711");
    if (d) stranger = std::move((*d).socket);
    socket = stranger.get();
  }
  if (as_packets) {
    while (!rest.empty()) {
      const std::size_t n =
          std::min<std::size_t>(static_cast<std::size_t>(rest[0]) * 2 + 1, rest.size());
      static_cast<void>(shm::send_packet(socket, rest.first(n), {}));
      rest = rest.subspan(n);
      s.poll();
    }
  } else if (rogue != nullptr && rogue->memory.control != nullptr) {
    while (rest.size() >= 16 && rogue->out.room(1)) {
      shm::cell_header h{};
      std::memcpy(&h, rest.data(), sizeof h);
      const std::size_t n = std::min<std::size_t>(rest.size() - sizeof h, shm::inline_payload);
      rogue->cell(h.what, h.flags, h.pieces, h.length, rest.data() + sizeof h, n);
      rest = rest.subspan(sizeof h + n);
    }
  }
  for (int i = 0; i < 64; ++i) s.poll();
  rogue.reset();
  stranger.close();
  s.q.reset();
  for (int i = 0; i < 16; ++i) s.poll();
  return 0;
}
