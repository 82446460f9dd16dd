#include "place.hpp"

#include "../tree/entry.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace copy {
namespace {

constexpr std::string_view scheme = "cordma://";
constexpr const char* as_scp = "HOST:MODULE/PATH";
constexpr const char* as_address = "cordma://HOST[:PORT]/MODULE/PATH";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument("\"" + std::string(text) + "\" " + why);
}

bool names_a_directory(std::string_view path) {
  const std::string_view last = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  return last.empty() || last == "." || last == "..";
}

place parse_here(std::string_view text) {
  place p;
  p.path = text;
  p.ends_with_slash = names_a_directory(text);
  return p;
}

// Removes the host, which ends before ':' or, in an address, '/', from the front of `rest`. Returns
// it without brackets.
std::string take_host(std::string_view text, std::string_view& rest, std::string_view ends) {
  std::string_view host;
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) refuse(text, "has a '[' that no ']' ends: write [::1]");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && ends.find(rest.front()) == std::string_view::npos) {
      refuse(text, "goes on behind the ']' of its host: write " +
                       std::string(ends.size() == 1 ? as_scp : as_address));
    }
  } else {
    host = rest.substr(0, rest.find_first_of(ends));
    rest.remove_prefix(host.size());
  }
  if (host.find('@') != std::string_view::npos) {
    refuse(text,
           "names a user, and there is none: what is reached is a cordma-cpd at the host, not ssh. "
           "Leave out what ends with '@', and start cordma-cpd there");
  }
  if (host.empty() && text.starts_with(scheme)) {
    refuse(text, std::string("names no host: write ") + as_address + ", IPv6 as [::1]");
  }
  if (host.empty()) {
    refuse(text, "has no host before its ':'; a file of this name is ./" + std::string(text));
  }
  return std::string(host);
}

std::uint16_t take_port(std::string_view text, std::string_view& rest) {
  const std::string_view digits = rest.substr(0, rest.find('/'));
  rest.remove_prefix(digits.size());
  std::uint16_t port = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (status != std::errc{} || end != digits.data() + digits.size() || port == 0) {
    refuse(text, "has \"" + std::string(digits) +
                     "\" for a port: a number from 1 to 65535; IPv6 addresses go into brackets");
  }
  return port;
}

// Returns `path` without empty parts and ".".
std::string tidied(std::string_view text, std::string_view path) {
  std::string tidy;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(part.size() + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") refuse(text, "leads out of its module by \"..\": name what is below it");
    if (!tidy.empty()) tidy += '/';
    tidy += part;
  }
  if (!tidy.empty() && !stays_inside(tidy)) {
    refuse(text, "has a name longer than 255 bytes, or is longer than 4095");
  }
  return tidy;
}

// `rest` begins behind the separator after the host.
void parse_below(std::string_view text, std::string_view rest, place& p) {
  const std::string how = text.starts_with(scheme) ? as_address : as_scp;
  p.module = rest.substr(0, rest.find('/'));
  if (p.module.empty()) {
    refuse(text, "names no module of the daemon: write " + how + ", without a '/' before MODULE");
  }
  if (p.module == "." || p.module == "..") {
    refuse(text, "names no module of the daemon, \"" + p.module + "\" is none: write " + how);
  }
  if (p.module.find(':') != std::string::npos) {
    refuse(text, std::string("has more than one ':'; with an IPv6 address write ") +
                     "[::1]:MODULE/PATH, with a port " + as_address);
  }
  const std::string_view path = rest.substr(p.module.size());
  p.path = tidied(text, path);
  p.ends_with_slash = p.path.empty() || names_a_directory(path);
}

}  // namespace

place parse_place(std::string_view text, std::uint16_t port) {
  if (text.empty()) {
    throw std::invalid_argument(std::string("\"\" names no place: write PATH or ") + as_scp);
  }
  place p;
  p.port = port;
  std::string_view rest = text;
  if (text.starts_with("rsync://")) {
    refuse(text,
           std::string("is a place of an rsync daemon, which cordma-cp cannot speak to: start "
                       "cordma-cpd there and write ") +
               as_address);
  }
  if (text.starts_with(scheme)) {
    rest.remove_prefix(scheme.size());
    p.host = take_host(text, rest, ":/");
    if (rest.starts_with(':')) {
      rest.remove_prefix(1);
      p.port = take_port(text, rest);
    }
    if (rest.starts_with('/')) rest.remove_prefix(1);
  } else {
    if (text.substr(0, text.find('/')).find(':') == std::string_view::npos) return parse_here(text);
    p.host = take_host(text, rest, ":");
    if (rest.starts_with(':')) rest.remove_prefix(1);
    if (rest.starts_with(':')) rest.remove_prefix(1);
  }
  parse_below(text, rest, p);
  return p;
}

std::string place::text() const {
  if (here()) return path;
  const bool in_brackets = host.find(':') != std::string::npos;
  std::string all = port != default_port ? std::string(scheme) + address() + '/'
                    : in_brackets        ? '[' + host + "]:"
                                         : host + ':';
  all += module;
  if (!path.empty()) all += '/' + path;
  if (!path.empty() && ends_with_slash) all += '/';
  return all;
}

std::string place::address() const {
  const bool in_brackets = host.find(':') != std::string::npos;
  return (in_brackets ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

}  // namespace copy
