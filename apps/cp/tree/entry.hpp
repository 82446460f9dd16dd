// The description of one entry of a tree, as sender and receiver exchange it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace copy {

// stream: a file of unknown length, which its sender reads from a pipe.
enum class entry_kind : std::uint8_t {
  directory = 1,
  file = 2,
  symlink = 3,
  hard_link = 4,
  stream = 5,
  special = 6,  // a FIFO, socket or device
};
inline constexpr auto last_entry_kind = entry_kind::special;

// True if entries of this kind have contents, which are sent.
[[nodiscard]] constexpr bool has_contents(entry_kind k) noexcept {
  return k == entry_kind::file || k == entry_kind::stream;
}

struct attribute {
  std::string name;   // "user.comment"
  std::string value;  // any bytes
  friend bool operator==(const attribute&, const attribute&) = default;
};

// Limits of one entry, because an entry is part of one frame. More attributes are not sent.
inline constexpr std::size_t most_attributes = 256;
inline constexpr std::size_t most_attribute_bytes = 448U << 10;  // names and values

// Time since 1970, with the resolution of the file system.
struct file_time {
  std::int64_t s = 0;
  std::uint32_t ns = 0;
  friend bool operator==(const file_time&, const file_time&) = default;
};

struct entry {
  entry_kind kind = entry_kind::file;
  std::uint32_t mode = 0;  // permission bits, with set-id and sticky: 07777
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;  // bytes; 0 unless it is a file; of a stream, set at its end
  std::uint64_t allocated =
      0;  // allocated bytes in the file system; less than size if there are holes
  file_time modified;
  // For special entries: S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK.
  std::uint32_t type = 0;
  // For a device its number. For a file an identity that distinguishes it from all other files, on
  // all machines, and is independent of its contents: with it a source that is also the target is
  // detected. 0: unknown.
  std::uint64_t device = 0;
  // Version of the sender's file. It changes when the file is written or replaced by another file,
  // independent of size and time. 0: unknown.
  std::uint32_t version = 0;
  // An earlier connection of the same transfer has transferred it: it is not sent again if it
  // exists.
  bool finished = false;
  // Relative to the target; '/' between the parts; any other bytes except 0. "." is the target
  // itself.
  std::string path;
  // For a symlink its text; for a hard link the path of its first name, an earlier entry.
  std::string target;
  std::vector<attribute> attributes;  // if they were requested
  // Number with which the scanner finds the entry again. It is not sent, and 0 at the receiver.
  std::uint32_t origin = 0;
};

// An entry that was not sent, not received or not kept unchanged, with the reason.
struct problem {
  enum class kind : std::uint8_t {
    left_out =
        1,       // of a kind that was not requested or not permitted, so it was not to be expected
    failed = 2,  // it, or a part of it, is not at the target
    vanished = 3,  // it existed when the tree was listed, and not when it was read
    limit = 4,     // --max-delete prevented its deletion
  };
  kind what = kind::failed;
  std::string path;
  std::string why;  // "Permission denied"
  // For left_out: its path in the tree. --delete keeps an existing entry there. Empty: none.
  std::string place{};
};

// The problems of a transfer. A peer may report any number; beyond the limit only their number is
// kept.
class problem_log {
 public:
  static constexpr std::size_t most_bytes = 64U << 20;  // of stored problems
  void add(problem p);
  // The stored problems.
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::uint64_t not_remembered() const noexcept { return more_; }
  // For all problems, stored or not.
  [[nodiscard]] bool has(problem::kind k) const noexcept {
    return has_[static_cast<std::size_t>(k)];
  }
  // Entries that were left out were not to be expected, and have not failed.
  [[nodiscard]] bool any_failed() const noexcept {
    return has(problem::kind::failed) || has(problem::kind::vanished);
  }

 private:
  std::vector<problem> all_;
  std::size_t bytes_ = 0;
  std::uint64_t more_ = 0;
  std::array<bool, 5> has_{};  // by kind
};

// True if a name from a peer stays inside its directory: it is relative, without "." and "..",
// without an empty part and without a byte 0; no part is longer than 255 bytes, the path not longer
// than 4095. "." alone is valid.
[[nodiscard]] bool stays_inside(const std::string& path) noexcept;

}  // namespace copy
