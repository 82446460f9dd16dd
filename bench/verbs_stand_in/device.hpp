// An RDMA device that exists in this process alone: for counting the instructions of the program above
// libibverbs, and for tests that watch who touches memory. Defines functions of libibverbs and librdmacm
// ahead of the libraries'.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace stand_in {

// What becomes of the payload of connected queue pairs.
enum class payload : std::uint8_t {
  // Each request, and each receive, is complete with its post. A receive is told to have got all it has
  // room for.
  dropped,
  // Requests are carried out in their order, a message once it has its receive. A key that names other
  // memory, and a message longer than its receive, abort the process.
  moved,
};

// For transport::verbs_options::pd. Lives as long as the process. Bound to one thread.
//  * Datagrams arrive at the queue pair of this device that they are for, where it has a receive.
//  * No completion channel ever fires: for polling.
[[nodiscard]] ibv_pd* make_device(payload of_connected = payload::dropped);

// The device reaches the memory at `seen` by way of `alias`: `seen` may be mapped without any right. What
// goes inline is copied by the CPU, as a driver does it, and from `seen`.
void add_alias(std::span<const std::byte> seen, std::byte* alias);
void remove_alias(std::span<const std::byte> seen) noexcept;

// Whether these are instructions of the device: posting to it and polling it.
[[nodiscard]] bool is_device_code(std::uint64_t address) noexcept;

}  // namespace stand_in
