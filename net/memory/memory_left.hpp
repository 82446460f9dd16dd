// The amount of memory that this process may still allocate.
#pragma once

#include <cstdint>
#include <string>

namespace cordma::detail {

// Bytes that the machine can provide now, within the memory limits of this process's cgroup and of
// all its ancestors (v1 and v2). File caches and swap count, since the kernel reclaims them.
// UINT64_MAX if the kernel does not report it. Beyond this, fallocate() on a memfd does not fail:
// the kernel kills a process, most likely this one. `root` is put before each path: for tests.
[[nodiscard]] std::uint64_t memory_left(const std::string& root = {});

}  // namespace cordma::detail
