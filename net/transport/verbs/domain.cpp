#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/verbs/domain.hpp>

#include <cordma/net/transport/verbs/adapter.hpp>
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/connecting.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fcntl.h>
#include <sys/resource.h>

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

failure cannot_register(int code, const memory_range& range) {
  const std::string what =
      "registering " + std::to_string(range.length) + " bytes with the RDMA device";
  rlimit limit{};
  const bool short_of_locked_memory =
      code == ENOMEM && ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (short_of_locked_memory) {
    return failure{errc::no_memory,
                   what + ": the limit of locked memory is " + std::to_string(limit.rlim_cur) +
                       " bytes: raise it (ulimit -l, LimitMEMLOCK), or leave verbs out with "
                       "CORDMA_TRANSPORT=shm,tcp"}
        .with_errno(code);
  }
  return failure::from_os(code, what);
}

}  // namespace

verbs_domain::verbs_domain(device d, owned<ibv_pd> pd, const verbs_options& options)
    : device_(std::move(d)),
      pd_(std::move(pd)),
      options_(options),
      caps_(describe(device_, options)) {}

verbs_domain::~verbs_domain() {
  requests_.drop([](const incoming&) { return true; });
  regions_.clear();
}

std::string verbs_domain::own_host() const {
  const ibv_gid_entry* const own = device_.choose_gid(options_.gid_index, nullptr);
  if (own == nullptr) return domain::own_host();
  const std::string text = to_text(own->gid);
  return text.find(':') == std::string::npos ? text : "[" + text + "]";
}

result<memory_keys> verbs_domain::register_memory(const memory_range& range) {
  const auto start = reinterpret_cast<std::uintptr_t>(range.addr);
  if (range.length == 0 || start + range.length < start) {
    return failure{errc::invalid_value, "an empty range, or one that wraps, cannot be registered"};
  }
  const unsigned flags = to_flags(normalized(range.rights), options_.relaxed_ordering);
  owned<ibv_mr> mr = register_bytes(pd_.get(), range.addr, range.length, flags);
  if (mr == nullptr) return cannot_register(errno, range);
  const bool remote =
      (static_cast<unsigned>(range.rights) & static_cast<unsigned>(all_remote)) != 0;
  const memory_keys keys{.lkey = mr->lkey, .rkey = remote ? mr->rkey : 0U};
  const std::lock_guard lock(mutex_);
  regions_.emplace(keys.lkey, std::move(mr));
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

result<queue_pair_options> verbs_domain::grant(const queue_pair_options& asked) const {
  queue_pair_options o = asked;
  o.send_depth = std::max(asked.send_depth, options_.send_depth);
  o.recv_depth = std::max(asked.recv_depth, options_.recv_depth);
  return transport::grant(o, caps_);
}

result<std::unique_ptr<adapter>> verbs_domain::open(reactor& home) {
  auto made = std::make_unique<verbs_adapter>(shared_from_this(), home);
  const result<void> ready = made->prepare();
  if (!ready) return ready.why();
  return std::unique_ptr<adapter>(std::move(made));
}

void verbs_domain::enter(verbs_adapter& a) {
  const std::lock_guard lock(mutex_);
  adapters_.push_back(&a);
}

void verbs_domain::leave(verbs_adapter& a) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(adapters_, &a);
  // Identifiers go before the channel that their events come by.
  requests_.drop([&a](const incoming& request) { return request.id->channel == a.cm(); });
}

void verbs_domain::read_async_events() noexcept {
  const std::lock_guard lock(mutex_);
  ibv_async_event e{};
  while (ibv_get_async_event(device_.context.get(), &e) == 0) {
    async_event told{.what = e.event_type};
    const verbs_adapter* only = nullptr;
    switch (e.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        // The queue pair cannot be destroyed before its event is acknowledged, nor its adapter.
        told.pair = e.element.qp->qp_num;
        only = static_cast<const verbs_adapter*>(e.element.qp->qp_context);
        break;
      case IBV_EVENT_CQ_ERR:
        only = static_cast<const verbs_adapter*>(e.element.cq->cq_context);
        break;
      default: break;
    }
    for (verbs_adapter* a : adapters_) {
      if (only == nullptr || only == a) a->tell(told);
    }
    ibv_ack_async_event(&e);
  }
}

}  // namespace cordma::transport::verbs

namespace cordma::transport {

result<std::shared_ptr<domain>> make_verbs(const verbs_options& options) {
  if (options.mtu != 0 && verbs::mtu_code(options.mtu) == 0) {
    return failure{errc::invalid_value,
                   "verbs.mtu " + std::to_string(options.mtu) +
                       " is no RDMA MTU: use 256, 512, 1024, 2048 or 4096, or 0"};
  }
  result<verbs::device> found = verbs::open_device(options);
  if (!found) return found.why();
  // Read by adapters, who must not block.
  const int fd = found->context->async_fd;
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  verbs::owned<ibv_pd> pd(ibv_alloc_pd(found->context.get()));
  if (pd == nullptr) return failure::from_os(errno, "making a protection domain on " + found->name);
  return std::shared_ptr<domain>(
      std::make_shared<verbs::verbs_domain>(std::move(*found), std::move(pd), options));
}

}  // namespace cordma::transport
