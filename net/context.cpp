#include <cordma/net/context.hpp>

#include <cordma/net/memory/context_core.hpp>
#include <cordma/net/memory/mapping.hpp>
#include <cordma/net/memory/memory_left.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/settings.hpp>
#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/reserve_file.hpp>
#include <cordma/runtime/trace.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cordma {
namespace {

using transport::kind;

using domain_list = std::vector<std::shared_ptr<transport::domain>>;

// Default transports, in order of preference.
constexpr std::array default_order{kind::shm, kind::verbs, kind::tcp};

result<domain_list> alone(result<std::shared_ptr<transport::domain>> made) {
  if (!made) return made.why();
  return domain_list{std::move(*made)};
}

// The first domain is for everything, those after it for rails.
result<domain_list> make(kind k, const context_options& options) {
  switch (k) {
    case kind::shm: return alone(transport::make_shm(options.shm));
    case kind::tcp: return alone(transport::make_tcp(options.tcp));
    case kind::verbs: return transport::make_verbs_with_rails(options.verbs);
    case kind::sim:
    case kind::test: break;  // refused by settings
  }
  return failure{errc::not_supported, "there is no such transport"};
}

// " with shm.directory = /x (environment CORDMA_SHM_DIRECTORY)"; empty if nothing was set.
std::string as_set(kind k, const std::vector<config_entry>& configuration) {
  std::string set;
  for (const config_entry& e : configuration) {
    if (e.source == config_source::default_value) continue;
    if (!e.key.starts_with(std::string(transport::name(k)) + ".")) continue;
    set += (set.empty() ? "" : ", ") + e.key + " = " + e.value + " (" +
           std::string(name(e.source)) + (e.place.empty() ? "" : " " + e.place) + ")";
  }
  return set.empty() ? set : " with " + set;
}

// Keys and blobs have one entry for each kind.
void require_one_of_each(const std::vector<std::shared_ptr<transport::domain>>& domains) {
  std::array<int, transport::kind_count> of_kind{};
  for (const auto& d : domains) {
    const kind k = d->caps().transport;
    if (++of_kind[static_cast<std::size_t>(k)] == 1) continue;
    throw_error(
        {errc::invalid_value, "a Context has one transport of a kind, and here are two of " +
                                  std::string(transport::name(k)) + ": make two Contexts"});
  }
}

// Adds the requested transports, or all that this machine has.
void add_domains(detail::context_core& core, const context_options& options) {
  std::vector<kind> wanted = options.transports;
  const bool by_name = !wanted.empty();
  core.by_default = !by_name;
  if (!by_name) wanted.assign(default_order.begin(), default_order.end());
  for (kind k : wanted) {
    const result<domain_list> d = make(k, options);
    if (d) {
      core.domains.push_back(d->front());
      core.rail_domains.insert(core.rail_domains.end(), d->begin() + 1, d->end());
      continue;
    }
    // A transport that this machine lacks is no mistake of the user; a setting that cannot be
    // followed is.
    const bool has_it = d.code() != errc::not_supported && d.code() != errc::no_memory;
    std::string set = has_it ? as_set(k, core.configuration) : std::string();
    if (k == kind::verbs && options.verbs.pd != nullptr) set += " on verbs.pd";
    if (by_name) {
      throw_error(failure::of(d.code(),
                              {"transport ", name(k), set, " was asked for: ", d.why().message()}));
    }
    if (!set.empty()) {
      if (d.code() != errc::not_permitted) {
        throw_error(failure::of(
            d.code(), {"transport ", name(k), set, " cannot be used: ", d.why().message()}));
      }
      core.configuration_warnings.push_back(std::string(name(k)) + set +
                                            " is left out: " + std::string(d.why().message()));
    }
    core.missing.emplace_back(k, d.why());
  }
}

result<void> register_everywhere(detail::region_core& region) {
  for (const auto& d : region.context->domains) {
    const auto k = static_cast<std::size_t>(d->caps().transport);
    const result<transport::memory_keys> keys = d->register_memory(region.range);
    if (!keys) return keys.why();
    CORDMA_ASSERT_OP(keys->lkey, !=, 0U);
    CORDMA_ASSERT_OP(region.keys[k].lkey, ==, 0U);
    region.keys[k] = *keys;
  }
  // A registration that fails on an additional device (a dead one, for example) is ignored: the
  // device then reads nothing into this memory.
  std::size_t place = transport::kind_count;
  for (const auto& d : region.context->rail_domains) {
    const result<transport::memory_keys> keys = d->register_memory(region.range);
    CORDMA_ASSERT_OP(place, <, region.keys.size());
    if (keys) region.keys[place] = *keys;
    ++place;
  }
  return {};
}

// Reading the free memory takes about 50 us. Small allocations skip it, up to a small part of the
// memory that was free at the last check.
result<void> has_room(detail::context_core& context, std::size_t mapped) {
  constexpr std::int64_t most_unquestioned = std::int64_t{16} << 20;
  constexpr std::int64_t part_unquestioned = 16;
  const auto wanted = static_cast<std::int64_t>(mapped);
  if (wanted <= most_unquestioned && context.unquestioned.fetch_sub(wanted) >= wanted) return {};
  const std::uint64_t left = detail::memory_left();
  if (mapped > left) {
    return failure{errc::no_memory,
                   "cannot allocate " + std::to_string(mapped) +
                       " bytes: this machine, or a memory limit of this process or container, "
                       "leaves " +
                       std::to_string(left) + ": ask for less, free memory, or raise the limit"};
  }
  const auto more = static_cast<std::int64_t>(std::min<std::uint64_t>(left - mapped, INT64_MAX));
  context.unquestioned.store(std::min(more / part_unquestioned, most_unquestioned));
  return {};
}

// Without memfd_create() (a sandbox, an old kernel), the memory is mapped by this process only:
// peers over shared memory then access it by copies.
result<void> map_private(detail::region_core& region, std::size_t mapped) {
  // Populates all of it now, so that the next memory_left() accounts for it.
  constexpr int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  void* const at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, how, -1, 0);
  if (at == MAP_FAILED) {
    return failure::from_os(errno, {"mapping ", std::to_string(mapped), " bytes"});
  }
  region.owns_memory = true;
  region.range.addr = static_cast<std::byte*>(at);
  region.mapped_bytes = mapped;
  return {};
}

// True if a sandbox or the kernel does not provide the call: memory is private then.
bool is_refused(int os_errno) noexcept {
  return os_errno == ENOSYS || os_errno == EPERM || os_errno == EACCES || os_errno == EOPNOTSUPP;
}

result<void> map_shared(detail::region_core& region, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (bytes + page - 1) / page * page;
  if (bytes == 0 || mapped < bytes) {
    return failure{errc::invalid_value, "cannot allocate " + std::to_string(bytes) + " bytes"};
  }
  const result<void> room = has_room(*region.context, mapped);
  if (!room) return room;
  region.range.length = bytes;
  // Beyond this limit the kernel does not only refuse: it sends SIGXFSZ.
  rlimit largest{};
  if (::getrlimit(RLIMIT_FSIZE, &largest) == 0 && mapped > largest.rlim_cur) {
    return failure::from_os(EFBIG,
                            {"allocating ", std::to_string(bytes), " bytes of shared memory"});
  }
  const int fd = ::memfd_create("cordma-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 && is_refused(errno)) return map_private(region, mapped);
  if (fd < 0) return failure::from_os(errno, "creating shared memory");
  region.owns_memory = true;
  region.range.shared_fd = fd;
  const int no_space = transport::reserve_file(fd, mapped);
  if (is_refused(no_space)) {
    ::close(std::exchange(region.range.shared_fd, -1));
    return map_private(region, mapped);
  }
  if (no_space != 0) {
    return failure::from_os(no_space,
                            {"allocating ", std::to_string(bytes), " bytes of shared memory"});
  }
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  void* const at = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return failure::from_os(errno, "mapping shared memory");
  region.range.addr = static_cast<std::byte*>(at);
  region.mapped_bytes = mapped;
  return {};
}

// Every transport of the Context has to accept the memory, because a connection may use any of
// them.
result<void> takes(const detail::context_core& context, const memory_place& where) {
  if (static_cast<std::size_t>(where.kind) >= transport::memory_kind_count) {
    return failure{errc::invalid_value, "memory_place::kind is none of memory_kind"};
  }
  if (where.kind == memory_kind::host && where.device != 0) {
    return failure{errc::invalid_value, "memory_place::device is " + std::to_string(where.device) +
                                            ": host memory has device 0"};
  }
  std::string without;
  for (const auto& d : context.domains) {
    if (d->caps().takes(where.kind)) continue;
    without += (without.empty() ? "" : ", ") + std::string(transport::name(d->caps().transport));
  }
  if (without.empty()) return {};
  return failure{errc::not_supported,
                 without + ": no " + std::string(transport::name(where.kind)) +
                     " memory, for the CPU carries the bytes there: register it with a Context of "
                     "verbs alone (context_options::transports)"};
}

result<MemoryRegion> finish(std::unique_ptr<detail::region_core> region) {
  const result<void> registered = register_everywhere(*region);
  if (!registered) return registered.why();
  return MemoryRegion(region.release());
}

}  // namespace

result<kind> parse_transport(std::string_view text) {
  for (kind k : transport::kinds) {
    if (k != kind::test && text == transport::name(k)) return k;
  }
  return failure{errc::invalid_value,
                 "transport \"" + std::string(text) + "\" is unknown: use shm, tcp or verbs"};
}

result<std::vector<kind>> parse_transports(std::string_view text) {
  std::vector<kind> kinds;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const result<kind> k = parse_transport(text.substr(0, comma));
    if (!k) return k.why();
    kinds.push_back(*k);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return kinds;
}

Context::Context(const context_options& from_code)
    : core_(std::make_shared<detail::context_core>()) {
  if (std::ranges::count(from_code.domains, nullptr) != 0 ||
      std::ranges::count(from_code.rail_domains, nullptr) != 0) {
    throw_error({errc::invalid_value,
                 "context_options::domains has a null pointer in it: leave out what there is not"});
  }
  const settings configured(from_code);
  const context_options options = configured.options();
  core_->configuration = configured.effective();
  core_->configuration_warnings = configured.warnings();
  core_->domains = options.domains;
  core_->rail_domains = options.rail_domains;
  const bool as_handed_in = from_code.transports.empty() && !options.domains.empty();
  if (!as_handed_in) add_domains(*core_, options);
  require_one_of_each(core_->domains);
  if (core_->domains.empty()) {
    throw_error({errc::not_supported, "no transport can be used on this machine"});
  }
  if (!options.trace.get().empty()) {
    const result<void> started = start_trace(options.trace.get());
    if (!started) throw_error(started.why());
  }
  if (core_->rail_domains.size() > detail::most_rail_domains) {
    throw_error({errc::invalid_value, std::to_string(core_->rail_domains.size()) +
                                          " devices for rails: a Context has " +
                                          std::to_string(detail::most_rail_domains) + " at most"});
  }
}

detail::context_core::~context_core() {
  if (!process.inherited()) return;
  for (auto* const list : {&domains, &rail_domains}) {
    for (std::shared_ptr<transport::domain>& d : *list) transport::leave_to_parent(std::move(d));
  }
}

std::string detail::left_out(const missing_transports& missing, const std::optional<kind>& only) {
  std::string text;
  for (const auto& [k, why] : missing) {
    const bool told = only ? *only == k : why.code() != errc::not_supported;
    if (told) text += std::string(transport::name(k)) + " is left out: " + why.message() + "; ";
  }
  return text;
}

result<MemoryRegion> detail::allocate(const std::shared_ptr<context_core>& context,
                                      std::size_t bytes, access rights) {
  const result<void> usable = context->usable();
  if (!usable) return usable.why();
  const result<void> known = transport::check_rights(rights);
  if (!known) return known.why();
  auto region = std::make_unique<detail::region_core>(
      context, transport::memory_range{.rights = transport::normalized(rights)});
  const result<void> mapped = map_shared(*region, bytes);
  if (!mapped) return mapped.why();
  return finish(std::move(region));
}

result<MemoryRegion> Context::allocate(std::size_t bytes, access rights) {
  return detail::allocate(core_, bytes, rights);
}

result<MemoryRegion> Context::register_memory(std::span<std::byte> memory, access rights,
                                              const memory_place& where) {
  const result<void> ours = core_->usable();
  if (!ours) return ours.why();
  const result<void> known = transport::check_rights(rights);
  if (!known) return known.why();
  const result<void> possible = takes(*core_, where);
  if (!possible) return possible.why();
  const access needed = transport::normalized(rights);
  if (where.kind == memory_kind::host) {  // the mappings contain no information about other memory
    const result<void> usable = detail::check_mapping(memory, needed);
    if (!usable) return usable.why();
  }
  return finish(std::make_unique<detail::region_core>(
      core_, transport::memory_range{.addr = memory.data(),
                                     .length = memory.size(),
                                     .rights = needed,
                                     .memory = where.kind,
                                     .device = where.device}));
}

std::vector<transport::capabilities> Context::transports() const {
  std::vector<transport::capabilities> all;
  for (const auto& d : core_->domains) all.push_back(d->caps());
  return all;
}

const transport::capabilities* Context::find(kind k) const noexcept {
  const transport::domain* d = core_->find(k);
  return d != nullptr ? &d->caps() : nullptr;
}

std::string Context::own_host(kind k) const {
  const transport::domain* const d = core_->find(k);
  return d != nullptr ? d->own_host() : "127.0.0.1";
}

failure detail::no_native_handles() {
  return {
      errc::not_supported,
      "no transport of this Context stands on libibverbs: that takes verbs, and an RDMA device"};
}

result<ibv_pd*> Context::native_pd() const {
  const result<void> usable = core_->usable();
  if (!usable) return usable.why();
  for (const auto& d : core_->domains) {
    if (d->caps().has_native_handles) return d->native_pd();
  }
  return detail::no_native_handles();
}

result<void> Context::require(std::string_view extra) const {
  const result<void> usable = core_->usable();
  if (!usable) return usable;
  for (const auto& d : core_->domains) {
    if (d->caps().has_native_handles) return d->require(extra);
  }
  return detail::no_native_handles();
}

std::vector<std::pair<kind, failure>> Context::missing() const { return core_->missing; }

const std::vector<config_entry>& Context::configuration() const noexcept {
  return core_->configuration;
}

const std::vector<std::string>& Context::configuration_warnings() const noexcept {
  return core_->configuration_warnings;
}

}  // namespace cordma
