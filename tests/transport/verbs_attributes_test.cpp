// Made-up values of libibverbs are copied to the fields with the same names. Needs no device.
#include <doctest/doctest.h>
#include <verbs/same_attributes.hpp>

#include <cordma/net/transport/verbs/attributes.hpp>

#include <cstring>
#include <random>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr unsigned seeds = 8;  // one-byte fields that are equal with one seed differ with others

// A value with random bytes.
template <class T>
T random_bytes(std::mt19937& chance) {
  std::vector<unsigned char> bytes(sizeof(T));
  for (unsigned char& b : bytes) b = static_cast<unsigned char>(chance());
  T made;
  std::memcpy(&made, bytes.data(), bytes.size());
  return made;
}

}  // namespace

TEST_CASE("B4: each attribute of a device is kept, with bits and numbers that have no name") {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 chance(seed);
    auto asked = random_bytes<ibv_device_attr_ex>(chance);
    asked.orig_attr.atomic_cap = IBV_ATOMIC_GLOB;
    check_same(transport::verbs::to_attributes(asked), asked);
  }
}

TEST_CASE("B4: each attribute of a port is kept, with numbers that have no name") {
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 chance(seed);
    auto asked = random_bytes<ibv_port_attr>(chance);
    asked.state = IBV_PORT_ARMED;
    asked.max_mtu = IBV_MTU_2048;
    asked.active_mtu = IBV_MTU_512;
    check_same(transport::verbs::to_attributes(asked), asked);
  }
}

TEST_CASE("B4: a GID is kept with its place and its type") {
  std::mt19937 chance(1);
  const auto asked = random_bytes<ibv_gid_entry>(chance);
  check_same(transport::verbs::to_attributes(asked), asked);
}

TEST_CASE("B4: a firmware version that fills its field ends with the field") {
  ibv_device_attr_ex asked{};
  std::memset(asked.orig_attr.fw_ver, 'v', sizeof asked.orig_attr.fw_ver);
  CHECK(transport::verbs::to_attributes(asked).fw_ver == std::string(64, 'v'));
}

TEST_CASE("B4: a set of flags has those that are set, each of them") {
  const device_flags set{bits(device_flags::xrc) | bits(device_flags::atomic_write) | 1ULL << 60};
  CHECK(has(set, device_flags::xrc));
  CHECK(has(set, device_flags::atomic_write));
  CHECK_FALSE(has(set, device_flags::flush_global));
  CHECK_FALSE(has(set, device_flags{bits(device_flags::xrc) | bits(device_flags::init_type)}));
}
