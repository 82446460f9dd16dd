// An RDMA device that exists only in this process: for counting the instructions of the program
// above libibverbs, and for tests that check which code touches memory. Defines functions of
// libibverbs and librdmacm ahead of the libraries'.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace stand_in {

// Treatment of the payload of connected queue pairs.
enum class payload : std::uint8_t {
  // Each request, and each receive, completes when it is posted. A receive completes with its full
  // capacity as the length.
  dropped,
  // Requests are carried out in their order, a message once it has its receive. A key of other
  // memory, and a message longer than its receive, abort the process.
  moved,
};

// For transport::verbs_options::pd. Lives as long as the process. Bound to one thread.
// - Datagrams arrive at their queue pair of this device, if it has a receive.
// - No completion channel ever fires: for polling.
[[nodiscard]] ibv_pd* make_device(payload of_connected = payload::dropped);

// The device accesses the memory at `seen` through `alias`: `seen` may be mapped without any access
// right. Inline data is copied by the CPU from `seen`, as a driver does it.
void add_alias(std::span<const std::byte> seen, std::byte* alias);
void remove_alias(std::span<const std::byte> seen) noexcept;

// True if the address is an instruction of the device: posting to it or polling it.
[[nodiscard]] bool is_device_code(std::uint64_t address) noexcept;

}  // namespace stand_in
