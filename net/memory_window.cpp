#include <cordma/net/memory_window.hpp>

#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/window_core.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/memory/blob.hpp>

#include <new>
#include <string>

namespace cordma {
namespace detail {

void window_deleter::operator()(window_core* window) const noexcept {
  const endpoint_core* const e = window->endpoint();
  if (e != nullptr && e->worker() != nullptr) e->worker()->enter_to_destroy();
  delete window;
}

void window_core::end() noexcept {
  is_bound_ = false;
  unlink();
  endpoint_core* const e = std::exchange(endpoint_, nullptr);
  CORDMA_ASSERT(e == nullptr || region_ != nullptr);
  if (e != nullptr && e->pair() != nullptr) e->pair()->free_window(name_);
  if (region_ != nullptr) detail::release(*std::exchange(region_, nullptr));
}

void window_core::enter(endpoint_core& e, std::uint32_t name) noexcept {
  CORDMA_ASSERT(endpoint_ == nullptr && region_ != nullptr);
  name_ = name;
  endpoint_ = &e;
  e.add(*this);
}

void endpoint_core::invalidated(std::uint64_t key) noexcept {
  windows_.for_each([key](window_core& w) {
    if (w.key() == key) w.end();
  });
}

void endpoint_core::forget_windows() noexcept {
  while (!windows_.empty()) windows_.pop_front().forget();
}

bind_base::bind_base(endpoint_core& endpoint, const MemoryRegion& region, std::size_t offset,
                     std::size_t length, access rights) noexcept
    : post_base(endpoint, transport::opcode::bind, aside::window) {
  const result<void> fine = check(region, offset, length, rights);
  if (!fine) {
    refuse(fine.why());
    return;
  }
  try {
    window_.reset(
        new window_core(*region.all().region(), {region.data() + offset, length}, rights));
  } catch (const std::bad_alloc&) {
    refuse(errc::no_memory);
    return;
  }
  regions_[0] = window_->region();
}

// In flight, the slot keeps the region until the completion, and the transport keeps the window.
bind_base::~bind_base() {
  if (slot_ != nullptr) leave_slot();
}

result<void> bind_base::check(const MemoryRegion& region, std::size_t offset, std::size_t length,
                              access rights) const {
  const region_core* const core = region.all().region();
  if (core == nullptr || core->context != endpoint_->context()) {
    return failure{errc::invalid_value, "a window needs a MemoryRegion of the same Context"};
  }
  if (length == 0 || offset > region.size() || length > region.size() - offset) {
    return failure{errc::invalid_value, "a window of " + std::to_string(length) +
                                            " bytes at offset " + std::to_string(offset) +
                                            ": it takes at least one byte, and all of them in "
                                            "the region of " +
                                            std::to_string(region.size()) + " bytes"};
  }
  const auto bits = static_cast<unsigned>(rights);
  if (bits == 0 || (bits & ~static_cast<unsigned>(transport::all_remote)) != 0) {
    return failure{errc::invalid_value,
                   "a window grants remote_read, remote_write or remote_atomic, and nothing else"};
  }
  if (!has(region.rights(), access::mw_bind)) {
    return failure{errc::not_permitted, "the region lacks access::mw_bind: make it with that"};
  }
  if (!has(region.rights(), rights)) {
    return failure{errc::not_permitted, "the window would grant more than its region does"};
  }
  if (endpoint_->is_unwired()) {
    return failure{errc::not_connected, "a window needs a connection: await state_changed() first"};
  }
  return {};
}

result<void> bind_base::prepare() noexcept {
  CORDMA_ASSERT(window_ != nullptr && window_->region() != nullptr);
  const transport::window_range range{.addr = window_->bytes().data(),
                                      .length = window_->bytes().size(),
                                      .lkey = window_->region()->keys[endpoint_->kind()].lkey,
                                      .rights = window_->rights()};
  const result<std::uint32_t> name = endpoint_->pair()->make_window(range);
  if (!name) return name.why();
  window_->enter(*endpoint_, *name);
  request_.operand = *name;
  return {};
}

void bind_base::bound(std::uint64_t key) noexcept {
  CORDMA_ASSERT(window_ != nullptr && !window_->is_bound());
  window_->bind(key);
}

}  // namespace detail

MemoryWindow::operator bool() const noexcept {
  return core_ != nullptr && core_->is_bound() && core_->endpoint() != nullptr &&
         core_->endpoint()->state() != endpoint_state::closed;
}
std::size_t MemoryWindow::size() const noexcept {
  return core_ != nullptr ? core_->bytes().size() : 0;
}
access MemoryWindow::rights() const noexcept {
  return core_ != nullptr ? core_->rights() : access::local_read;
}
std::uint64_t MemoryWindow::key() const noexcept { return core_ != nullptr ? core_->key() : 0; }

result<std::vector<std::byte>> MemoryWindow::export_blob() const {
  if (!*this) return failure{errc::bad_state, "this MemoryWindow has ended, or is empty"};
  detail::blob b =
      detail::describe(*core_->region(), core_->bytes(), transport::normalized(core_->rights()));
  b.keys.add(core_->endpoint()->caps().transport, core_->key());
  std::vector<std::byte> bytes(RemoteMemory::blob_bytes);
  detail::encode(b, std::span<std::byte, RemoteMemory::blob_bytes>(bytes));
  return bytes;
}

result<void> MemoryWindow::release() noexcept {
  if (core_ == nullptr) return {};
  const detail::endpoint_core* const e = core_->endpoint();
  if (e != nullptr && e->home() != nullptr && !e->home()->on_owner_thread())
    return e->home()->wrong_thread(detail::endpoint_rule);
  core_->end();
  return {};
}

}  // namespace cordma
