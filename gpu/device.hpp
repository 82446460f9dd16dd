// GPUs and their memory, for transfers to and from the network. Every call of this release fails
// with not_supported and a reason: see README.md for the plan.
#pragma once

#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cordma::gpu {

// One GPU, as found when devices() was called. Data only; it keeps no resource open.
struct device_info {
  int ordinal = 0;  // the argument of the other calls; stable for the life of the process
  std::string name;
  std::string pci_address;         // "0000:3b:00.0"; identifies the nearest network device
  std::uint64_t memory_bytes = 0;  // total memory, not free memory
  int numa_node = -1;              // -1: the machine has one node, or does not report it
};

// Returns the GPUs that this process may use, in the order of their ordinals; empty if there is
// none. not_supported: this build cannot drive GPUs. Any thread.
[[nodiscard]] result<std::vector<device_info>> devices();

// Memory that a network device can read and write directly (Linux dma-buf).
struct dma_buffer {
  int fd = -1;               // the caller closes it
  std::uint64_t offset = 0;  // of the memory within the buffer, in bytes
  std::size_t bytes = 0;
};

// Owns memory on one GPU. Any thread, one at a time. The memory is freed on destruction: REQUIRES
// that no transfer is in flight and no registration of it is left.
class DeviceMemory {
 public:
  // not_supported: this build cannot drive GPUs. not_found: no device has this ordinal.
  // no_memory: the device has no `bytes` free. invalid_value: `bytes` is 0.
  [[nodiscard]] static result<DeviceMemory> allocate(int ordinal, std::size_t bytes);

  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  // An address of the device, for kernels and registrations; the host must not dereference it.
  [[nodiscard]] void* address() const noexcept { return address_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }

  // The memory as a network device can register it. not_supported: this build, this device or its
  // driver cannot export it; stage through host memory then.
  [[nodiscard]] result<dma_buffer> export_dma_buffer() const;

  // Staging: copies between host memory and this memory from `offset` on, and returns when the
  // bytes have arrived. On return the host memory belongs to the caller again, also after an error.
  // not_supported as above; invalid_value if the range exceeds this memory, before any byte moved.
  [[nodiscard]] result<void> copy_from_host(std::size_t offset, std::span<const std::byte> source);
  [[nodiscard]] result<void> copy_to_host(std::size_t offset,
                                          std::span<std::byte> destination) const;

 private:
  DeviceMemory(int ordinal, void* address, std::size_t bytes) noexcept
      : address_(address), bytes_(bytes), ordinal_(ordinal) {}

  void* address_;
  std::size_t bytes_;
  int ordinal_;
};

}  // namespace cordma::gpu
