#include <cordma/net/memory/memory_left.hpp>

#include <cordma/runtime/text_file.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace cordma::detail {
namespace {

// The files of one version of cgroups. Units are bytes.
struct accounting {
  const char* limit;
  const char* used;
  const char* swap_limit;  // of swap alone; null: see both_limit
  const char* swap_used;
  const char* both_limit;  // of memory and swap together; null: see swap_limit
  const char* both_used;
  const char* cached[2];  // names in memory.stat
};
constexpr accounting version_1{.limit = "memory.limit_in_bytes",
                               .used = "memory.usage_in_bytes",
                               .swap_limit = nullptr,
                               .swap_used = nullptr,
                               .both_limit = "memory.memsw.limit_in_bytes",
                               .both_used = "memory.memsw.usage_in_bytes",
                               .cached = {"total_inactive_file", "total_active_file"}};
constexpr accounting version_2{.limit = "memory.max",
                               .used = "memory.current",
                               .swap_limit = "memory.swap.max",
                               .swap_used = "memory.swap.current",
                               .both_limit = nullptr,
                               .both_used = nullptr,
                               .cached = {"inactive_file", "active_file"}};

constexpr std::uint64_t unlimited = UINT64_MAX;

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a > unlimited - b ? unlimited : a + b;
}
std::uint64_t rest(std::uint64_t of, std::uint64_t used) { return of > used ? of - used : 0; }

// "max" is no number, and no limit.
std::optional<std::uint64_t> number_in(const std::string& file) {
  std::istringstream in(read_text(file));
  std::uint64_t n = 0;
  if (in >> n) return n;
  return {};
}

// The sum of the named numbers, from lines "name number".
std::uint64_t sum_in(const std::string& file, std::initializer_list<std::string_view> names) {
  std::istringstream in(read_text(file));
  std::uint64_t total = 0;
  std::uint64_t n = 0;
  for (std::string name; in >> name >> n;
       in.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (std::ranges::find(names, name) != names.end()) total += n;
  }
  return total;
}

// Memory left below one limit: neither used nor released on demand, as the page cache is.
std::uint64_t left_below(const std::string& limit, const std::string& used, std::uint64_t cached) {
  const std::optional<std::uint64_t> most = number_in(limit);
  return most ? rest(*most, rest(number_in(used).value_or(0), cached)) : unlimited;
}

// `swap`: free swap of the group. Folders end with a slash.
std::uint64_t left_in(const std::string& folder, const accounting& as, std::uint64_t swap) {
  const std::uint64_t cached = sum_in(folder + "memory.stat", {as.cached[0], as.cached[1]});
  const std::uint64_t left = sum(left_below(folder + as.limit, folder + as.used, cached), swap);
  if (as.both_limit == nullptr) return left;
  return std::min(left, left_below(folder + as.both_limit, folder + as.both_used, cached));
}

std::uint64_t swap_in(const std::string& folder, const accounting& as) {
  if (as.swap_limit == nullptr) return unlimited;
  return left_below(folder + as.swap_limit, folder + as.swap_used, 0);
}

// Mount point of a hierarchy, and the part of it that is mounted.
struct mounted {
  std::string part;
  std::string at;
  const accounting* as;
};

// Lines of mountinfo: "31 23 0:28 PART AT rw,... [fields] - TYPE SOURCE OPTIONS".
std::vector<mounted> hierarchies(const std::string& root) {
  std::vector<mounted> all;
  std::istringstream lines(read_text(root + "/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream behind(line.substr(dash + 3));
    std::string skipped;
    std::string type;
    std::string options;
    mounted m;
    before >> skipped >> skipped >> skipped >> m.part >> m.at;
    behind >> type >> skipped >> options;
    options = ',' + options + ',';
    if (type == "cgroup2") {
      m.as = &version_2;
    } else if (type == "cgroup" && options.find(",memory,") != std::string::npos) {
      m.as = &version_1;
    } else {
      continue;
    }
    all.push_back(std::move(m));
  }
  return all;
}

// The position of this process in the hierarchy. Lines of cgroup: "4:memory:/path", or "0::/path"
// of version 2.
std::optional<std::string> own_path(const std::string& root, const accounting* as) {
  std::istringstream lines(read_text(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool fits = as == &version_2 ? line.starts_with("0::")
                                       : controllers.find(",memory,") != std::string::npos;
    if (fits) return line.substr(second + 1);
  }
  return {};
}

// The group of this process, and its ancestors, up to the outermost that is mounted.
std::vector<std::string> own_groups(const std::string& root, const mounted& m) {
  std::string path = own_path(root, m.as).value_or("/");
  // In a container without a cgroup namespace, only its own part is mounted.
  const bool inside =
      path.starts_with(m.part) && (path.size() == m.part.size() || path[m.part.size()] == '/');
  if (m.part != "/" && inside) path.erase(0, m.part.size());
  std::vector<std::string> all;
  for (;;) {
    while (path.ends_with('/')) path.pop_back();
    all.push_back(root + m.at + path + '/');
    if (path.empty()) return all;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Swap that one of the groups forbids is unusable for the others.
std::uint64_t left_in_hierarchy(const std::string& root, const mounted& m, std::uint64_t swap) {
  const std::vector<std::string> groups = own_groups(root, m);
  for (const std::string& each : groups) swap = std::min(swap, swap_in(each, *m.as));
  std::uint64_t left = unlimited;
  for (const std::string& each : groups) left = std::min(left, left_in(each, *m.as, swap));
  return left;
}

}  // namespace

std::uint64_t memory_left(const std::string& root) {
  const std::string machine = root + "/proc/meminfo";
  const std::uint64_t free_swap = sum_in(machine, {"SwapFree:"}) << 10;
  const std::uint64_t available = sum_in(machine, {"MemAvailable:"}) << 10;
  std::uint64_t left = available != 0 ? sum(available, free_swap) : unlimited;
  for (const mounted& m : hierarchies(root)) {
    left = std::min(left, left_in_hierarchy(root, m, free_swap));
  }
  return left;
}

}  // namespace cordma::detail
