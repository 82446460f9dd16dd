#include <cordma/net/transport/verbs/window.hpp>

#include <cordma/net/transport/verbs/verbs_domain.hpp>

#include <cerrno>
#include <new>
#include <string>

namespace cordma::transport::verbs {
namespace {

unsigned to_flags(access rights) noexcept {
  unsigned flags = 0;
  if (has(rights, access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has(rights, access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (has(rights, access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

}  // namespace

bool has_windows(const ibv_device_attr& a) noexcept {
  constexpr unsigned type_2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return (a.device_cap_flags & type_2) != 0 && a.max_mw > 0;
}

std::uint32_t invalidated_by(const ibv_wc& wc, const device& hardware) noexcept {
  // Soft-RoCE marks it with the kernel's bit, which has another meaning here. It never reports
  // checksums.
  unsigned flags = IBV_WC_WITH_INV;
  if (hardware.is_soft_roce()) flags |= IBV_WC_IP_CSUM_OK;
  return (wc.wc_flags & flags) != 0 ? wc.invalidated_rkey : 0;
}

result<std::uint32_t> window_table::make(verbs_domain& domain, const window_range& range) {
  if (!has_windows(domain.hardware().attributes.orig_attr)) return errc::not_supported;
  const std::string what = "making a memory window on " + domain.hardware().name;
  entry e;
  e.is = entry::state::fresh;
  e.range = range;
  e.region = domain.native_mr(range.lkey);
  if (e.region == nullptr) {
    return failure{errc::invalid_value, what + ": its region is not registered"};
  }
  if (domain.hardware().is_soft_roce()) {
    const unsigned flags = to_flags(range.rights) | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
    e.own_region = register_bytes(domain.pd(), range.addr, range.length, flags);
    if (e.own_region == nullptr) return failure::from_os(errno, what);
    e.region = e.own_region.get();
  }
  e.window.reset(ibv_alloc_mw(domain.pd(), IBV_MW_TYPE_2));
  if (e.window == nullptr) return failure::from_os(errno, what);
  if (free_.empty()) {
    free_.reserve(entries_.size() + 1);  // so that free() never allocates
    entries_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(entries_.size() - 1));
  }
  const std::uint32_t window = free_.back();
  free_.pop_back();
  CORDMA_ASSERT_OP(window, <, entries_.size());
  CORDMA_ASSERT_OP(entries_[window].is, ==, entry::state::unused);
  entries_[window] = std::move(e);
  return window;
}

window_table::entry* window_table::find(std::uint32_t window, entry::state is) noexcept {
  return window < entries_.size() && entries_[window].is == is ? &entries_[window] : nullptr;
}

bool window_table::bind(std::uint32_t window, ibv_send_wr& wr) noexcept {
  entry* const e = find(window, entry::state::fresh);
  if (e == nullptr) return false;
  e->is = entry::state::binding;
  constexpr std::uint32_t low = 0xff;
  if (++tag_ == (e->window->rkey & low)) ++tag_;  // the window's previous key
  e->key = (e->window->rkey & ~low) | tag_;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = e->window.get();
  wr.bind_mw.rkey = e->key;
  wr.bind_mw.bind_info = {.mr = e->region,
                          .addr = reinterpret_cast<std::uintptr_t>(e->range.addr),
                          .length = e->range.length,
                          .mw_access_flags = to_flags(e->range.rights)};
  return true;
}

std::uint32_t window_table::bound(std::uint32_t window, wc_status status) noexcept {
  if (find(window, entry::state::abandoned) != nullptr) {
    drop(window);
    return 0;
  }
  entry* const e = find(window, entry::state::binding);
  if (e == nullptr) return 0;
  e->is = entry::state::done;
  if (status != wc_status::success) return 0;
  e->window->rkey = e->key;
  return e->key;
}

void window_table::free(std::uint32_t window) noexcept {
  if (entry* const e = find(window, entry::state::binding); e != nullptr) {
    e->is = entry::state::abandoned;
  } else if (window < entries_.size() && entries_[window].is != entry::state::abandoned) {
    drop(window);
  }
}

void window_table::drop(std::uint32_t window) noexcept {
  CORDMA_REQUIRE_OP(window, <, entries_.size());
  entry& e = entries_[window];
  if (e.is == entry::state::unused) return;
  e.window.reset();
  e.own_region.reset();
  e.is = entry::state::unused;
  free_.push_back(window);
}

void window_table::clear() noexcept {
  for (std::uint32_t w = 0; w < entries_.size(); ++w) drop(w);
  CORDMA_ASSERT_OP(free_.size(), ==, entries_.size());
}

}  // namespace cordma::transport::verbs
