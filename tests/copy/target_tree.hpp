// Directories to write into, and threads with another user or separate mounts.
#pragma once

#include "../../apps/cp/target/target.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace copy::test {

namespace fs = std::filesystem;

// A directory that the destructor removes with its contents.
class temporary_directory {
 public:
  temporary_directory() {
    std::string name = (fs::temp_directory_path() / "cordma-target-XXXXXX").string();
    // No REQUIRE: applies() uses it before any test case. Readable by all, because another user
    // accesses it.
    if (::mkdtemp(name.data()) == nullptr || ::chmod(name.c_str(), 0755) != 0) {
      throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

// A target, and a directory beside it that must not be written to.
struct place_to_write {
  temporary_directory all;
  fs::path root = all.path() / "root";
  fs::path outside = all.path() / "outside";
  place_to_write() {
    fs::create_directory(root);
    fs::create_directory(outside);
  }
  [[nodiscard]] target open() const {
    auto opened = target::open(root.string(), target::missing::is_error);
    REQUIRE(opened.ok());
    return std::move(*opened);
  }
};

inline void write(const fs::path& to, const std::string& text) {
  std::ofstream out(to, std::ios::binary);
  out << text;
  REQUIRE(out.flush().good());
}
inline std::string read(const fs::path& from) {
  std::ifstream in(from, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}
inline struct stat look(const fs::path& at) {
  struct stat s{};
  REQUIRE(::lstat(at.c_str(), &s) == 0);
  return s;
}
inline bool is_there(const fs::path& at) {
  struct stat s{};
  return ::lstat(at.c_str(), &s) == 0;
}
inline std::vector<std::string> names(const fs::path& of) {
  std::vector<std::string> all;
  for (const auto& one : fs::directory_iterator(of)) all.push_back(one.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

// Returns the errno of a result, or 0 if it succeeded.
template <class T>
int errno_of(const cordma::result<T>& r) {
  return r.ok() ? 0 : r.why().os_errno();
}

// Publishes the part of `path`, a new or an existing one.
inline cordma::result<void> publish_part(target& to, const std::string& path) {
  const auto part = to.open_part(path, O_WRONLY);
  if (!part) return part.why();
  return to.publish(part->get(), path);
}

// Rethrows exceptions of `what`, so that a failed REQUIRE ends the case.
inline void in_thread(const std::function<void()>& what) {
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      what();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

inline constexpr const char* not_root = "only root can be somebody else";
[[nodiscard]] inline bool is_root() { return ::geteuid() == 0; }

inline constexpr uid_t other_user = 12345;
inline constexpr gid_t other_group = 23456;
// Uses the system calls directly, because they affect only this thread.
inline void as_other_user(const std::function<void()>& what) {
  in_thread([&] {
    REQUIRE(::syscall(SYS_setgroups, 0, nullptr) == 0);
    REQUIRE(::syscall(SYS_setresgid, other_group, other_group, other_group) == 0);
    REQUIRE(::syscall(SYS_setresuid, other_user, other_user, other_user) == 0);
    what();
  });
}
inline void give_to_other_user(const fs::path& what) {
  REQUIRE(::lchown(what.c_str(), other_user, other_group) == 0);
}

inline constexpr const char* no_mounts = "only root with CAP_SYS_ADMIN can mount a file system";
// Mounts in a separate mount namespace, until the thread ends.
inline bool mount_small(const fs::path& at, const char* options) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", at.c_str(), "tmpfs", 0, options) == 0;
}
[[nodiscard]] inline bool can_mount() {
  bool can = false;
  in_thread([&] { can = mount_small(fs::temp_directory_path(), "size=64k"); });
  return can;
}

}  // namespace copy::test
