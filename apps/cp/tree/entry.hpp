// What sender and receiver say of one thing in a tree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace copy {

// stream: a file whose length shows at its end; its sender has it from a pipe.
enum class entry_kind : std::uint8_t {
  directory = 1,
  file = 2,
  symlink = 3,
  hard_link = 4,
  stream = 5,
  special = 6,  // a FIFO, socket or device
};
inline constexpr auto last_entry_kind = entry_kind::special;

// Whether what it stands for has bytes that are sent.
[[nodiscard]] constexpr bool has_contents(entry_kind k) noexcept {
  return k == entry_kind::file || k == entry_kind::stream;
}

struct attribute {
  std::string name;   // "user.comment"
  std::string value;  // any bytes
  friend bool operator==(const attribute&, const attribute&) = default;
};

// Of one entry: what is more is not sent, since an entry is part of one frame.
inline constexpr std::size_t most_attributes = 256;
inline constexpr std::size_t most_attribute_bytes = 448U << 10;  // names and values

// Since 1970, as the file system keeps it.
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
  std::uint64_t size = 0;  // bytes; 0 unless it is a file; of a stream, once it has ended
  std::uint64_t allocated =
      0;  // bytes that the file system keeps of it; less than size: there are holes
  file_time modified;
  // Of what is special: S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK.
  std::uint32_t type = 0;
  // Of a device its number. Of a file what tells which it is from all others, of other machines too, whatever is written
  // to it: so that one in place of which it is to come is seen to be it. 0: not known.
  std::uint64_t device = 0;
  // Of what its sender has there at the moment: another where it was written to, or is another file, whatever its size and
  // time. 0: not known.
  std::uint32_t version = 0;
  // An earlier connection of the same transfer has brought it: it need not come again if it is there.
  bool finished = false;
  // Relative to the target, '/' between the parts, any other bytes but 0; "." is the target itself.
  std::string path;
  // Of a symlink its text; of a hard link the path of what it is another name of, which comes before.
  std::string target;
  std::vector<attribute> attributes;  // where they were asked for
  // Of the scanner that found it, to find it again; not sent, and 0 with who receives it.
  std::uint32_t origin = 0;
};

// What is not sent, not received, or not kept as it was, and why.
struct problem {
  enum class kind : std::uint8_t {
    left_out =
        1,  // of a kind that was not asked for, or that there is no right to: nothing was to be expected
    failed = 2,    // it, or something of it, is not at the target
    vanished = 3,  // it was there when the tree was listed, and not when it was read
    limit = 4,     // it would have been deleted, but for --max-delete
  };
  kind what = kind::failed;
  std::string path;
  std::string why;  // "Permission denied"
  // Of what is left out: where it would be in the tree. What is there stays, whatever --delete says; empty: nothing does.
  std::string place{};
};

// What went wrong in a transfer. A peer may say what it likes: of what is beyond the bound only the number is kept.
class problem_log {
 public:
  static constexpr std::size_t most_bytes = 64U << 20;  // of what is remembered
  void add(problem p);
  // Of what is remembered.
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::uint64_t not_remembered() const noexcept { return more_; }
  // Of all.
  [[nodiscard]] bool has(problem::kind k) const noexcept {
    return has_[static_cast<std::size_t>(k)];
  }
  // Of what is left out nothing was to be expected: that has not failed.
  [[nodiscard]] bool any_failed() const noexcept {
    return has(problem::kind::failed) || has(problem::kind::vanished);
  }

 private:
  std::vector<problem> all_;
  std::size_t bytes_ = 0;
  std::uint64_t more_ = 0;
  std::array<bool, 5> has_{};  // by kind
};

// Whether a name from a peer stays where it is put: relative, without "." and "..", without an empty part and
// without a byte 0; no part is longer than 255 bytes, the whole not longer than 4095. "." alone is fine.
[[nodiscard]] bool stays_inside(const std::string& path) noexcept;

}  // namespace copy
