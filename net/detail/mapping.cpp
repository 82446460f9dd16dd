#include <cordma/net/detail/mapping.hpp>

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>

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

// False at the end of the list, which is in the order of addresses.
bool next_mapping(std::FILE* maps, mapping& m) {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  char rights[5];
  if (std::fscanf(maps, "%" SCNx64 "-%" SCNx64 " %4s%*[^\n]", &first, &end, rights) != 3)
    return false;
  m = {static_cast<std::uintptr_t>(first), static_cast<std::uintptr_t>(end), rights[0] == 'r',
       rights[1] == 'w'};
  return true;
}

failure refused(std::size_t offset, const char* why) {
  return {errc::not_permitted,
          "the memory cannot be registered: at offset " + std::to_string(offset) + " it " + why};
}

}  // namespace

result<void> check_mapping(std::span<const std::byte> memory, transport::access rights) {
  if (memory.empty()) return {};
  const std::unique_ptr<std::FILE, close_file> maps(std::fopen("/proc/thread-self/maps", "re"));
  if (maps == nullptr) return {};
  bool told = false;
  const auto start = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t end = start + memory.size();
  const bool written = has(rights, transport::access::local_write);
  std::uintptr_t good = start;  // up to here
  mapping m;
  while (good < end && next_mapping(maps.get(), m)) {
    told = true;
    if (m.end <= good) continue;
    if (m.first > good) break;
    if (!m.readable) return refused(good - start, "may not be read: see mmap() and mprotect()");
    if (written && !m.writable) {
      return refused(good - start,
                     "may not be written: register it with local_read and remote_read only");
    }
    good = m.end;
  }
  if (!told || std::ferror(maps.get()) != 0) return {};
  if (good < end) return refused(good - start, "is not mapped");
  return {};
}

}  // namespace cordma::detail
