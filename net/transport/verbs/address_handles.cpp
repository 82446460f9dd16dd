#include <cordma/net/transport/verbs/address_handles.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::transport::verbs {

std::size_t address_handles::hash::operator()(const handle_key& k) const noexcept {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::memcpy(&low, &k.gid[0], sizeof low);
  std::memcpy(&high, &k.gid[8], sizeof high);
  return static_cast<std::size_t>((low ^ (high * 0x9E3779B97F4A7C15ULL) ^ k.rest) *
                                  0xD1B54A32D192ED03ULL);
}

void address_handles::use(address_handle& h, requests_so_far now) noexcept {
  h.last_request = now.posted;
  if (h.holders != 0) return;
  h.unlink();
  unheld_.push_back(h);
}

address_handle* address_handles::find(const handle_key& key, requests_so_far now) noexcept {
  const auto at = all_.find(key);
  if (at == all_.end()) return nullptr;
  use(*at->second, now);
  return at->second.get();
}

address_handle* address_handles::find_any(const gid_bytes& gid, std::uint16_t lid,
                                          requests_so_far now) noexcept {
  const auto at = std::ranges::find_if(all_, [&](const auto& entry) {
    return entry.first.gid == gid && entry.first.rest >> 16 == lid;
  });
  if (at == all_.end()) return nullptr;
  use(*at->second, now);
  return at->second.get();
}

address_handle* address_handles::make(const handle_key& key, ibv_ah_attr where,
                                      requests_so_far now) noexcept {
  make_room(now);
  owned<ibv_ah> native(ibv_create_ah(pd_, &where));
  if (native == nullptr) return nullptr;
  try {
    auto made = std::make_unique<address_handle>();
    made->key = key;
    made->native = std::move(native);
    const auto [at, is_new] = all_.emplace(key, std::move(made));
    CORDMA_REQUIRE(is_new);
    address_handle& h = *at->second;
    use(h, now);
    ++unheld_count_;
    return &h;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void address_handles::make_room(requests_so_far now) noexcept {
  while (unheld_count_ >= most_unused_handles) {
    CORDMA_ASSERT(!unheld_.empty());
    const address_handle& oldest = unheld_.front();
    const bool on_device = now.posted - oldest.last_request <= now.posted - now.done;
    if (on_device) return;
    const handle_key gone = oldest.key;
    all_.erase(gone);
    --unheld_count_;
  }
}

void address_handles::hold(address_handle& h) noexcept {
  if (h.holders++ != 0) return;
  CORDMA_ASSERT(h.linked());
  CORDMA_ASSERT_OP(unheld_count_, >, 0U);
  h.unlink();
  --unheld_count_;
}

void address_handles::let_go(address_handle& h, requests_so_far now) noexcept {
  CORDMA_REQUIRE_OP(h.holders, >, 0U);
  if (--h.holders != 0) return;
  CORDMA_ASSERT(!h.linked());
  // At the latest, the previous request used it.
  use(h, {.posted = now.posted - 1, .done = now.done});
  ++unheld_count_;
}

}  // namespace cordma::transport::verbs
