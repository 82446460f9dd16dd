// The names of listeners: unix sockets in a folder of the user, one per port.
#pragma once

#include <cordma/net/transport/shm/peer_rule.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/runtime/process.hpp>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// The folders in which processes create their names.
struct meeting_place {
  std::vector<std::string> folders;  // of the files, the one for new names first; never empty
  std::string mark;  // part of the second names: processes with the same mark share the ports
};
// Without a `configured` folder the result depends on the user alone: the folders are
// /run/user/UID/cordma, if /run/user/UID exists and is the user's, and /tmp/cordma-UID.
[[nodiscard]] meeting_place find_meeting_place(const std::string& configured);
// Creates the folder if it is missing. not_permitted: it belongs to another user, or other users
// can write to it.
[[nodiscard]] result<void> make_directory(const std::string& path, const peer_rule& rule);

[[nodiscard]] std::string port_path(const std::string& directory, std::uint16_t port);

// The files of a name: the socket, and the lock that reserves the name for this process. Both are
// removed with the process.
class name_files {
 public:
  name_files(const std::string& path, const peer_rule& rule)
      : path_(path), lock_path_(path + ".lock"), rule_(rule) {}
  name_files(name_files&& other) noexcept = default;
  name_files& operator=(name_files&&) = delete;
  ~name_files();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] bool is_locked() const noexcept { return static_cast<bool>(lock_); }
  // in_use: another process has the lock.
  [[nodiscard]] result<void> lock();
  // REQUIRES the lock. Returns a socket that listens at the path.
  [[nodiscard]] result<socket_fd> listen();
  // True if both files exist as they were created. A cleaner of old files may have removed them.
  [[nodiscard]] bool is_whole() const noexcept;
  // Creates the folder and the missing files again. Returns a new listening socket if the socket
  // file was missing, else none.
  [[nodiscard]] result<socket_fd> restore();

 private:
  unique_fd lock_;
  std::string path_;
  std::string lock_path_;
  process_mark owner_;
  peer_rule rule_;
  std::uint64_t socket_inode_ = 0;
};

// A listener of a port also has a second name, which is no file, so no process can remove it.
struct bound_name {
  socket_fd socket;
  socket_fd second;  // none: for hidden names, or if another process has the name
  name_files files;
};
// in_use: a living process listens at the path. The name of a dead process is taken over.
[[nodiscard]] result<bound_name> bind_name(const std::string& path, const peer_rule& rule);
// The same for a port of this network namespace: processes of another namespace may share the
// folder and use the same port.
[[nodiscard]] result<bound_name> bind_port(const meeting_place& at, std::uint16_t port,
                                           const peer_rule& rule);

struct dial {
  socket_fd socket;
  std::string path;
  bool again = false;  // the listener's backlog is full: try later
};
// unreachable: no process listens at the path.
[[nodiscard]] result<dial> dial_name(const std::string& path);
// Succeeds if a listener has the port, as far as this is known without connecting.
[[nodiscard]] result<void> find_port(const meeting_place& at, std::uint16_t port);
// Connects by the file in the first folder that has the port, or by the second name.
[[nodiscard]] result<dial> dial_port(const meeting_place& at, std::uint16_t port);

}  // namespace cordma::transport::shm
