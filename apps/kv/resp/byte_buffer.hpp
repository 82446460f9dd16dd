// byte_buffer: a queue of bytes, appended at the end and removed from the front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace kv {

// Large buffers grow by moving pages instead of bytes (realloc). Not thread-safe.
class byte_buffer {
 public:
  static constexpr std::size_t first_bytes = 512;

  byte_buffer() = default;
  byte_buffer(const byte_buffer&) = delete;
  byte_buffer& operator=(const byte_buffer&) = delete;
  ~byte_buffer() { std::free(data_); }

  [[nodiscard]] char* data() noexcept { return data_; }
  [[nodiscard]] const char* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::string_view view() const noexcept { return {data_, size_}; }

  // Returns space for `bytes` more bytes; added() then reports the written ones. Throws
  // std::bad_alloc.
  [[nodiscard]] char* room(std::size_t bytes) {
    if (capacity_ - size_ < bytes) grow(bytes);
    return data_ + size_;
  }
  void added(std::size_t bytes) noexcept { size_ += bytes; }
  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void drop_front(std::size_t bytes) noexcept {
    size_ -= bytes;
    if (bytes != 0 && size_ != 0) std::memmove(data_, data_ + bytes, size_);
  }
  void truncate(std::size_t bytes) noexcept { size_ = bytes; }
  // Empties the buffer and frees its memory if that exceeds `keep` bytes.
  void clear(std::size_t keep) noexcept {
    size_ = 0;
    if (capacity_ <= keep) return;
    std::free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  void grow(std::size_t bytes) {
    if (bytes > ~std::size_t{0} - size_) throw std::bad_alloc();
    const std::size_t wanted = std::max({size_ + bytes, capacity_ + capacity_ / 2, first_bytes});
    void* const moved = std::realloc(data_, wanted);
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<char*>(moved);
    capacity_ = wanted;
  }

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace kv
