// RemoteMemory::import never trusts its input, and accepts only blobs that export_blob() writes.
// The same holds for the blob of a SyncEvent, which contains a blob of memory.
#include <cordma/net/memory.hpp>
#include <cordma/net/memory/blob.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace {

void sync_event(std::span<const std::byte> in) {
  const cordma::result<cordma::detail::sync_blob> decoded = cordma::detail::decode_sync(in);
  if (!decoded.ok()) {
    if (decoded.why().message().empty()) std::abort();
    return;
  }
  std::array<std::byte, cordma::detail::sync_blob::bytes> again{};
  cordma::detail::encode(*decoded, again);
  if (!std::equal(again.begin(), again.end(), in.begin(), in.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> in(reinterpret_cast<const std::byte*>(data), size);
  sync_event(in);
  const cordma::result<cordma::RemoteMemory> memory = cordma::RemoteMemory::import(in);
  const cordma::result<cordma::detail::blob> decoded = cordma::detail::decode(in);
  if (memory.ok() != decoded.ok()) std::abort();
  if (!decoded.ok()) {
    if (decoded.why().message().empty()) std::abort();
    return 0;
  }
  // An accepted blob is encoded again to the same bytes.
  std::array<std::byte, cordma::detail::blob::bytes> again{};
  cordma::detail::encode(*decoded, again);
  if (!std::equal(again.begin(), again.end(), in.begin(), in.end())) std::abort();
  if (memory->skipped() > memory->all().keys().size()) std::abort();
  if (memory->slice(0, memory->size()).ok() != true) std::abort();
  if (memory->slice(1, memory->size()).ok()) std::abort();
  return 0;
}
