// Registered memory of either side for data in flight.
#pragma once

#include "../files/file_ring.hpp"
#include "../protocol/wire.hpp"

#include <cordma/cordma.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace copy {

// As many pieces of one chunk each as `options` allow. A few are allocated at the beginning, enough
// for small files. The rest is allocated for the first long file, because allocation takes time.
// The memory of long files is registered with io_uring.
class pools {
 public:
  // Divides the pieces evenly among `ways` lanes, with at least two for each.
  pools(const transfer_options& options, std::size_t ways, cordma::access rights) noexcept
      : chunk_bytes_(options.chunk_bytes), lanes_(ways), rights_(rights) {
    constexpr std::uint64_t few_bytes = 4U << 20;
    constexpr std::uint32_t least = 2;
    const auto pieces = [&](std::uint64_t bytes) {
      const std::uint64_t n = bytes / options.chunk_bytes / ways;
      return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(n, least, most_slots));
    };
    const std::uint32_t all = pieces(options.memory_bytes);
    pieces_[0] = std::min(all, pieces(few_bytes));
    pieces_[1] = all - pieces_[0];
  }

  static constexpr std::size_t few = 0;
  static constexpr std::size_t rest = 1;
  // Allocates a part of the pool; called once for each part, `few` first. Throws cordma::error
  // (no_memory).
  void make(std::size_t which, cordma::Context& context, file_ring& files) {
    const std::uint64_t bytes = std::uint64_t{pieces_[which]} * lanes_ * chunk_bytes_;
    if (bytes != 0) {
      memory_[which] = context.allocate(bytes, rights_).value();
    }
    if (which == rest) files.register_memory(memory_[bytes != 0 ? rest : few].bytes());
    ++made_;
  }
  [[nodiscard]] bool has_all() const noexcept { return made_ == memory_.size(); }
  // True if a file is longer than the `few` pieces together.
  [[nodiscard]] bool is_long(std::uint64_t file_bytes) const noexcept {
    return file_bytes > std::uint64_t{pieces_[few]} * lanes_ * chunk_bytes_;
  }

  // Number of pieces of each lane.
  [[nodiscard]] std::uint32_t pieces(std::size_t which) const noexcept { return pieces_[which]; }
  [[nodiscard]] const cordma::MemoryRegion& memory(std::size_t which) const noexcept {
    return memory_[which];
  }
  // Offset of a lane's pieces in the memory, in bytes.
  [[nodiscard]] std::uint64_t begin(std::size_t which, std::size_t lane) const noexcept {
    return std::uint64_t{lane} * pieces_[which] * chunk_bytes_;
  }
  // Returns a piece of a lane. Its number counts through both parts of the pool.
  [[nodiscard]] std::span<std::byte> piece(std::size_t lane, std::uint32_t number) noexcept {
    const std::size_t which = number < pieces_[few] ? few : rest;
    const std::uint32_t within = which == few ? number : number - pieces_[few];
    return memory_[which].bytes().subspan(begin(which, lane) + std::size_t{within} * chunk_bytes_,
                                          chunk_bytes_);
  }

 private:
  std::uint32_t chunk_bytes_;
  std::size_t lanes_;
  cordma::access rights_;
  std::array<std::uint32_t, 2> pieces_{};  // of each lane
  std::array<cordma::MemoryRegion, 2> memory_;
  std::size_t made_ = 0;
};

}  // namespace copy
