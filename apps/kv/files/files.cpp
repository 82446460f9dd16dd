#include "files.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr mode_t file_mode = 0644;  // reduced by the umask
constexpr mode_t directory_mode = 0755;

cordma::result<cordma::unique_fd> create(const std::string& path, int how) {
  cordma::unique_fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, file_mode));
  if (!fd) return cordma::failure::from_os(errno, {"creating ", path});
  return fd;
}

// Copies the permissions of the replaced file, so that a process that could not read it cannot read
// the new one.
cordma::result<void> take_mode(int fd, const std::string& before, const std::string& path) {
  struct stat status{};
  if (::stat(before.c_str(), &status) != 0) return {};
  if (::fchmod(fd, status.st_mode & 07777) == 0) return {};
  return cordma::failure::from_os(errno, {"setting the mode of ", path});
}

cordma::result<void> write_fully(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return cordma::failure::from_os(errno, {"writing ", path});
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

std::ptrdiff_t read_fully(int fd, std::span<char> into, std::uint64_t offset) noexcept {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t n =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return static_cast<std::ptrdiff_t>(done);
}

cordma::result<cordma::unique_fd> create_file(const std::string& path) {
  return create(path, O_TRUNC);
}

cordma::result<cordma::unique_fd> create_new_file(const std::string& path) {
  return create(path, O_EXCL);
}

cordma::result<cordma::unique_fd> open_file(const std::string& path) {
  cordma::unique_fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return cordma::failure::from_os(errno, {"opening ", path});
  return fd;
}

cordma::result<void> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), directory_mode) != 0 && errno != EEXIST) {
    return cordma::failure::from_os(errno, {"making the directory ", path});
  }
  return {};
}

cordma::result<void> sync_directory(const std::string& path) {
  const cordma::unique_fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return cordma::failure::from_os(errno, {"fsync of ", path});
  return {};
}

cordma::result<void> replace_file(const std::string& directory, const std::string& name,
                                  std::string_view text) {
  const std::string temporary = std::string(temporary_prefix) + name;
  const std::string path = directory + "/" + temporary;
  const cordma::result<cordma::unique_fd> fd = create_file(path);
  if (!fd) return fd.why();
  cordma::result<void> done = take_mode((*fd).get(), directory + "/" + name, path);
  if (done) done = write_fully((*fd).get(), text, path);
  if (done && ::fsync((*fd).get()) != 0) {
    done = cordma::failure::from_os(errno, {"fsync of ", path});
  }
  if (done) return rename_file(directory, temporary, name);
  remove_file(path);
  return done;
}

cordma::result<void> rename_file(const std::string& directory, const std::string& from,
                                 const std::string& to) {
  const std::string old_path = directory + "/" + from;
  const std::string new_path = directory + "/" + to;
  if (::rename(old_path.c_str(), new_path.c_str()) != 0) {
    return cordma::failure::from_os(errno, {"renaming ", old_path, " to ", new_path});
  }
  return sync_directory(directory);
}

std::optional<std::uint64_t> file_size(const std::string& path) noexcept {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size);
}

cordma::result<void> truncate_file(const std::string& path, std::uint64_t bytes) {
  const cordma::result<cordma::unique_fd> fd = open_file(path);
  if (!fd) return fd.why();
  if (::ftruncate((*fd).get(), static_cast<off_t>(bytes)) != 0 || ::fsync((*fd).get()) != 0) {
    return cordma::failure::from_os(errno, {"cutting off ", path});
  }
  return {};
}

void remove_file(const std::string& path) noexcept { ::unlink(path.c_str()); }

std::uint32_t random_number() noexcept {
  std::uint32_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) {}
  return number;
}

}  // namespace kv
