#include <cordma/net/memory.hpp>

#include <cordma/net/memory/blob.hpp>
#include <cordma/net/memory/context_core.hpp>
#include <cordma/net/memory/key_names.hpp>
#include <cordma/net/memory/region_core.hpp>

#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace cordma {
namespace detail {

void retain(region_core& region) noexcept {
  const std::uint32_t before = region.references.fetch_add(1, std::memory_order_relaxed);
  CORDMA_ASSERT_OP(before, >, 0U);
}

void release(region_core& region) noexcept {
  const std::uint32_t before = region.references.fetch_sub(1, std::memory_order_acq_rel);
  CORDMA_ASSERT_OP(before, >, 0U);
  if (before == 1) delete &region;
}

void require_host(const region_core& region) noexcept {
  const auto kind = static_cast<int>(region.range.memory);
  constexpr auto host = static_cast<int>(memory_kind::host);
  CORDMA_REQUIRE_OP(kind, ==, host);
}

region_core::~region_core() {
  CORDMA_ASSERT_OP(references.load(std::memory_order_relaxed), <=, 1U);
  // In a child of fork() the registrations belong to the parent.
  if (context != nullptr && !context->process.inherited()) {
    for (const auto& d : context->domains) {
      const auto k = static_cast<std::size_t>(d->caps().transport);
      if (keys[k].lkey != 0) d->deregister_memory(keys[k].lkey);
    }
    std::size_t place = transport::kind_count;
    for (const auto& d : context->rail_domains) {
      if (keys[place].lkey != 0) d->deregister_memory(keys[place].lkey);
      ++place;
    }
  }
  if (owns_memory) {
    CORDMA_ASSERT_OP(mapped_bytes, >=, range.addr != nullptr ? range.length : 0);
    ::munmap(range.addr, mapped_bytes);
    if (range.shared_fd >= 0) ::close(range.shared_fd);
  }
}

blob describe(const region_core& region, std::span<const std::byte> memory,
              transport::access rights) noexcept {
  blob b;
  b.addr = reinterpret_cast<std::uintptr_t>(memory.data());
  b.length = memory.size();
  b.rights = static_cast<access>(static_cast<unsigned>(rights) & blob::rights_bits);
  b.memory = static_cast<std::uint8_t>(region.range.memory);
  b.device = region.range.device;
  return b;
}

result<transport::remote_keys> keys_of(const region_core& region) {
  const auto& domains = region.context->domains;
  if (domains.size() > transport::remote_keys::most) {
    return failure{errc::invalid_value, "the memory has keys of " + std::to_string(domains.size()) +
                                            " transports, a blob holds " +
                                            std::to_string(transport::remote_keys::most) +
                                            ": make it with a Context of fewer transports"};
  }
  transport::remote_keys keys;
  for (const auto& d : domains) {
    const transport::kind k = d->caps().transport;
    const std::uint64_t key = region.keys[static_cast<std::size_t>(k)].rkey;
    if (key != 0) keys.add(k, key);
  }
  if (keys.size() == 0) return failure{errc::invalid_value, "no transport has a key to the memory"};
  return keys;
}

}  // namespace detail

std::byte* MemoryRegion::data() const noexcept {
  return core_ != nullptr ? core_->range.addr : nullptr;
}
std::size_t MemoryRegion::size() const noexcept {
  return core_ != nullptr ? core_->range.length : 0;
}
std::span<std::byte> MemoryRegion::bytes() const noexcept {
  if (core_ == nullptr) return {};
  detail::require_host(*core_);
  return {core_->range.addr, core_->range.length};
}
memory_kind Slice::kind() const noexcept {
  return region_ != nullptr ? region_->range.memory : memory_kind::host;
}
memory_kind MemoryRegion::kind() const noexcept {
  return core_ != nullptr ? core_->range.memory : memory_kind::host;
}
std::uint16_t MemoryRegion::device() const noexcept {
  return core_ != nullptr ? core_->range.device : std::uint16_t{0};
}
access MemoryRegion::rights() const noexcept {
  return core_ != nullptr ? core_->range.rights : access::local_read;
}

std::uint32_t MemoryRegion::lkey(transport::kind k) const noexcept {
  return core_ != nullptr ? core_->keys[static_cast<std::size_t>(k)].lkey : 0;
}

result<ibv_mr*> MemoryRegion::native_mr() const {
  if (core_ == nullptr) return failure{errc::bad_state, "this MemoryRegion is empty"};
  const result<void> usable = core_->context->usable();
  if (!usable) return usable.why();
  for (const auto& d : core_->context->domains) {
    if (!d->caps().has_native_handles) continue;
    return d->native_mr(lkey(d->caps().transport));
  }
  return detail::no_native_handles();
}

namespace {

// Separate, so that slice() does not save registers.
[[gnu::noinline, gnu::cold]] failure no_such_part(std::uint64_t offset, std::uint64_t length,
                                                  const char* of, std::uint64_t size) {
  return failure::of(errc::invalid_value, {"slice of ", length, " bytes at offset ", offset,
                                           " leaves the ", of, " of ", size, " bytes"});
}

}  // namespace

result<Slice> MemoryRegion::slice(std::size_t offset, std::size_t length) const {
  if (offset > size() || length > size() - offset) [[unlikely]]
    return no_such_part(offset, length, "region", size());
  return Slice(core_, data() + offset, length);
}

static_assert(RemoteMemory::blob_bytes == detail::blob::bytes);

result<std::vector<std::byte>> MemoryRegion::export_blob() const {
  if (core_ == nullptr) return failure{errc::bad_state, "this MemoryRegion is empty"};
  const result<void> usable = core_->context->usable();
  if (!usable) return usable.why();
  const auto remote =
      static_cast<unsigned>(rights()) & static_cast<unsigned>(transport::all_remote);
  if (remote == 0) {
    return failure{errc::not_permitted,
                   "the region grants no remote right: make it with access::remote_read, "
                   "remote_write or remote_atomic to export it"};
  }
  const result<transport::remote_keys> keys = detail::keys_of(*core_);
  if (!keys) return keys.why();
  detail::blob b = detail::describe(*core_, {data(), size()}, rights());
  b.keys = *keys;
  std::vector<std::byte> exported(RemoteMemory::blob_bytes);
  detail::encode(b, std::span<std::byte, RemoteMemory::blob_bytes>(exported));
  return exported;
}

result<void> MemoryRegion::deregister() {
  if (core_ == nullptr) return {};
  const result<void> usable = core_->context->usable();
  if (!usable) return usable;
  if (core_->references.load(std::memory_order_acquire) != 1) {
    return failure{errc::in_use,
                   "the region is still held by other handles, pool buffers, windows or "
                   "operations in flight"};
  }
  detail::release(*std::exchange(core_, nullptr));
  return {};
}

result<RemoteSlice> RemoteSlice::slice(std::uint64_t offset, std::uint64_t length) const {
  if (offset > size_ || length > size_ - offset) [[unlikely]]
    return no_such_part(offset, length, "remote memory", size_);
  return RemoteSlice(addr_ + offset, length, keys_);
}

result<RemoteMemory> RemoteMemory::import(std::span<const std::byte> bytes) {
  const result<detail::blob> b = detail::decode(bytes);
  if (!b) return b.why();
  RemoteMemory memory;
  memory.whole_ = RemoteSlice(b->addr, b->length, b->keys);
  memory.rights_ = b->rights;
  return memory;
}

std::size_t RemoteMemory::skipped() const noexcept { return detail::unknown_among(whole_.keys()); }

}  // namespace cordma
