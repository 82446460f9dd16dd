// The list of RDMA devices, from directory trees like the kernel's below /sys.
#include <cordma/net/device_list.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>

using namespace cordma;
namespace fs = std::filesystem;

namespace {

// A separate /sys during its lifetime.
class sys_tree {
 public:
  sys_tree() {
    std::string name = fs::temp_directory_path() / "cordma-sys-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  sys_tree(const sys_tree&) = delete;
  sys_tree& operator=(const sys_tree&) = delete;
  ~sys_tree() { fs::remove_all(root_); }

  [[nodiscard]] const fs::path& root() const { return root_; }
  // Adds a device at this PCI address; none: a virtual one.
  void add_device(const std::string& name, const std::string& bdf) {
    const std::string folder = bdf.empty() ? "virtual" : "pci0000:00/" + bdf;
    const fs::path real = fs::path("devices") / folder / "infiniband" / name;
    fs::create_directories(root_ / real);
    fs::create_directories(root_ / "class/infiniband");
    fs::create_directory_symlink("../.." / real, root_ / "class/infiniband" / name);
    if (!bdf.empty()) {
      fs::create_directory_symlink(root_ / "devices" / bdf, root_ / real / "device");
    }
  }
  void add_port(const std::string& device, int number, const std::string& state) {
    write(port(device, number) / "state", state);
    write(port(device, number) / "link_layer", "Ethernet");
  }
  void add_gid(const std::string& device, int number, int index, const std::string& gid,
               const std::string& netdev) {
    const std::string place = std::to_string(index);
    write(port(device, number) / "gids" / place, gid);
    if (netdev.empty()) return;
    write(port(device, number) / "gid_attrs/types" / place, "RoCE v2");
    write(port(device, number) / "gid_attrs/ndevs" / place, netdev);
  }
  [[nodiscard]] fs::path port(const std::string& device, int number) const {
    return root_ / "class/infiniband" / device / "ports" / std::to_string(number);
  }
  static void write(const fs::path& file, const std::string& line) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << line << '\n';
  }

 private:
  fs::path root_;
};

// An adapter with two ports, the second of which is up, and Soft-RoCE on another interface.
void furnish(sys_tree& sys) {
  sys.add_device("rxe0", "");
  sys.add_port("rxe0", 1, "4: ACTIVE");
  sys.add_gid("rxe0", 1, 0, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "eth0");
  sys.add_gid("rxe0", 1, 1, "0000:0000:0000:0000:0000:ffff:c000:0201", "eth0");
  sys.add_gid("rxe0", 1, 2, "0000:0000:0000:0000:0000:0000:0000:0000", "");
  sys.add_device("mlx5_0", "0000:3b:00.1");
  sys.add_port("mlx5_0", 1, "1: DOWN");
  sys.add_port("mlx5_0", 2, "4: ACTIVE");
  sys.add_gid("mlx5_0", 2, 3, "fe80:0000:0000:0000:0000:0000:0000:0007", "ens1f1");
}

}  // namespace

TEST_CASE("B1: a snapshot has every port with its address, state and GIDs, in order") {
  sys_tree sys;
  furnish(sys);
  const device_list list = device_list::snapshot(sys.root());
  REQUIRE(list.ports().size() == 3);
  const device_port& down = list.ports()[0];
  const device_port& up = list.ports()[1];
  const device_port& soft = list.ports()[2];
  CHECK(down.setting() == "mlx5_0:1");
  CHECK_FALSE(down.is_active());
  CHECK(down.gids.empty());
  CHECK(up.setting() == "mlx5_0:2");
  CHECK(up.bdf == "0000:3b:00.1");
  CHECK(up.state == "4: ACTIVE");
  CHECK(up.link == "Ethernet");
  REQUIRE(up.gids.size() == 1);
  CHECK(up.gids[0].index == 3);
  CHECK(up.gids[0].netdev == "ens1f1");
  CHECK(soft.device == "rxe0");
  CHECK(soft.bdf.empty());
  REQUIRE(soft.gids.size() == 2);  // an empty entry is left out
  CHECK(soft.gids[1].type == "RoCE v2");
  CHECK(soft.gids[1].value == parse_gid("192.0.2.1").value());
}

TEST_CASE("B1: a snapshot stays as it was; the next one shows what has changed") {
  sys_tree sys;
  furnish(sys);
  const device_list before = device_list::snapshot(sys.root());
  sys.add_gid("rxe0", 1, 2, "0000:0000:0000:0000:0000:ffff:c000:0202", "eth0");
  sys.add_port("mlx5_0", 1, "4: ACTIVE");
  const device_list after = device_list::snapshot(sys.root());
  CHECK(before.find_by_gid("192.0.2.2").code() == errc::not_found);
  CHECK(before.find_by_name("mlx5_0").value().number == 2);
  CHECK(after.find_by_gid("192.0.2.2").value().device == "rxe0");
  CHECK(after.find_by_name("mlx5_0").value().number == 1);
}

TEST_CASE(
    "B2: a port is found by name, PCI address, GID, interface or predicate; the list may go") {
  sys_tree sys;
  furnish(sys);
  const auto found = [&sys](auto find) {
    const device_list list = device_list::snapshot(sys.root());
    const result<device_port> port = find(list);
    return port ? port->setting() : port.why().message();
  };
  using list = const device_list&;
  CHECK(found([](list l) { return l.find_by_name("mlx5_0"); }) == "mlx5_0:2");  // it is up
  CHECK(found([](list l) { return l.find_by_name("mlx5_0:1"); }) == "mlx5_0:1");
  for (const char* bdf : {"0000:3b:00.1", "3b:00.1", "0000:3B:00.1"}) {
    CHECK(found([bdf](list l) { return l.find_by_bdf(bdf); }) == "mlx5_0:2");
  }
  for (const char* gid : {"fe80::7", "fe80:0000:0000:0000:0000:0000:0000:0007"}) {
    CHECK(found([gid](list l) { return l.find_by_gid(gid); }) == "mlx5_0:2");
  }
  for (const char* gid : {"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"}) {
    CHECK(found([gid](list l) { return l.find_by_gid(gid); }) == "rxe0:1");
  }
  CHECK(found([](list l) { return l.find_by_netdev("ens1f1"); }) == "mlx5_0:2");
  const device_list here = device_list::snapshot(sys.root());
  const auto soft = here.find_if([](const device_port& p) { return p.bdf.empty(); });
  REQUIRE(soft.has_value());
  CHECK(soft->setting() == "rxe0:1");
  CHECK_FALSE(here.find_if([](const device_port& p) { return p.number == 3; }).has_value());
}

TEST_CASE("B2: what is not there is not_found and tells what is; what means nothing is refused") {
  sys_tree sys;
  furnish(sys);
  const device_list list = device_list::snapshot(sys.root());
  for (const result<device_port>& r :
       {list.find_by_name("mlx5_7"), list.find_by_name("mlx5_0:3"), list.find_by_bdf("3b:00.2"),
        list.find_by_gid("fe80::8"), list.find_by_netdev("eth7")}) {
    REQUIRE(r.code() == errc::not_found);
    const std::string why = r.why().message();
    CHECK(why.find("mlx5_0:2 (0000:3b:00.1, ens1f1), rxe0:1 (eth0)") != std::string::npos);
  }
  for (const char* bad : {"", "3b", "3b:00", "3b:00.8", "3g:00.0", "0000:3b:00:1", "00:3b:00.1"}) {
    CAPTURE(bad);
    CHECK(list.find_by_bdf(bad).code() == errc::invalid_value);
  }
  for (const char* bad : {"", "eth0", "fe80", "192.0.2", "fe80::1%eth0"}) {
    CAPTURE(bad);
    CHECK(list.find_by_gid(bad).code() == errc::invalid_value);
  }
}

TEST_CASE("B1: without devices, and where the tree is odd, the list has what can be read") {
  sys_tree sys;
  CHECK(device_list::snapshot(sys.root()).ports().empty());
  CHECK(device_list::snapshot(sys.root() / "nowhere").ports().empty());
  const result<device_port> none = device_list::snapshot(sys.root()).find_by_name("mlx5_0");
  REQUIRE(none.code() == errc::not_found);
  CHECK(none.why().message().ends_with("this machine has none"));

  sys.add_device("no_ports", "0000:01:00.0");
  sys.add_device("odd", "");
  sys.add_port("odd", 1, "");
  sys.add_gid("odd", 1, 0, "no GID", "eth0");
  sys.write(sys.port("odd", 1) / "gids/first", "fe80::1");
  sys.write(sys.root() / "class/infiniband/odd/ports/two/state", "4: ACTIVE");
  const device_list list = device_list::snapshot(sys.root());
  REQUIRE(list.ports().size() == 1);
  CHECK(list.ports()[0].setting() == "odd:1");
  CHECK(list.ports()[0].gids.empty());
  CHECK_FALSE(list.ports()[0].is_active());
}

TEST_CASE("B1: this machine can be asked") {
  for (const device_port& p : device_list::snapshot().ports()) {
    CHECK_FALSE(p.device.empty());
    CHECK(p.number >= 1);
  }
}
