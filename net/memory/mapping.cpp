#include <cordma/net/memory/mapping.hpp>

#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include <sys/ioctl.h>

namespace cordma::detail {
namespace {

struct close_file {
  void operator()(std::FILE* f) const noexcept { std::fclose(f); }
};

struct mapping {
  std::uintptr_t first = 0;
  std::uintptr_t end = 0;
  bool readable = false;
  bool writable = false;
};

// PROCMAP_QUERY of <linux/fs.h>, since Linux 6.11.
struct mapping_query {
  std::uint64_t size = sizeof(mapping_query);
  std::uint64_t query_flags = covering_or_next;
  std::uint64_t query_addr = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint64_t flags = 0;
  std::uint64_t page_size = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_size = 0;  // 0: names are not requested
  std::uint32_t build_id_size = 0;
  std::uint64_t name_addr = 0;
  std::uint64_t build_id_addr = 0;

  static constexpr std::uint64_t readable = 0x01;
  static constexpr std::uint64_t writable = 0x02;
  static constexpr std::uint64_t covering_or_next = 0x10;
};
static_assert(sizeof(mapping_query) == 104);
static_assert(offsetof(mapping_query, query_addr) == 16 && offsetof(mapping_query, flags) == 40);
static_assert(offsetof(mapping_query, name_size) == 80 &&
              offsetof(mapping_query, build_id_addr) == 96);
constexpr unsigned long query_one = _IOWR('f', 17, mapping_query);

enum class answer : std::uint8_t { found, none, unknown };

// The mapping that contains `address`, or the next one: its cost does not depend on the number of
// mappings.
answer find_mapping(int maps, std::uintptr_t address, mapping& m) noexcept {
  mapping_query q;
  q.query_addr = address;
  if (::ioctl(maps, query_one, &q) != 0) return errno == ENOENT ? answer::none : answer::unknown;
  m = {static_cast<std::uintptr_t>(q.first), static_cast<std::uintptr_t>(q.end),
       (q.flags & mapping_query::readable) != 0, (q.flags & mapping_query::writable) != 0};
  return answer::found;
}

// The next line of all mappings, which are in the order of addresses.
answer next_mapping(std::FILE* maps, mapping& m) {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  char rights[5];
  if (std::fscanf(maps, "%" SCNx64 "-%" SCNx64 " %4s%*[^\n]", &first, &end, rights) != 3) {
    return answer::none;
  }
  m = {static_cast<std::uintptr_t>(first), static_cast<std::uintptr_t>(end), rights[0] == 'r',
       rights[1] == 'w'};
  return answer::found;
}

failure refused(std::size_t offset, const char* why) {
  return {errc::not_permitted,
          "the memory cannot be registered: at offset " + std::to_string(offset) + " it " + why};
}

// The part of a range that has not been checked yet.
class remainder {
 public:
  remainder(std::span<const std::byte> memory, bool written) noexcept
      : start_(reinterpret_cast<std::uintptr_t>(memory.data())),
        end_(start_ + memory.size()),
        written_(written),
        first_(start_) {}
  // Its first address: everything before is usable.
  [[nodiscard]] std::uintptr_t first() const noexcept { return first_; }
  [[nodiscard]] bool done() const noexcept { return first_ >= end_; }
  [[nodiscard]] failure not_mapped() const { return refused(first_ - start_, "is not mapped"); }
  // `m` is the first mapping that ends behind first().
  [[nodiscard]] result<void> look_at(const mapping& m) {
    CORDMA_ASSERT_OP(m.end, >, first_);
    if (m.first > first_) return not_mapped();
    if (!m.readable)
      return refused(first_ - start_,
                     "may not be read: see mmap() and mprotect(), and memory_kind::device for "
                     "memory of a device");
    if (written_ && !m.writable) {
      return refused(first_ - start_,
                     "may not be written: register it with local_read and remote_read only");
    }
    first_ = m.end;
    return {};
  }

 private:
  std::uintptr_t start_;  // of the range
  std::uintptr_t end_;
  bool written_;
  std::uintptr_t first_;
};

// Without PROCMAP_QUERY: reads all mappings.
result<void> look_at_all(std::FILE* maps, remainder r) {
  bool any = false;
  mapping m;
  while (!r.done() && next_mapping(maps, m) == answer::found) {
    any = true;
    if (m.end <= r.first()) continue;
    const result<void> usable = r.look_at(m);
    if (!usable) return usable;
  }
  if (r.done() || !any || std::ferror(maps) != 0) return {};
  return r.not_mapped();
}

}  // namespace

result<void> check_mapping(std::span<const std::byte> memory, transport::access rights) {
  if (memory.empty()) return {};
  const std::unique_ptr<std::FILE, close_file> maps(std::fopen("/proc/thread-self/maps", "re"));
  if (maps == nullptr) return {};
  remainder r(memory, has(rights, transport::access::local_write));
  while (!r.done()) {
    mapping m;
    switch (find_mapping(::fileno(maps.get()), r.first(), m)) {
      case answer::found: break;
      case answer::none: return r.not_mapped();
      case answer::unknown: return look_at_all(maps.get(), r);
    }
    const result<void> usable = r.look_at(m);
    if (!usable) return usable;
  }
  return {};
}

}  // namespace cordma::detail
