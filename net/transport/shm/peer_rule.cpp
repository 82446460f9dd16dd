#include <grp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shm/peer_rule.hpp>
#include <vector>

namespace cordma::transport::shm {
namespace {

// Missing in <sys/socket.h> of an old C library.
#ifdef SO_PEERGROUPS
constexpr int peer_groups = SO_PEERGROUPS;
#else
constexpr int peer_groups = 59;
#endif

bool is_member(int socket, gid_t group) noexcept {
  ucred c{};
  socklen_t n = sizeof c;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n) == 0 && c.gid == group) return true;
  std::array<gid_t, 1024> first;
  n = sizeof first;
  if (::getsockopt(socket, SOL_SOCKET, peer_groups, first.data(), &n) == 0) {
    const auto* const end = first.data() + n / sizeof(gid_t);
    return std::find(static_cast<const gid_t*>(first.data()), end, group) != end;
  }
  return false;  // more groups than a user can have, or a kernel before 4.13
}

}  // namespace

result<peer_rule> peer_rule::of(const shm_options& options) {
  peer_rule rule;
  rule.any_user_ = options.any_user;
  const std::string& name = options.group;
  if (name.empty()) return rule;
  std::vector<char> room(std::size_t{1} << 16);
  group entry{};
  group* found = nullptr;
  const int failed = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found);
  if (found == nullptr) {
    return failure(errc::invalid_value, "shm.group is \"" + name +
                                            "\", which is no group of this machine: make it with "
                                            "groupadd, or name another one")
        .with_errno(failed);
  }
  rule.group_ = found->gr_gid;
  return rule;
}

bool peer_rule::admits(int socket, const peer_identity& who) const noexcept {
  return any_user_ || who.uid == ::geteuid() || (group_ && is_member(socket, *group_));
}

bool peer_rule::trusts(const struct stat& folder) const noexcept {
  if (any_user_) return true;
  const bool of_group = group_ && folder.st_gid == *group_;
  return (of_group || folder.st_uid == ::geteuid()) &&
         (folder.st_mode & (of_group ? 002U : 022U)) == 0;
}

result<void> peer_rule::give(const std::string& path, mode_t mode) const {
  if (group_ && ::chown(path.c_str(), static_cast<uid_t>(-1), *group_) != 0) {
    if (errno != EPERM) return failure::from_os(errno, "giving " + path + " to its group");
    return failure(errc::not_permitted,
                   "this process is no member of the group of shm.group: add its user to it")
        .with_errno(EPERM);
  }
  if (::chmod(path.c_str(), mode) != 0) return failure::from_os(errno, "opening " + path);
  return {};
}

result<void> peer_rule::give_folder(const std::string& path) const {
  return group_ ? give(path, folder_mode()) : result<void>();
}

result<void> peer_rule::give_socket(const std::string& path) const {
  return give(path, any_user_ ? 0666 : group_ ? 0660 : 0600);
}

const char* peer_rule::text() const noexcept {
  return group_ ? "it serves processes of its own user and members of its shm.group only"
                : "it serves processes of its own user only";
}

}  // namespace cordma::transport::shm
