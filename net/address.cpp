#include <cordma/net/address.hpp>

#include <charconv>
#include <string>

namespace cordma {

result<transport::address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  transport::address a;
  std::string_view host = text.substr(0, colon);
  const std::string_view port =
      colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  unsigned value = 0;
  const auto [end, status] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (port.empty() || status != std::errc{} || end != port.data() + port.size() || value > 65535) {
    return failure{errc::invalid_value, "address \"" + std::string(text) +
                                            "\" lacks a port from 0 to 65535: write host:port or "
                                            "[ipv6]:port"};
  }
  const bool in_brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.find_first_of(in_brackets ? "[]" : "[]:") != std::string_view::npos) {
    return failure{errc::invalid_value, "address \"" + std::string(text) +
                                            "\": IPv6 addresses go into brackets: write host:port "
                                            "or [ipv6]:port"};
  }
  a.host = host;
  a.port = static_cast<std::uint16_t>(value);
  return a;
}

}  // namespace cordma
