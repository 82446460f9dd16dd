// An RDMA device that exists in this process alone and answers at once: what is counted on it is the
// program above libibverbs, and nothing of a driver, a kernel or a wire.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace stand_in {

// For transport::verbs_options::pd. Never freed. Bound to one thread.
//  * Connected queue pairs: each request, and each receive, is complete with its post; no payload
//    moves. A receive is told to have got all it has room for.
//  * Datagrams arrive at the queue pair of this device that they are for, where it has a receive.
//  * No completion channel ever fires: for polling.
[[nodiscard]] ibv_pd* make_device();

// Whether these are instructions of the device: posting to it and polling it.
[[nodiscard]] bool is_device_code(std::uint64_t address) noexcept;

}  // namespace stand_in
