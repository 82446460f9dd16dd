// Address handles of peers: how many are kept, for how long at least, and for which peers none is
// created.
#include "own_device.hpp"

#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <dlfcn.h>

#include <array>
#include <memory>
#include <optional>

using namespace cordma;
using namespace cordma::test;
using namespace cordma::transport;
using cordma::transport::verbs::most_unused_handles;

namespace {

int made = 0;
int gone = 0;
// GID that all handles use meanwhile, so that no neighbour is resolved.
std::optional<ibv_gid> everywhere;

template <class Function>
Function* behind(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

}  // namespace

extern "C" ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  static auto* const real = behind<decltype(ibv_create_ah)>("ibv_create_ah");
  ibv_ah_attr there = *attr;
  if (everywhere) there.grh.dgid = *everywhere;
  ibv_ah* const handle = real(pd, &there);
  if (handle != nullptr) ++made;
  return handle;
}

extern "C" int ibv_destroy_ah(ibv_ah* handle) {
  static auto* const real = behind<decltype(ibv_destroy_ah)>("ibv_destroy_ah");
  ++gone;
  return real(handle);
}

namespace {

constexpr int many = 3000;  // peers

verbs::gid_bytes peer_number(int i) {
  verbs::gid_bytes gid{};
  gid[10] = gid[11] = std::byte{0xFF};
  gid[12] = std::byte{10};
  gid[13] = std::byte{200};
  gid[14] = static_cast<std::byte>(i >> 8);
  gid[15] = static_cast<std::byte>(i);
  return gid;
}

struct ground {
  ground() : device(make_verbs({}).value()), at(device->open(loop).value()) {
    const auto own = own_adapter().owner().choose_gid(nullptr);
    REQUIRE(own);
    everywhere = own->gid;
    made = gone = 0;
  }
  ~ground() { everywhere.reset(); }
  ground(const ground&) = delete;
  ground& operator=(const ground&) = delete;
  verbs::verbs_adapter& own_adapter() { return static_cast<verbs::verbs_adapter&>(*at); }

  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device;
  std::unique_ptr<adapter> at;
};

}  // namespace

TEST_CASE("L7: a port that writes to many peers keeps the ways to the last of them, and goes on") {
  ground here;
  queue_pair_options options;
  options.type = service::ud;
  std::unique_ptr<queue_pair> port = here.at->create(options).value();
  std::array<std::byte, 8> memory{};
  const memory_keys keys =
      here.device
          ->register_memory(
              {.addr = memory.data(), .length = memory.size(), .rights = access::local_read})
          .value();
  const segment from{memory.data(), 8, keys.lkey};
  const auto send = [&](int peer) {
    const datagram_peer to = verbs::encode({.gid = peer_number(peer)}, 0xFFFFF0, 7);
    completion now;
    static_cast<void>(port->post_send(
        {.id = 1, .op = opcode::send, .segment_count = 1, .segments = &from, .to = &to}, now));
    std::array<completion, 1> taken;
    bool progressed = false;
    while (here.at->poll(taken, progressed) == 0) {}
    CHECK(taken[0].status == wc_status::success);
  };
  for (int i = 0; i < many; ++i) {
    send(i);
    REQUIRE(made - gone <= static_cast<int>(most_unused_handles));
  }
  CHECK(made == many);
  send(many - 1);
  send(many - static_cast<int>(most_unused_handles));
  CHECK(made == many);  // these handles were kept
  send(0);
  CHECK(made == many + 1);
  port.reset();
  CHECK(made == gone);
  here.device->deregister_memory(keys.lkey);
}

TEST_CASE("L7: a way that a datagram on the device stands on is kept, and so is one that is held") {
  ground here;
  {
    verbs::address_handles handles(here.device->native_pd());
    const auto key = [](int i) { return verbs::key_to({.gid = peer_number(i)}); };
    ibv_ah_attr path{};
    path.port_num = 1;
    path.is_global = 1;
    path.grh.sgid_index =
        static_cast<std::uint8_t>(here.own_adapter().owner().choose_gid(nullptr)->gid_index);
    path.grh.hop_limit = 1;
    std::uint32_t posted = 0;
    verbs::address_handle* const held = handles.make(key(0), path, {.posted = posted++, .done = 0});
    REQUIRE(held != nullptr);
    handles.hold(*held);
    constexpr int on_device = 1500;
    for (int i = 1; i <= on_device; ++i) {
      REQUIRE(handles.make(key(i), path, {.posted = posted++, .done = 1}) != nullptr);
    }
    CHECK(gone == 0);
    // All of the datagrams except the last ten are done.
    REQUIRE(handles.make(key(many), path, {.posted = posted, .done = posted - 10}) != nullptr);
    CHECK(made - gone == static_cast<int>(most_unused_handles) + 1);
    ++posted;
    CHECK(handles.find(key(0), {.posted = posted, .done = posted}) == held);
    CHECK(handles.find(key(1), {.posted = posted, .done = posted}) == nullptr);
    handles.let_go(*held, {.posted = posted, .done = posted});
  }
  CHECK(made == gone);
}

TEST_CASE("L7: an address that nobody here is connected with is not looked for to be answered") {
  ground here;
  CHECK(here.own_adapter().known_handle({.gid = peer_number(1)}) == nullptr);
  CHECK(made == 0);
  CHECK(here.own_adapter().known_handle({.gid = verbs::to_bytes(*everywhere)}) != nullptr);
  ibv_ah_attr path = {};
  path.port_num = 1;
  path.is_global = 1;
  path.grh.sgid_index =
      static_cast<std::uint8_t>(here.own_adapter().owner().choose_gid(nullptr)->gid_index);
  path.grh.dgid = verbs::to_gid(peer_number(2));
  path.grh.hop_limit = 1;
  verbs::address_handle* const peer = here.own_adapter().hold_handle(path);
  REQUIRE(peer != nullptr);
  CHECK(here.own_adapter().known_handle({.gid = peer_number(2)}) == peer);
  here.own_adapter().let_go(*peer);
  CHECK(made == 2);
}
