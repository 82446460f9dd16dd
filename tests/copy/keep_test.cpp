// Metadata that is kept for an entry, and the messages if it cannot be kept.
#include "target_tree.hpp"

#include <support/applies.hpp>

#include <array>
#include <cstring>

#include <sys/xattr.h>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

using sentences = std::vector<std::string>;

entry entry_of(entry_kind kind, const std::string& path) {
  entry e;
  e.kind = kind;
  e.mode = 0640;
  e.uid = ::geteuid();
  e.gid = ::getegid();
  e.path = path;
  return e;
}

// Keeps the metadata of `e` on a part and publishes it.
sentences keep_file(target& to, const entry& e, const keep_options& what) {
  const auto part = to.open_part(e.path, O_WRONLY);
  REQUIRE(part.ok());
  sentences said = to.keep(part->get(), e, what);
  REQUIRE(to.publish(part->get(), e.path).ok());
  return said;
}

std::uint32_t mode_of(const fs::path& at) { return look(at).st_mode & 07777; }

std::string attribute_of(const fs::path& at, const char* name) {
  std::string value(1 << 16, '\0');
  const ssize_t length = ::lgetxattr(at.c_str(), name, value.data(), value.size());
  return length < 0 ? "none" : value.substr(0, static_cast<std::size_t>(length));
}

// An ACL in the kernel's format: little-endian, version 2; user 7 may read, write and execute.
std::string acl_with_user_7() {
  std::string acl("\2\0\0\0", 4);
  const auto add = [&](std::uint16_t tag, std::uint16_t rights, std::uint32_t id) {
    acl.append(reinterpret_cast<const char*>(&tag), 2);
    acl.append(reinterpret_cast<const char*>(&rights), 2);
    acl.append(reinterpret_cast<const char*>(&id), 4);
  };
  constexpr std::uint32_t nobody = 0xffffffff;
  add(0x01, 6, nobody);  // its owner
  add(0x02, 7, 7);
  add(0x04, 4, nobody);  // its group
  add(0x10, 7, nobody);  // the mask
  add(0x20, 0, nobody);  // others
  return acl;
}

constexpr const char* no_attributes = "the file system of temporary files has no such attributes";
bool has_attribute(const char* name, const std::string& value) {
  const temporary_directory here;
  return ::lsetxattr(here.path().c_str(), name, value.data(), value.size(), 0) == 0;
}

}  // namespace

TEST_CASE("a file's mode is the source's, or, unasked, what the umask leaves of it") {
  const place_to_write here;
  const mode_t before = ::umask(027);
  target to = here.open();
  ::umask(before);
  entry e = entry_of(entry_kind::file, "file");
  for (const std::uint32_t mode : {0777U, 0644U, 0400U, 0U, 01755U}) {
    e.mode = mode;
    CHECK(keep_file(to, e, {.mode = true}).empty());
    CHECK(mode_of(here.root / "file") == mode);
    CHECK(keep_file(to, e, {}).empty());
    CHECK(mode_of(here.root / "file") == (mode & 0777 & ~027U));
  }
}

namespace {

// acl_with_user_7() with these rights of the group, or of its mask, and of others.
std::string default_acl(bool with_mask, std::uint16_t group, std::uint16_t others) {
  std::string acl = acl_with_user_7();
  constexpr std::size_t entry_bytes = 8;
  const auto set = [&](std::size_t which, std::uint16_t rights) {
    std::memcpy(acl.data() + 4 + which * entry_bytes + 2, &rights, sizeof rights);
  };
  set(0, 7);
  set(4, others);
  set(with_mask ? 3 : 2, group);
  if (!with_mask) acl.erase(4 + 3 * entry_bytes, entry_bytes).erase(4 + entry_bytes, entry_bytes);
  return acl;
}

}  // namespace

TEST_CASE("unasked, a file's mode is what the default ACL of its directory leaves of it" *
          applies(has_attribute("system.posix_acl_default", default_acl(true, 7, 7)),
                  no_attributes)) {
  const place_to_write here;
  fs::create_directory(here.root / "d");
  const mode_t before = ::umask(0777);  // has no effect here
  target to = here.open();
  for (const bool with_mask : {false, true}) {
    for (const std::uint16_t group : {std::uint16_t{0}, std::uint16_t{4}, std::uint16_t{7}}) {
      const std::string acl = default_acl(with_mask, group, 4);
      REQUIRE(::setxattr((here.root / "d").c_str(), "system.posix_acl_default", acl.data(),
                         acl.size(), 0) == 0);
      for (const mode_t mode : {0777U, 0644U, 0400U, 0U}) {
        CAPTURE(with_mask);
        CAPTURE(group);
        CAPTURE(mode);
        const fs::path plain = here.root / "d/plain";
        const cordma::unique_fd made(::open(plain.c_str(), O_CREAT | O_EXCL | O_WRONLY, mode));
        REQUIRE(made);
        entry e = entry_of(entry_kind::file, "d/file");
        e.mode = mode;
        CHECK(keep_file(to, e, {}).empty());
        CHECK(mode_of(here.root / "d/file") == mode_of(plain));
        constexpr const char* access = "system.posix_acl_access";
        CHECK(attribute_of(here.root / "d/file", access) == attribute_of(plain, access));
        fs::remove(plain);
        fs::remove(here.root / "d/file");
      }
    }
  }
  ::umask(before);
}

TEST_CASE("whose it is by -a is kept as far as one may, and else no problem" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  give_to_other_user(here.root);
  entry e = entry_of(entry_kind::file, "file");
  as_other_user([&] {
    target to = here.open();
    CHECK(keep_file(to, e, {.owner = true, .group = true}).size() == 2);
    constexpr keep_options if_may{
        .owner = true, .group = true, .owner_if_may = true, .group_if_may = true};
    CHECK(keep_file(to, e, if_may).empty());
  });
  CHECK(look(here.root / "file").st_uid == other_user);
  e.uid = other_user + 1;
  e.gid = other_group + 1;
  target to = here.open();
  CHECK(keep_file(to, e, {.owner = true, .group = true, .owner_if_may = true, .group_if_may = true})
            .empty());
  CHECK(look(here.root / "file").st_uid == other_user + 1);
  CHECK(look(here.root / "file").st_gid == other_group + 1);
}

TEST_CASE("times are kept to the nanosecond, of files, directories and symlinks") {
  const place_to_write here;
  target to = here.open();
  REQUIRE(to.make_directory("directory").ok());
  REQUIRE(to.make_symlink("symlink", "nowhere").ok());
  for (const file_time t : {file_time{1'000'000'001, 123'456'789}, file_time{0, 0}, file_time{0, 1},
                            file_time{4'000'000'000, 999'999'999}, file_time{-5, 7}}) {
    for (const auto& [kind, path] :
         {std::pair(entry_kind::file, "file"), std::pair(entry_kind::directory, "directory"),
          std::pair(entry_kind::symlink, "symlink"), std::pair(entry_kind::directory, ".")}) {
      CAPTURE(path);
      entry e = entry_of(kind, path);
      e.modified = t;
      constexpr keep_options times{.times = true};
      CHECK(
          (kind == entry_kind::file ? keep_file(to, e, times) : to.keep(e.path, e, times)).empty());
      const struct stat s = look(here.root / path);
      CHECK(s.st_mtim.tv_sec == t.s);
      CHECK(s.st_mtim.tv_nsec == static_cast<long>(t.ns));
    }
  }
  // Values that are no number of nanoseconds: the kernel takes them for "now" and "unchanged".
  entry e = entry_of(entry_kind::file, "file");
  for (const std::uint32_t ns : {1'000'000'000U, (1U << 30) - 1, (1U << 30) - 2, ~0U}) {
    e.modified.ns = ns;
    CHECK(keep_file(to, e, {.times = true}) == sentences{"times: Invalid argument"});
  }
}

TEST_CASE("owner and group are kept by root, set-id bits behind them" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  target to = here.open();
  entry e = entry_of(entry_kind::file, "file");
  e.uid = other_user;
  e.gid = other_group;
  e.mode = 06755;
  CHECK(keep_file(to, e, {.mode = true, .owner = true, .group = true}).empty());
  CHECK(mode_of(here.root / "file") == 06755);
  CHECK(look(here.root / "file").st_uid == other_user);
  CHECK(look(here.root / "file").st_gid == other_group);
  // A file of root must not become one that runs with root's rights.
  CHECK(keep_file(to, e, {.mode = true}) ==
        sentences{"mode: without set-user-id, as the owner is another",
                  "mode: without set-group-id, as the group is another"});
  CHECK(mode_of(here.root / "file") == 0755);
  CHECK(keep_file(to, e, {.mode = true, .group = true}).size() == 1);
  CHECK(mode_of(here.root / "file") == 02755);

  REQUIRE(to.make_directory("directory").ok());
  e.kind = entry_kind::directory;
  e.mode = 02770;
  CHECK(to.keep("directory", e, {.mode = true, .group = true}).empty());
  CHECK(mode_of(here.root / "directory") == 02770);
  REQUIRE(to.make_symlink("symlink", "file").ok());
  e.kind = entry_kind::symlink;
  e.mode = 0777;
  CHECK(to.keep("symlink", e, {.mode = true, .times = true, .owner = true, .group = true}).empty());
  CHECK(look(here.root / "symlink").st_uid == other_user);
  CHECK(look(here.root / "file").st_uid == ::geteuid());

  // The numbers that mean "unchanged" to the kernel.
  e = entry_of(entry_kind::file, "file");
  e.uid = ~0U;
  e.gid = ~0U;
  CHECK(keep_file(to, e, {.owner = true, .group = true}) ==
        sentences{"group: Invalid argument", "owner: Invalid argument"});
}

TEST_CASE("who is not root keeps what it may, and says what it may not" *
          applies(is_root(), not_root)) {
  const place_to_write here;
  give_to_other_user(here.root);
  as_other_user([&] {
    target to = here.open();
    entry e = entry_of(entry_kind::file, "file");
    e.uid = 0;
    e.gid = 0;
    e.mode = 06755;
    e.modified = {5, 6};
    CHECK(keep_file(to, e, {.mode = true, .times = true, .owner = true, .group = true}) ==
          sentences{"group: Operation not permitted", "owner: Operation not permitted",
                    "mode: without set-user-id, as the owner is another",
                    "mode: without set-group-id, as the group is another"});
    CHECK(mode_of(here.root / "file") == 0755);
    CHECK(look(here.root / "file").st_mtim.tv_nsec == 6);
    // A directory that its owner may not read.
    REQUIRE(to.make_directory("directory").ok());
    REQUIRE(::chmod((here.root / "directory").c_str(), 0300) == 0);
    e = entry_of(entry_kind::directory, "directory");
    e.modified = {7, 8};
    for (const std::uint32_t mode : {0U, 0100U, 0500U}) {
      e.mode = mode;
      CHECK(to.keep("directory", e, {.mode = true, .times = true}).empty());
      CHECK(mode_of(here.root / "directory") == mode);
      CHECK(look(here.root / "directory").st_mtim.tv_nsec == 8);
    }
  });
}

TEST_CASE("attributes become those of the entry, those of a read-only file as well" *
          applies(has_attribute("user.a", "a"), no_attributes)) {
  const place_to_write here;
  const auto check = [&] {
    target to = here.open();
    REQUIRE(to.make_directory("directory").ok());
    entry e = entry_of(entry_kind::directory, "directory");
    constexpr keep_options what{.mode = true, .attributes = true};
    const fs::path at = here.root / "directory";
    const auto keep_and_check = [&] {
      CHECK(to.keep("directory", e, what).empty());
      for (const attribute& a : e.attributes) {
        const std::string value = attribute_of(at, a.name.c_str());
        CHECK(value == a.value);
      }
      CHECK(mode_of(at) == e.mode);
    };
    e.mode = 0500;
    e.attributes = {{"user.a", "one"}, {"user.bytes", std::string("\0\xff\n", 3)}, {"user.e", ""}};
    keep_and_check();
    e.attributes = {{"user.a", "on"}, {"user.large", std::string(2000, 'l')}};
    keep_and_check();
    CHECK(attribute_of(at, "user.bytes") == "none");
    e.attributes.clear();
    CHECK(to.keep("directory", e, {.mode = true}).empty());
    CHECK(attribute_of(at, "user.a") == "on");
    keep_and_check();
    CHECK(attribute_of(at, "user.a") == "none");
    e.attributes = {{"user.a", "one"}, {"nonsense", "x"}, {"user.b", "two"}};
    const sentences said = to.keep("directory", e, what);
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with("attribute nonsense: "));
    CHECK(attribute_of(at, "user.b") == "two");
    CHECK(mode_of(at) == 0500);
  };
  check();
  if (!is_root()) return;
  fs::remove(here.root / "directory");
  give_to_other_user(here.root);
  as_other_user(check);
}

TEST_CASE("an ACL is kept, and one that was inherited goes" *
          applies(has_attribute("system.posix_acl_access", acl_with_user_7()), no_attributes)) {
  const place_to_write here;
  const std::string acl = acl_with_user_7();
  target to = here.open();
  entry e = entry_of(entry_kind::file, "file");
  e.mode = 0670;
  e.attributes = {{"system.posix_acl_access", acl}};
  constexpr keep_options what{.mode = true, .attributes = true};
  CHECK(keep_file(to, e, what).empty());
  const bool same = attribute_of(here.root / "file", "system.posix_acl_access") == acl;
  CHECK(same);
  CHECK(mode_of(here.root / "file") == 0670);

  REQUIRE(::setxattr(here.root.c_str(), "system.posix_acl_default", acl.data(), acl.size(), 0) ==
          0);
  e.attributes.clear();
  e.mode = 0640;
  CHECK(keep_file(to, e, what).empty());
  CHECK(attribute_of(here.root / "file", "system.posix_acl_access") == "none");
  CHECK(mode_of(here.root / "file") == 0640);
}

TEST_CASE("attributes of a symlink are its own" *
          applies(has_attribute("trusted.cordma", "x"), no_attributes)) {
  const place_to_write here;
  write(here.root / "file", "");
  target to = here.open();
  REQUIRE(to.make_symlink("symlink", "file").ok());
  entry e = entry_of(entry_kind::symlink, "symlink");
  e.attributes = {{"trusted.cordma", "of the symlink"}};
  CHECK(to.keep("symlink", e, {.mode = true, .attributes = true}).empty());
  CHECK(attribute_of(here.root / "symlink", "trusted.cordma") == "of the symlink");
  CHECK(attribute_of(here.root / "file", "trusted.cordma") == "none");
  e.attributes = {{"user.a", "x"}};
  CHECK(to.keep("symlink", e, {.attributes = true}) ==
        sentences{"attribute user.a: Operation not permitted"});
}

TEST_CASE("of what was exchanged meanwhile nothing is changed") {
  const place_to_write here;
  target to = here.open();
  write(here.root / "file", "");
  REQUIRE(to.make_directory("directory").ok());
  REQUIRE(::mkfifo((here.root / "fifo").c_str(), 0600) == 0);
  constexpr keep_options what{.mode = true, .times = true};
  const std::uint32_t mode = mode_of(here.root / "file");
  for (const auto& [kind, path] :
       {std::pair(entry_kind::directory, "file"), std::pair(entry_kind::symlink, "file"),
        std::pair(entry_kind::file, "directory"), std::pair(entry_kind::file, "fifo")}) {
    CHECK(to.keep(path, entry_of(kind, path), what) ==
          sentences{"something else was put in its place"});
  }
  CHECK(to.keep("no", entry_of(entry_kind::directory, "no"), what) ==
        sentences{"No such file or directory"});
  CHECK(to.keep("file", entry_of(entry_kind::hard_link, "file"), what).empty());
  CHECK(mode_of(here.root / "file") == mode);
  CHECK(to.keep("file", entry_of(entry_kind::file, "file"), what).empty());
  CHECK(mode_of(here.root / "file") == 0640);
}
