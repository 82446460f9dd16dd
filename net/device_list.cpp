#include <cordma/net/device_list.hpp>

#include <cordma/runtime/text_file.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

namespace cordma {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  const std::string text = read_text(file.string());
  return text.substr(0, text.find('\n'));
}

// Returns the entries of a folder that are named by a number.
std::vector<unsigned> numbers_in(const fs::path& folder) {
  std::vector<unsigned> found;
  std::error_code none;
  for (const fs::directory_entry& e : fs::directory_iterator(folder, none)) {
    const std::string name = e.path().filename().string();
    unsigned value = 0;
    const char* const last = name.data() + name.size();
    const auto [end, status] = std::from_chars(name.data(), last, value);
    if (status == std::errc{} && end == last) found.push_back(value);
  }
  std::ranges::sort(found);
  return found;
}

// Returns "0000:3b:00.0" for "3B:00.0"; empty if it is no PCI address.
std::string normal_bdf(std::string_view text) {
  std::string full(text);
  if (std::ranges::count(full, ':') == 1) full = "0000:" + full;
  constexpr std::string_view shape = "hhhh:hh:hh.o";
  if (full.size() != shape.size()) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::string_view allowed = shape[i] == 'h'   ? "0123456789abcdef"
                                     : shape[i] == 'o' ? "01234567"
                                                       : shape.substr(i, 1);
    if (full[i] >= 'A' && full[i] <= 'F') full[i] = static_cast<char>(full[i] - 'A' + 'a');
    if (allowed.find(full[i]) == std::string_view::npos) return {};
  }
  return full;
}

std::vector<device_gid> gids_of(const fs::path& port) {
  std::vector<device_gid> all;
  for (const unsigned index : numbers_in(port / "gids")) {
    const std::string number = std::to_string(index);
    const result<gid> value = parse_gid(first_line(port / "gids" / number));
    if (!value || *value == gid{}) continue;  // an empty entry
    all.push_back({.index = index,
                   .value = *value,
                   .type = first_line(port / "gid_attrs" / "types" / number),
                   .netdev = first_line(port / "gid_attrs" / "ndevs" / number)});
  }
  return all;
}

bool is_named(const device_port& p, std::string_view name) {
  return name == p.device || name == p.setting();
}

}  // namespace

result<gid> parse_gid(std::string_view text) {
  const std::string written(text);
  gid value{};
  in_addr v4{};
  if (::inet_pton(AF_INET, written.c_str(), &v4) == 1) {
    value[10] = value[11] = std::byte{0xFF};
    std::memcpy(value.data() + 12, &v4, sizeof v4);
    return value;
  }
  if (::inet_pton(AF_INET6, written.c_str(), value.data()) == 1) return value;
  return failure{errc::invalid_value,
                 "\"" + written + "\" is no GID: write it as fe80::1 or 192.0.2.1"};
}

device_list device_list::snapshot(const fs::path& sys) {
  device_list list;
  std::error_code none;
  for (const fs::directory_entry& d : fs::directory_iterator(sys / "class" / "infiniband", none)) {
    const std::string bdf =
        normal_bdf(fs::read_symlink(d.path() / "device", none).filename().string());
    for (const unsigned number : numbers_in(d.path() / "ports")) {
      const fs::path port = d.path() / "ports" / std::to_string(number);
      list.ports_.push_back({.device = d.path().filename().string(),
                             .number = number,
                             .bdf = bdf,
                             .state = first_line(port / "state"),
                             .link = first_line(port / "link_layer"),
                             .gids = gids_of(port)});
    }
  }
  std::ranges::sort(list.ports_, {},
                    [](const device_port& p) { return std::tie(p.device, p.number); });
  return list;
}

template <class Predicate>
result<device_port> device_list::find(std::string_view wanted, Predicate fits) const {
  if (std::optional<device_port> found = find_if(fits)) return std::move(*found);
  std::string there;
  for (const device_port& p : ports_) {
    there += (there.empty() ? "" : ", ") + p.setting();
    const std::string netdev = p.gids.empty() ? std::string() : p.gids.front().netdev;
    const std::string comma = p.bdf.empty() || netdev.empty() ? "" : ", ";
    if (!p.bdf.empty() || !netdev.empty()) there += " (" + p.bdf + comma + netdev + ")";
  }
  return failure{errc::not_found, "no RDMA port is " + std::string(wanted) + ": this machine has " +
                                      (there.empty() ? "none" : there)};
}

result<device_port> device_list::find_by_name(std::string_view name) const {
  return find(name, [name](const device_port& p) { return is_named(p, name); });
}

result<device_port> device_list::find_by_bdf(std::string_view bdf) const {
  const std::string wanted = normal_bdf(bdf);
  if (wanted.empty()) {
    return failure{errc::invalid_value,
                   "\"" + std::string(bdf) + "\" is no PCI address: write it as 0000:3b:00.0"};
  }
  return find("at " + wanted, [&wanted](const device_port& p) { return p.bdf == wanted; });
}

result<device_port> device_list::find_by_gid(std::string_view text) const {
  const result<gid> wanted = parse_gid(text);
  if (!wanted) return wanted.why();
  return find("known as " + std::string(text), [&wanted](const device_port& p) {
    return std::ranges::count(p.gids, *wanted, &device_gid::value) != 0;
  });
}

result<device_port> device_list::find_by_netdev(std::string_view name) const {
  return find("on " + std::string(name), [name](const device_port& p) {
    return std::ranges::count(p.gids, name, &device_gid::netdev) != 0;
  });
}

}  // namespace cordma
