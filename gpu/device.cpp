#include <cordma/gpu/device.hpp>

#include <utility>

namespace cordma::gpu {
namespace {

failure unsupported(const char* operation) {
  failure why(errc::not_supported,
              "this release of cordma moves no GPU memory; copy to host memory with the GPU's own "
              "runtime (cudaMemcpy) and register that");
  why.with_operation(operation);
  return why;
}

}  // namespace

result<std::vector<device_info>> devices() { return unsupported("gpu devices"); }

result<DeviceMemory> DeviceMemory::allocate(int, std::size_t) {
  return unsupported("gpu allocate");
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      ordinal_(other.ordinal_) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  address_ = std::exchange(other.address_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  ordinal_ = other.ordinal_;
  return *this;
}

// No memory is ever allocated in this release.
DeviceMemory::~DeviceMemory() = default;

result<dma_buffer> DeviceMemory::export_dma_buffer() const {
  return unsupported("gpu export_dma_buffer");
}

result<void> DeviceMemory::copy_from_host(std::size_t, std::span<const std::byte>) {
  return unsupported("gpu copy_from_host");
}

result<void> DeviceMemory::copy_to_host(std::size_t, std::span<std::byte>) const {
  return unsupported("gpu copy_to_host");
}

}  // namespace cordma::gpu
