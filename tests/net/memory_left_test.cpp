// Memory limits of the process's cgroup and of those above it, from a made-up /proc and /sys.
#include <cordma/net/memory/memory_left.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <stdlib.h>

namespace {

namespace fs = std::filesystem;
using cordma::detail::memory_left;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// A machine with 1000 MiB available and no swap.
class machine {
 public:
  machine() {
    std::string name = (fs::temp_directory_path() / "cordma-left-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
    write("/proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 1024000 kB\nSwapFree: 0 kB\n");
  }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;
  ~machine() { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const fs::path at = root_ + path;
    fs::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  void version_2(const std::string& cgroup, const std::string& part = "/") const {
    write("/proc/self/cgroup", "0::" + cgroup + "\n");
    write("/proc/self/mountinfo",
          "30 1 0:5 / / rw - ext4 /dev/vda rw\n31 30 0:28 " + part +
              " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void version_1(const std::string& cgroup) const {
    write("/proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:" + cgroup + "\n0::/\n");
    write("/proc/self/mountinfo",
          "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
          "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void limit(const std::string& folder, std::uint64_t most, std::uint64_t used,
             std::uint64_t cached = 0) const {
    const std::string at = "/sys/fs/cgroup" + folder;
    write(at + "/memory.max", std::to_string(most) + "\n");
    write(at + "/memory.current", std::to_string(used) + "\n");
    write(at + "/memory.stat", "anon 4096\ninactive_file " + std::to_string(cached) + "\n");
  }
  [[nodiscard]] std::uint64_t left() const { return memory_left(root_); }

 private:
  std::string root_;
};

}  // namespace

TEST_CASE("without limits, what the machine has available is left, with its swap") {
  const machine m;
  CHECK(m.left() == 1000 * mib);
  m.write("/proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 51200 kB\n");
  CHECK(m.left() == 1050 * mib);
  m.version_2("/");
  m.write("/sys/fs/cgroup/memory.max", "max\n");
  CHECK(m.left() == 1050 * mib);
}

TEST_CASE("the tightest limit of the cgroup and of all above it counts, less what is used there") {
  const machine m;
  m.version_2("/user.slice/job/step");
  m.limit("/user.slice/job/step", 400 * mib, 100 * mib);
  CHECK(m.left() == 300 * mib);
  m.limit("/user.slice/job", 500 * mib, 350 * mib);
  CHECK(m.left() == 150 * mib);
  m.limit("/user.slice", 200 * mib, 180 * mib, 30 * mib);
  CHECK(m.left() == 50 * mib);
  m.limit("/user.slice", 200 * mib, 300 * mib);
  CHECK(m.left() == 0);
}

TEST_CASE("swap counts as far as the cgroup may swap") {
  const machine m;
  m.write("/proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 102400 kB\n");
  m.version_2("/job");
  m.limit("/job", 200 * mib, 50 * mib);
  CHECK(m.left() == 250 * mib);
  m.write("/sys/fs/cgroup/job/memory.swap.max", std::to_string(30 * mib));
  m.write("/sys/fs/cgroup/job/memory.swap.current", std::to_string(10 * mib));
  CHECK(m.left() == 170 * mib);
  m.write("/sys/fs/cgroup/job/memory.swap.max", "max");
  CHECK(m.left() == 250 * mib);
  // A parent group that has no other limit.
  m.write("/sys/fs/cgroup/memory.max", "max");
  m.write("/sys/fs/cgroup/memory.swap.max", "0");
  CHECK(m.left() == 150 * mib);
}

TEST_CASE("version 1: the limits of the memory controller, in its own hierarchy") {
  const machine m;
  m.version_1("/slurm/job");
  const std::string at = "/sys/fs/cgroup/memory/slurm";
  m.write(at + "/job/memory.limit_in_bytes", "9223372036854771712\n");
  m.write(at + "/job/memory.usage_in_bytes", std::to_string(mib));
  CHECK(m.left() == 1000 * mib);
  m.write(at + "/memory.limit_in_bytes", std::to_string(200 * mib));
  m.write(at + "/memory.usage_in_bytes", std::to_string(150 * mib));
  m.write(at + "/memory.stat", "cache 1\ntotal_inactive_file 1048576\ntotal_active_file 2097152\n");
  CHECK(m.left() == 53 * mib);
  m.write("/proc/meminfo", "MemAvailable: 1024000 kB\nSwapFree: 102400 kB\n");
  CHECK(m.left() == 153 * mib);
  m.write(at + "/memory.memsw.limit_in_bytes", std::to_string(220 * mib));
  m.write(at + "/memory.memsw.usage_in_bytes", std::to_string(160 * mib));
  CHECK(m.left() == 63 * mib);
}

TEST_CASE("a container without a cgroup namespace sees its own part of the hierarchy") {
  const machine m;
  m.version_2("/docker/abc/inner", "/docker/abc");
  m.limit("/inner", 100 * mib, 40 * mib);
  m.limit("", 90 * mib, 50 * mib);
  CHECK(m.left() == 40 * mib);
  // Another group with the same prefix in its name is not the parent.
  const machine other;
  other.version_2("/docker/abc/inner", "/docker/ab");
  other.limit("/docker/abc/inner", 100 * mib, 40 * mib);
  CHECK(other.left() == 60 * mib);
}
