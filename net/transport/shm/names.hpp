// The names that listeners are found by: unix sockets in a folder of the user, one per port.
#pragma once

#include <cordma/net/transport/shm/peer_rule.hpp>
#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/runtime/process.hpp>
#include <span>
#include <string>
#include <vector>

namespace cordma::transport::shm {

// The folders that a process of this user may have its names in, the one for new names first. It is a function of the
// user alone: /run/user/UID/cordma if /run/user/UID exists and is the user's, and /tmp/cordma-UID. One that is
// `configured` is the only one.
[[nodiscard]] std::vector<std::string> rendezvous_directories(const std::string& configured);
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
  // Makes the folder and the files again, with a new listening socket, which replaces `socket`.
  [[nodiscard]] result<void> restore();
};
// in_use: a living process listens there. A dead one's name is taken over.
[[nodiscard]] result<bound_name> bind_name(const std::string& path, const peer_rule& rule);
// The same for a port of this network namespace: processes of another one may share the folder and use the same port.
[[nodiscard]] result<bound_name> bind_port(const std::string& directory, std::uint16_t port,
                                           const peer_rule& rule);

struct dial {
  socket_fd socket;
  std::string path;
  bool again = false;  // the listener's backlog is full: try later
};
// unreachable: nobody listens.
[[nodiscard]] result<dial> dial_name(const std::string& path);
// Whether a listener has the port, as far as that is known without calling it.
[[nodiscard]] result<void> find_port(std::span<const std::string> directories, std::uint16_t port);
// In the first of the folders that has the port: by its file, or by its second name.
[[nodiscard]] result<dial> dial_port(std::span<const std::string> directories, std::uint16_t port);

}  // namespace cordma::transport::shm
