#include "folder_lock.hpp"

#include "../../support/lock_holder.hpp"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

namespace kv {
namespace {

constexpr auto try_every = std::chrono::milliseconds(10);

// " (process 1234)"; empty if the process is unknown.
std::string holder_of(int folder) {
  struct stat s{};
  const std::string process = ::fstat(folder, &s) == 0 ? support::lock_holder(s) : "";
  return process.empty() ? "" : " (process " + process + ")";
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
