// Lists the transports that a remote memory has keys for, in words.
#pragma once

#include <cordma/net/transport/remote_keys.hpp>
#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace cordma::detail {

// Number of keys of transports that this build does not have.
[[nodiscard]] std::size_t unknown_among(const transport::remote_keys& keys) noexcept;
// False if there is no key at all.
[[nodiscard]] bool all_unknown(const transport::remote_keys& keys) noexcept;

// "shm, tcp"; a transport that this build does not know is listed by its number. Allocates nothing.
class key_names {
 public:
  explicit key_names(const transport::remote_keys& keys) noexcept;
  [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), size_}; }

 private:
  void add(std::string_view more) noexcept;
  std::array<char, 48> text_{};
  std::size_t size_ = 0;
};

// The reason why memory with these keys cannot be used over `wanted`. not_supported: all of them
// are of transports that this build does not know; not_permitted: its owner did not export it
// there.
[[nodiscard]] failure no_key(const transport::remote_keys& keys, transport::kind wanted) noexcept;

}  // namespace cordma::detail
