// The names that listeners are found by: unix sockets in a folder of the user, one per port.
#pragma once

#include <cordma/net/transport/shm/peer_rule.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/runtime/process.hpp>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// Where processes have their names.
struct meeting_place {
  std::vector<std::string> folders;  // of the files, the one for new names first; never empty
  std::string mark;  // of the second names: processes with the same one share the ports
};
// Without a `configured` folder it follows from the user alone: the folders are /run/user/UID/cordma, if /run/user/UID
// exists and is the user's, and /tmp/cordma-UID.
[[nodiscard]] meeting_place find_meeting_place(const std::string& configured);
// Makes the folder if it is missing. not_permitted: it belongs to somebody else, or others can write there.
[[nodiscard]] result<void> make_directory(const std::string& path, const peer_rule& rule);

[[nodiscard]] std::string port_path(const std::string& directory, std::uint16_t port);

// The files of a name: of the socket, and of the lock that makes the name this process's own. Both go with the process.
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
  // REQUIRES the lock. A socket that listens there.
  [[nodiscard]] result<socket_fd> listen();
  // Whether both files are there as they were made. What cleans up old files may have removed them.
  [[nodiscard]] bool is_whole() const noexcept;
  // Makes the folder and what is missing of the files again. Returns a new listening socket if its file was missing,
  // else none.
  [[nodiscard]] result<socket_fd> restore();

 private:
  unique_fd lock_;
  std::string path_;
  std::string lock_path_;
  process_mark owner_;
  peer_rule rule_;
  std::uint64_t socket_inode_ = 0;
};

// A listener of a port is found by a second name as well, which is no file and nobody can remove.
struct bound_name {
  socket_fd socket;
  socket_fd second;  // none: hidden names, and where the name is somebody else's
  name_files files;
};
// in_use: a living process listens there. A dead one's name is taken over.
[[nodiscard]] result<bound_name> bind_name(const std::string& path, const peer_rule& rule);
// The same for a port of this network namespace: processes of another one may share the folder and use the same port.
[[nodiscard]] result<bound_name> bind_port(const meeting_place& at, std::uint16_t port,
                                           const peer_rule& rule);

struct dial {
  socket_fd socket;
  std::string path;
  bool again = false;  // the listener's backlog is full: try later
};
// unreachable: nobody listens.
[[nodiscard]] result<dial> dial_name(const std::string& path);
// Whether a listener has the port, as far as that is known without calling it.
[[nodiscard]] result<void> find_port(const meeting_place& at, std::uint16_t port);
// By its file in the first of the folders that has the port, or by its second name.
[[nodiscard]] result<dial> dial_port(const meeting_place& at, std::uint16_t port);

}  // namespace cordma::transport::shm
