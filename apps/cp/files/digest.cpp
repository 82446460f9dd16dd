#include "digest.hpp"

#include <cerrno>
#include <memory>
#include <new>

#include <unistd.h>

#ifdef CORDMA_XXHASH_DISPATCHES
// <xxh_x86dispatch.h> and XXH_INLINE_ALL exclude each other.
extern "C" XXH64_hash_t XXH3_64bits_dispatch(const void* input, size_t bytes);
#endif

namespace copy {

std::uint64_t digest_of(std::span<const std::byte> bytes) noexcept {
#ifdef CORDMA_XXHASH_DISPATCHES
  return XXH3_64bits_dispatch(bytes.data(), bytes.size());
#else
  return XXH3_64bits(bytes.data(), bytes.size());
#endif
}

int digest_of_file(int fd, file_digest& into, const std::atomic<bool>& canceled) noexcept {
  constexpr std::size_t at_a_time = 256U << 10;  // bytes, few enough for the cache
  const std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[at_a_time]);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  if (!bytes || !state) return ENOMEM;
  XXH3_128bits_reset(state.get());
  for (off_t at = 0;;) {
    if (canceled) return ECANCELED;
    const ssize_t n = ::pread(fd, bytes.get(), at_a_time, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) break;
    XXH3_128bits_update(state.get(), bytes.get(), static_cast<std::size_t>(n));
    at += n;
  }
  const XXH128_hash_t all = XXH3_128bits_digest(state.get());
  into = {all.low64, all.high64};
  return 0;
}

}  // namespace copy
