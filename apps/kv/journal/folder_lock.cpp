#include "folder_lock.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace kv {
namespace {

constexpr auto try_every = std::chrono::milliseconds(10);

// " (process 1234)", by the kernel's list: "7: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF". Empty where it does not say,
// as of processes of another container, or where the file system's devices have no names of their own.
std::string holder_of(int folder) {
  struct stat s{};
  if (::fstat(folder, &s) != 0) return {};
  std::array<char, 64> place;
  std::snprintf(place.data(), place.size(), "%02x:%02x:%llu", ::major(s.st_dev), ::minor(s.st_dev),
                static_cast<unsigned long long>(s.st_ino));
  std::ifstream list("/proc/locks");
  for (std::string line; std::getline(list, line);) {
    std::istringstream in(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (words.size() < 6 || words[1] != "FLOCK" || words[5] != place.data()) continue;
    if (words[4] != "0" && words[4].front() != '-') return " (process " + words[4] + ")";
  }
  return {};
}

std::string whole_path(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::canonical(folder, error);
  return error ? folder : found.string();
}

}  // namespace

cordma::result<cordma::unique_fd> lock_folder(const std::string& folder,
                                              cordma::duration patience) {
  cordma::unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return cordma::failure::from_os(errno, {"opening ", folder});
  const auto latest = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return cordma::failure::from_os(errno, {"locking ", folder});
    if (std::chrono::steady_clock::now() >= latest) {
      return cordma::failure::of(cordma::errc::in_use, {"another cordma-kv", holder_of(fd.get()),
                                                        " uses ", whole_path(folder)});
    }
    std::this_thread::sleep_for(try_every);
  }
  return fd;
}

}  // namespace kv
