// A hostile peer that implements the protocol by hand.
#pragma once

#include <sys/eventfd.h>

#include <cordma/net/transport/shm/memory.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/ring.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/shm/wire.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace cordma::transport::shm_test {

class rogue {
 public:
  static constexpr std::uint32_t ring_bytes = 4096;

  // Sends a hello to the listener on `path`.
  explicit rogue(const std::string& path) {
    auto d = shm::dial_name(path);
    if (!d) return;
    socket = std::move((*d).socket);
    auto file = shm::create_shared("rogue", shm::channel_bytes(ring_bytes));
    auto page = shm::create_shared("rogue page", shm::page_bytes);
    auto epochs = shm::create_shared("rogue epochs", shm::epochs_bytes);
    if (!file || !page || !epochs) return;
    auto mapped = shm::map_channel((*file).get(), ring_bytes, shm::side::connects);
    if (!mapped) return;
    memory = std::move(*mapped);
    out = shm::ring_writer(memory.cells[0], ring_bytes, memory.ring[0]);
    const unique_fd bell(::eventfd(0, EFD_CLOEXEC));
    auto hello = shm::make_packet<shm::introduction>(shm::packet::hello);
    hello.cell_size = shm::cell_bytes;
    hello.ring_size = ring_bytes;
    hello.rnr_retry = 7;
    const std::array<int, 4> fds{(*file).get(), bell.get(), (*page).get(), (*epochs).get()};
    said_hello = shm::send_packet(socket.get(), hello, fds) == shm::transfer::done;
  }
  // True if the server accepted; its packet has been read.
  [[nodiscard]] bool accepted() {
    shm::received_packet p;
    return shm::receive_packet(socket.get(), p) == shm::transfer::done &&
           shm::inspect(p.bytes()).type == shm::packet::accept;
  }
  [[nodiscard]] shm::ring_control& control() const { return *memory.ring[0]; }
  [[nodiscard]] shm::ring_control& other_control() const { return *memory.ring[1]; }
  // A cell with any header; its stamp is valid.
  void cell(shm::message what, std::uint8_t flags, std::uint16_t pieces, std::uint32_t length,
            const void* payload = nullptr, std::size_t bytes = 0) {
    if (bytes != 0) std::memcpy(out.payload(), payload, bytes);
    out.write(what, flags, pieces, 0, length, 1, false);
  }

  bool said_hello = false;
  socket_fd socket;
  shm::channel memory;
  shm::ring_writer out;
};

}  // namespace cordma::transport::shm_test
