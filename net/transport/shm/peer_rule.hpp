// The rule that decides which users' processes may be peers.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cordma/net/transport/shm/socket.hpp>
#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/result.hpp>
#include <optional>
#include <string>

namespace cordma::transport::shm {

// Admits processes of this process's user; also those of members of a group, or of any user.
class peer_rule {
 public:
  peer_rule() = default;
  // invalid_value: the group does not exist.
  [[nodiscard]] static result<peer_rule> of(const shm_options& options);

  // True if the peer of `socket`, with this identity, may connect. Its supplementary groups count.
  [[nodiscard]] bool admits(int socket, const peer_identity& who) const noexcept;
  // True if no other user can create a socket in the folder.
  [[nodiscard]] bool trusts(const struct stat& folder) const noexcept;
  [[nodiscard]] bool any_user() const noexcept { return any_user_; }
  [[nodiscard]] mode_t folder_mode() const noexcept { return group_ ? 0750 : 0700; }
  // For a file that this process has just created. not_permitted: this process is no member of the
  // group.
  [[nodiscard]] result<void> give_folder(const std::string& path) const;
  [[nodiscard]] result<void> give_socket(const std::string& path) const;
  // Text for a refusal: the users that are served.
  [[nodiscard]] const char* text() const noexcept;

 private:
  [[nodiscard]] result<void> give(const std::string& path, mode_t mode) const;
  bool any_user_ = false;
  std::optional<gid_t> group_;
};

}  // namespace cordma::transport::shm
