#include <cordma/net/transport/verbs/extras.hpp>

#include <cordma/net/transport/verbs/verbs_domain.hpp>
#include <cordma/net/transport/verbs/window.hpp>

#include <fcntl.h>

#include <cerrno>

namespace cordma::transport::verbs {
namespace {

bool has_xrc(ibv_context* context) noexcept {
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  ibv_xrcd* const made = ibv_open_xrcd(context, &attr);
  if (made != nullptr) ibv_close_xrcd(made);
  return made != nullptr;
}

bool has_thread_domains(ibv_context* context) noexcept {
  ibv_td_init_attr attr{};
  ibv_td* const made = ibv_alloc_td(context, &attr);
  if (made != nullptr) ibv_dealloc_td(made);
  return made != nullptr;
}

bool has_null_regions(ibv_pd* pd) noexcept {
  const owned<ibv_mr> made(pd != nullptr ? ibv_alloc_null_mr(pd) : nullptr);
  return made != nullptr;
}

// A device that supports it reports a bad descriptor.
bool has_dmabuf(ibv_pd* pd) noexcept {
  if (pd == nullptr) return false;
  errno = 0;
  const owned<ibv_mr> made(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  return made != nullptr || errno == EBADF;
}

bool has_parent_domains(ibv_context* context, ibv_pd* pd) noexcept {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd;
  const owned<ibv_pd> made(pd != nullptr ? ibv_alloc_parent_domain(context, &attr) : nullptr);
  return made != nullptr;
}

bool has_windows_of_type_1(ibv_pd* pd) noexcept {
  const owned<ibv_mw> made(pd != nullptr ? ibv_alloc_mw(pd, IBV_MW_TYPE_1) : nullptr);
  return made != nullptr;
}

// A queue pair that is only queried.
struct idle_pair {
  idle_pair(ibv_context* context, ibv_pd* pd) noexcept
      : queue(ibv_create_cq(context, 1, nullptr, nullptr, 0)) {
    if (pd == nullptr || queue == nullptr) return;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue.get();
    init.cap.max_send_wr = init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    pair.reset(ibv_create_qp(pd, &init));
  }
  owned<ibv_cq> queue;
  owned<ibv_qp> pair;
};

bool has_ece(const idle_pair& asked) noexcept {
  ibv_ece told{};
  return asked.pair != nullptr && ibv_query_ece(asked.pair.get(), &told) == 0;
}

bool writes_in_order(const idle_pair& asked) noexcept {
  return asked.pair != nullptr &&
         ibv_query_qp_data_in_order(asked.pair.get(), IBV_WR_RDMA_WRITE, 0) == 1;
}

bool has_moderation(const idle_pair& asked) noexcept {
  if (asked.queue == nullptr) return false;
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {.cq_count = 1, .cq_period = 1};
  return ibv_modify_cq(asked.queue.get(), &attr) == 0;
}

bool can_be_imported(ibv_context* context) noexcept {
  ibv_context* const made = ibv_import_device(context->cmd_fd);
  if (made != nullptr) ibv_close_device(made);
  return made != nullptr;
}

bool has_growing_queues(ibv_context* context) noexcept {
  const owned<ibv_cq> made(ibv_create_cq(context, 1, nullptr, nullptr, 0));
  return made != nullptr && ibv_resize_cq(made.get(), 2 * made->cqe) == 0;
}

}  // namespace

std::vector<device_extra> ask_extras(ibv_context* context) {
  ibv_device_attr_ex x{};
  static_cast<void>(ibv_query_device_ex(context, nullptr, &x));
  const ibv_device_attr& a = x.orig_attr;
  const owned<ibv_pd> pd(ibv_alloc_pd(context));
  const device_flags flags{x.device_cap_flags_ex};
  const bool flushes =
      has(flags, device_flags::flush_global) || has(flags, device_flags::flush_persistent);
  const extended_calls extended = try_extended_calls(pd.get(), a);
  const idle_pair pair(context, pd.get());
  const bool on_demand = (x.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  return {{"asynchronous events", true, true},
          {"solicited events", true, true},
          {"shared receive queues", a.max_srq > 0, true},
          {"memory windows of type 1", has_windows_of_type_1(pd.get()), false},
          {"memory windows of type 2", has_windows(a), true},
          {"extended requests", extended.requests, true},
          {"extended completion queues", extended.completions, true},
          {"completion queues that grow", has_growing_queues(context), true},
          {"completion moderation", has_moderation(pair), false},
          {"completion time stamps", x.completion_timestamp_mask != 0, false},
          {"XRC", has_xrc(context), false},
          {"tag matching", x.tm_caps.max_num_tags > 0, false},
          {"dmabuf regions", has_dmabuf(pd.get()), false},
          {"on-demand paging", on_demand, false},
          {"null regions", has_null_regions(pd.get()), false},
          {"device memory", x.max_dm_size > 0, false},
          {"enhanced connections", has_ece(pair), false},
          {"thread domains", has_thread_domains(context), false},
          {"parent domains", has_parent_domains(context, pd.get()), false},
          {"import by other processes", can_be_imported(context), false},
          {"remote flush", flushes, false},
          {"atomic write", has(flags, device_flags::atomic_write), false},
          {"data in order", writes_in_order(pair), false}};
}

result<void> verbs_domain::require(std::string_view extra) const {
  std::string names;
  for (const device_extra& one : ask_extras(context())) {
    names.append(names.empty() ? "" : ", ").append(one.name);
    if (extra != one.name) continue;
    if (one.on_device && one.offered) return {};
    return failure{errc::not_supported,
                   hardware().name + (one.on_device ? " has " : " lacks ") + std::string(one.name) +
                       (one.on_device ? ", but cordma does not offer it" : "")};
  }
  return failure{errc::invalid_value,
                 "no RDMA device is asked for \"" + std::string(extra) + "\"; there are: " + names};
}

}  // namespace cordma::transport::verbs
