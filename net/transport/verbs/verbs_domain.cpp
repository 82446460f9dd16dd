#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/verbs/verbs_domain.hpp>

#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/connecting.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cordma::transport::verbs {
namespace {

unsigned to_flags(access rights, bool relaxed) noexcept {
  unsigned flags = 0;
  if (has(rights, access::local_write)) flags |= IBV_ACCESS_LOCAL_WRITE;
  if (has(rights, access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has(rights, access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (has(rights, access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  // An optional flag: kernels and devices that do not know it ignore it.
  if (relaxed) flags |= IBV_ACCESS_RELAXED_ORDERING;
  return flags;
}

}  // namespace

failure cannot_register(int code, std::size_t bytes) {
  const std::string what = "registering " + std::to_string(bytes) + " bytes with the RDMA device";
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  // The kernel returns EPERM if nothing at all may be locked.
  if (limited && (code == ENOMEM || (code == EPERM && limit.rlim_cur == 0))) {
    return failure{errc::no_memory,
                   what + ": the limit of locked memory is " + std::to_string(limit.rlim_cur) +
                       " bytes: raise it (ulimit -l, LimitMEMLOCK), or leave verbs out with "
                       "CORDMA_TRANSPORT=shm,tcp"}
        .with_errno(code);
  }
  if (code == EFAULT) {
    return failure{errc::not_permitted,
                   what +
                       ": the kernel cannot keep them where they are. They are not mapped as "
                       "these rights need, or of a file that is mapped shared and read-only: "
                       "copy them, or leave verbs out with CORDMA_TRANSPORT=shm,tcp"}
        .with_errno(code);
  }
  return failure::from_os(code, what);
}

verbs_domain::verbs_domain(device d, owned_or_borrowed<ibv_pd> pd, const verbs_options& options)
    : device_(std::move(d)),
      pd_(std::move(pd)),
      options_(options),
      caps_(describe(device_, options)),
      gids_(device_.gids) {}

verbs_domain::~verbs_domain() {
  requests_.drop([](const incoming&) { return true; });
  CORDMA_REQUIRE_OP(adapters_.size(), ==, 0U);
  regions_.clear();
}

failure verbs_domain::no_gid() const {
  const int wanted = options_.gid_index;
  if (wanted < 0) {
    return failure{errc::unreachable,
                   device_.name + " has no GID: give its network interface an address"};
  }
  return failure{errc::unreachable,
                 device_.name + " has no GID of index " + std::to_string(wanted) +
                     " any more: give its network interface that address again, or "
                     "leave verbs.gid_index out"};
}

std::optional<ibv_gid_entry> verbs_domain::choose_gid(const gid_bytes* like) const {
  if (!reads_async_events()) reload_gids();
  const std::lock_guard lock(gid_mutex_);
  return verbs::choose_gid(gids_, options_.gid_index, like);
}

bool verbs_domain::has_gid(const gid_bytes& gid) const noexcept {
  if (!reads_async_events()) reload_gids();
  const std::lock_guard lock(gid_mutex_);
  return std::ranges::any_of(gids_,
                             [&gid](const ibv_gid_entry& e) { return to_bytes(e.gid) == gid; });
}

void verbs_domain::reload_gids() const noexcept {
  try {
    std::optional<std::vector<ibv_gid_entry>> now = read_gids(device_.context.get(), device_.port);
    if (!now) return;  // the table stays unchanged
    const std::lock_guard lock(gid_mutex_);
    gids_.swap(*now);
  } catch (const std::bad_alloc&) {
    return;  // the same
  }
}

std::string verbs_domain::own_host() const {
  const std::optional<ibv_gid_entry> own = choose_gid(nullptr);
  if (!own) return domain::own_host();
  const std::string text = host_of(to_address(*own).get());
  return text.find(':') == std::string::npos ? text : "[" + text + "]";
}

result<memory_keys> verbs_domain::register_memory(const memory_range& range) {
  const auto start = reinterpret_cast<std::uintptr_t>(range.addr);
  if (range.length == 0 || start + range.length < start) {
    return failure{errc::invalid_value, "an empty range, or one that wraps, cannot be registered"};
  }
  unsigned flags = to_flags(normalized(range.rights), options_.relaxed_ordering);
  const bool windows = caps_.supports(service::rc, opcode::bind);
  if (windows && has(range.rights, access::mw_bind)) flags |= IBV_ACCESS_MW_BIND;
  owned<ibv_mr> mr = register_bytes(pd_.get(), range.addr, range.length, flags);
  if (mr == nullptr) return cannot_register(errno, range.length);
  const bool remote =
      (static_cast<unsigned>(range.rights) & static_cast<unsigned>(all_remote)) != 0;
  const memory_keys keys{.lkey = mr->lkey, .rkey = remote ? mr->rkey : 0U};
  const std::lock_guard lock(mutex_);
  const bool is_new = regions_.emplace(keys.lkey, std::move(mr)).second;
  CORDMA_ASSERT(is_new);
  return keys;
}

void verbs_domain::deregister_memory(std::uint32_t lkey) noexcept {
  owned<ibv_mr> gone;
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(lkey);
  CORDMA_REQUIRE(at != regions_.end());
  gone = std::move(at->second);
  regions_.erase(at);
}

ibv_mr* verbs_domain::native_mr(std::uint32_t lkey) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = regions_.find(lkey);
  return at != regions_.end() ? at->second.get() : nullptr;
}

result<queue_pair_options> verbs_domain::grant(const queue_pair_options& asked) const {
  queue_pair_options o = asked;
  o.send_depth = std::max(asked.send_depth, options_.send_depth.get());
  o.recv_depth = std::max(asked.recv_depth, options_.recv_depth.get());
  return transport::grant(o, caps_);
}

result<std::unique_ptr<adapter>> verbs_domain::open(reactor& home) {
  auto made = std::make_unique<verbs_adapter>(shared_from_this(), home);
  const result<void> ready = made->prepare();
  if (!ready) return ready.why();
  return std::unique_ptr<adapter>(std::move(made));
}

// Every destroying call of libibverbs would destroy the parent's object. Open descriptors would
// keep its queue pairs alive after its end.
bool verbs_domain::leave_to_parent() noexcept {
  // A thread that exists only in the parent may hold the lock: then the descriptors stay open.
  if (left_to_parent_ || !mutex_.try_lock()) return false;
  left_to_parent_ = true;
  for (verbs_adapter* const a : adapters_) a->close_descriptors();
  if (reads_async_events()) {  // the device is not borrowed
    ::close(context()->async_fd);
    ::close(context()->cmd_fd);
  }
  mutex_.unlock();
  return false;
}

void verbs_domain::enter(verbs_adapter& a) {
  const std::lock_guard lock(mutex_);
  CORDMA_REQUIRE(std::ranges::find(adapters_, &a) == adapters_.end());
  adapters_.push_back(&a);
}

void verbs_domain::leave(verbs_adapter& a) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(adapters_, &a);
  // Identifiers are destroyed before the channel of their events.
  requests_.drop([&a](const incoming& request) { return request.id->channel == a.cm(); });
}

void verbs_domain::read_async_events() noexcept {
  const std::lock_guard lock(mutex_);
  ibv_async_event raw{};
  while (ibv_get_async_event(device_.context.get(), &raw) == 0) {
    async_event told = to_event(raw);
    if (told.what == IBV_EVENT_GID_CHANGE) reload_gids();
    // The object of an event cannot be destroyed before the event is acknowledged, and a thread may
    // be waiting for that at this moment.
    const auto owner = std::ranges::find_if(
        adapters_, [&told](const verbs_adapter* a) { return told.context == a; });
    if (owner != adapters_.end()) {
      told.about = async_event::subject::own;
      (*owner)->tell(told);
    } else {
      for (verbs_adapter* a : adapters_) a->tell(told);
    }
    ibv_ack_async_event(&raw);
  }
}

}  // namespace cordma::transport::verbs

namespace cordma::transport {

namespace {

result<std::shared_ptr<domain>> make_domain(verbs::device found, const verbs_options& options) {
  using domain_pointer = verbs::owned_or_borrowed<ibv_pd>;
  domain_pointer pd(options.pd, verbs::unless_borrowed{true});
  if (pd == nullptr) {
    // Adapters read it and must not block.
    const int fd = found.context->async_fd;
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    pd = domain_pointer(ibv_alloc_pd(found.context.get()));
  }
  if (pd == nullptr) return failure::from_os(errno, "making a protection domain on " + found.name);
  return std::shared_ptr<domain>(
      std::make_shared<verbs::verbs_domain>(std::move(found), std::move(pd), options));
}

}  // namespace

result<std::shared_ptr<domain>> make_verbs(const verbs_options& options) {
  verbs_options one = options;
  one.rails = 1;
  result<std::vector<std::shared_ptr<domain>>> made = make_verbs_with_rails(one);
  if (!made) return made.why();
  return std::move(made->front());
}

result<std::vector<std::shared_ptr<domain>>> make_verbs_with_rails(const verbs_options& options) {
  if (options.mtu != 0 && verbs::mtu_code(options.mtu) == 0) {
    return failure{errc::invalid_value,
                   "verbs.mtu " + std::to_string(options.mtu) +
                       " is no RDMA MTU: use 256, 512, 1024, 2048 or 4096, or 0"};
  }
  result<std::vector<verbs::device>> found = verbs::open_devices(options);
  if (!found) return found.why();
  // No Worker could open the domain without it.
  const result<verbs::owned_channel> cm = verbs::open_channel();
  if (!cm) return cm.why();
  std::vector<std::shared_ptr<domain>> all;
  for (verbs::device& d : *found) {
    result<std::shared_ptr<domain>> made = make_domain(std::move(d), options);
    if (!made) return made.why();
    all.push_back(std::move(*made));
  }
  return all;
}

}  // namespace cordma::transport
