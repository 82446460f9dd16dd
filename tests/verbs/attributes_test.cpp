// query_devices() compared with direct queries to libibverbs.
#include "own_device.hpp"
#include "same_attributes.hpp"
#include "two_hosts.hpp"

#include <doctest/doctest.h>

#include <cordma/net/device_attributes.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

// Attributes of the only device of the machine.
device_attributes asked_device() {
  std::vector<device_attributes> all = query_devices().value();
  REQUIRE(all.size() == 1);
  REQUIRE_FALSE(all[0].failed);
  return std::move(all[0]);
}

std::vector<ibv_gid_entry> gids_of(ibv_context* context, unsigned port) {
  std::vector<ibv_gid_entry> all(1024);
  const ssize_t n = ibv_query_gid_table(context, all.data(), all.size(), 0);
  REQUIRE(n > 0);
  all.resize(static_cast<std::size_t>(n));
  std::erase_if(all, [port](const ibv_gid_entry& e) { return e.port_num != port; });
  return all;
}

// P_Keys of the used entries, as they are in the port's table.
std::vector<port_pkey> pkeys_of(ibv_context* context, std::uint8_t port, unsigned places) {
  std::vector<port_pkey> found;
  for (unsigned i = 0; i < places; ++i) {
    __be16 key = 0;
    REQUIRE(ibv_query_pkey(context, port, static_cast<int>(i), &key) == 0);
    if (key != 0) found.push_back({.index = i, .value = ntohs(key)});
  }
  return found;
}

// Gives the device a board name in sysfs during its lifetime, as some drivers do.
class named_board {
 public:
  explicit named_board(const std::string& name) {
    shell("mkdir -p " + copy_ + " && cp -r " + device_ + "/. " + copy_ + " 2>/dev/null; echo " +
          name + " > " + copy_ + "/board_id && mount --bind " + copy_ + " " + device_);
  }
  named_board(const named_board&) = delete;
  named_board& operator=(const named_board&) = delete;
  ~named_board() {
    static_cast<void>(std::system(("umount " + device_ + " && rm -r " + copy_).c_str()));
  }

 private:
  const std::string device_ = "/sys/class/infiniband/rxe0";
  const std::string copy_ = "/tmp/rxe0_with_board";
};

}  // namespace

TEST_CASE("B4: the attributes of a device are those that libibverbs reports") {
  own_device own;
  ibv_context* const context = own.context();
  const device_attributes d = asked_device();
  ibv_device_attr_ex asked{};
  REQUIRE(ibv_query_device_ex(context, nullptr, &asked) == 0);
  CHECK(d.name == ibv_get_device_name(context->device));
  CHECK(bits(d.transport) == bits(context->device->transport_type));
  CHECK(d.num_comp_vectors == context->num_comp_vectors);
  CHECK(bits(d.fork) == bits(ibv_is_fork_initialized()));
  check_same(d, asked);
  CHECK(d.limits.max_qp > 0);  // the compared fields are not all zero
  CHECK(bits(d.flags) != 0);
}

TEST_CASE("B4: the attributes of a device's ports are those that libibverbs reports") {
  own_device own;
  ibv_context* const context = own.context();
  const device_attributes d = asked_device();
  REQUIRE(d.ports.size() == d.phys_port_cnt);
  unsigned number = 0;
  for (const port_attributes& p : d.ports) {
    CHECK(p.number == ++number);
    CHECK_FALSE(p.failed);
    const auto port = static_cast<std::uint8_t>(number);
    ibv_port_attr asked{};
    REQUIRE(ibv_query_port(context, port, &asked) == 0);
    check_same(p, asked);
    const std::vector<ibv_gid_entry> gids = gids_of(context, number);
    REQUIRE(p.gids.size() == gids.size());
    for (std::size_t i = 0; i < gids.size(); ++i) check_same(p.gids[i], gids[i]);
    const std::vector<port_pkey> pkeys = pkeys_of(context, port, asked.pkey_tbl_len);
    CHECK(std::ranges::equal(p.pkeys, pkeys, {}, &port_pkey::index, &port_pkey::index));
    CHECK(std::ranges::equal(p.pkeys, pkeys, {}, &port_pkey::value, &port_pkey::value));
    CHECK(std::ranges::count(p.pkeys, 0xFFFF, &port_pkey::value) == 1);
  }
}

TEST_CASE("B4: the board's name is that of the driver, and empty if it reports none") {
  CHECK(asked_device().board_id.empty());
  const named_board here("CRD0000000042");
  CHECK(asked_device().board_id == "CRD0000000042");
}
