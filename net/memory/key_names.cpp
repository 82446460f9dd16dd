#include <cordma/net/memory/key_names.hpp>

#include <algorithm>
#include <charconv>

namespace cordma::detail {

std::size_t unknown_among(const transport::remote_keys& keys) noexcept {
  std::size_t n = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) n += transport::is_known(keys.kind_at(i)) ? 0U : 1U;
  return n;
}

bool all_unknown(const transport::remote_keys& keys) noexcept {
  return keys.size() != 0 && unknown_among(keys) == keys.size();
}

key_names::key_names(const transport::remote_keys& keys) noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const transport::kind of = keys.kind_at(i);
    if (i != 0) add(", ");
    if (transport::is_known(of)) {
      add(transport::name(of));
      continue;
    }
    std::array<char, 4> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), static_cast<unsigned>(of)).ptr;
    add({digits.begin(), end});
  }
}

void key_names::add(std::string_view more) noexcept {
  const std::size_t n = std::min(more.size(), text_.size() - size_);
  std::copy_n(more.begin(), n, text_.begin() + size_);
  size_ += n;
}

failure no_key(const transport::remote_keys& keys, transport::kind wanted) noexcept {
  const key_names names(keys);
  if (all_unknown(keys)) {
    return failure::of(errc::not_supported,
                       {"the remote memory has keys only for transports that this build does not "
                        "know (",
                        names.text(), "), none for ", transport::name(wanted),
                        ": run the same release on both sides"});
  }
  if (keys.size() == 0) {
    return failure::of(errc::not_permitted, {"the remote memory was not exported for the ",
                                             transport::name(wanted), " transport"});
  }
  return failure::of(errc::not_permitted,
                     {"the remote memory was not exported for the ", transport::name(wanted),
                      " transport, only for ", names.text()});
}

}  // namespace cordma::detail
