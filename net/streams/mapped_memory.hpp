// Memory that the two ends of a stream have mapped for each other.
#pragma once

#include <cordma/net/memory.hpp>
#include <cordma/runtime/check.hpp>

#include <new>
#include <string>
#include <vector>

namespace cordma::detail {

// Numbered from 0 at each end. Bound to one thread.
class mapped_memory {
 public:
  static constexpr std::size_t most = 16;  // regions of one end

  // Reserves space for the peer's regions. Throws std::bad_alloc.
  void prepare() { theirs_.reserve(most); }
  // False: the peer has mapped the maximum.
  [[nodiscard]] bool add_theirs(const RemoteMemory& memory) {
    if (theirs_.size() == most) return false;
    theirs_.push_back(memory);
    return true;
  }
  // not_found, invalid_value.
  [[nodiscard]] result<RemoteSlice> theirs(std::uint32_t number, std::uint64_t offset,
                                           std::uint64_t bytes) const {
    if (number < theirs_.size()) return theirs_[number].slice(offset, bytes);
    return failure{errc::not_found,
                   "the peer has mapped no memory of number " + std::to_string(number)};
  }

  // Returns its number. full, no_memory.
  [[nodiscard]] result<std::uint32_t> add_mine(const MemoryRegion& memory) {
    if (mine_.size() == most) {
      return failure{errc::full, std::to_string(most) + " regions are mapped already"};
    }
    try {
      mine_.push_back(memory);
    } catch (const std::bad_alloc&) {
      return errc::no_memory;
    }
    return static_cast<std::uint32_t>(mine_.size() - 1);
  }
  // True if the peer must be notified of a region; its number, its blob, and the record that it was
  // notified.
  [[nodiscard]] bool has_unsaid() const noexcept { return said_ < mine_.size(); }
  [[nodiscard]] std::uint32_t first_unsaid() const noexcept { return said_; }
  [[nodiscard]] result<std::vector<std::byte>> unsaid_blob() const {
    CORDMA_ASSERT(has_unsaid());
    return mine_[said_].export_blob();
  }
  void said() noexcept { ++said_; }

 private:
  std::vector<RemoteMemory> theirs_;
  std::vector<MemoryRegion> mine_;
  std::uint32_t said_ = 0;
};

}  // namespace cordma::detail
