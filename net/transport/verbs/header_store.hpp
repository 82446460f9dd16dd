// Registered memory for what the device puts ahead of each datagram received.
#pragma once

#include <cordma/net/transport/verbs/pair.hpp>

#include <sys/mman.h>

namespace cordma::transport::verbs {

struct verbs_pair::header_store {
  header_store(ibv_pd* pd, std::uint32_t count)
      : bytes(new std::byte[std::size_t{count} * grh_bytes]),
        region(register_bytes(pd, bytes.get(), std::size_t{count} * grh_bytes,
                              IBV_ACCESS_LOCAL_WRITE)) {}
  [[nodiscard]] ibv_sge segment(std::uint32_t place) const noexcept {
    return {reinterpret_cast<std::uintptr_t>(&bytes[std::size_t{place} * grh_bytes]), grh_bytes,
            region->lkey};
  }
  [[nodiscard]] std::span<const std::byte, grh_bytes> at(std::uint32_t place) const noexcept {
    return std::span<const std::byte, grh_bytes>(&bytes[std::size_t{place} * grh_bytes], grh_bytes);
  }
  std::unique_ptr<std::byte[]> bytes;
  owned<ibv_mr> region;  // null: no memory
};

}  // namespace cordma::transport::verbs
