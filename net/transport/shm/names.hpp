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

// A listening socket, and the lock that makes the name its own. Both go with the process. A listener of a port is found
// by a second name as well, which is no file and nobody can remove.
struct bound_name {
  socket_fd socket;
  socket_fd second;  // none: hidden names, and where the name is somebody else's
  unique_fd lock;
  std::string path;
  std::string lock_path;
  process_mark owner;
  peer_rule rule;
  std::uint64_t socket_inode = 0;
  bound_name() = default;
  bound_name(bound_name&& other) noexcept = default;
  bound_name& operator=(bound_name&&) = delete;
  ~bound_name();

  // Whether both files are there as they were made. What cleans up old files may have removed them.
  [[nodiscard]] bool is_whole() const noexcept;
  // Makes the folder and what is missing of the files again. A new listening socket replaces `socket`, if its file was
  // missing.
  [[nodiscard]] result<void> restore();
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
