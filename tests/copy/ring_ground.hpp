// Test fixtures for copy::file_ring: a reactor, a ring on it, a folder for files, a pipe.
#pragma once

#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/task.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <support/has_io_uring.hpp>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../apps/cp/files/file_ring.hpp"

namespace copy::test {

// A folder that the destructor removes with all its contents.
class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "file-ring-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    fd_.reset(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd_);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  ~folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  // Creates a new, empty file for reading and writing.
  [[nodiscard]] cordma::unique_fd make(const char* name) const {
    cordma::unique_fd fd(::openat(get(), name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    REQUIRE(fd);
    return fd;
  }

 private:
  std::filesystem::path path_;
  cordma::unique_fd fd_;
};

struct pipe_ends {
  pipe_ends() {
    std::array<int, 2> both{};
    REQUIRE(::pipe2(both.data(), O_CLOEXEC) == 0);
    out.reset(both[0]);
    in.reset(both[1]);
  }
  // May be called from any thread.
  void put(std::string_view text) const {
    REQUIRE(::write(in.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  cordma::unique_fd out;
  cordma::unique_fd in;
};

// System calls, and io_uring if the kernel supports it.
inline std::vector<bool> ways_under_test() {
  std::vector<bool> ways{false};
  if (cordma::test::has_io_uring()) ways.push_back(true);
  return ways;
}

struct ground {
  explicit ground(const file_ring_options& options = {},
                  const cordma::reactor_options& how = {.mode = cordma::wait_mode::event})
      : loop(how), ring(loop, options) {}
  // Runs the reactor until it is idle. Operations in the kernel may still be in progress.
  void settle() {
    while (loop.turn()) {}
  }
  folder files;
  cordma::reactor loop;
  file_ring ring;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace copy::test
