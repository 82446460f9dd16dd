// Two sides of UCX in one process, as two processes would have them, progressed by one thread in turn.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ucx {

inline constexpr unsigned am_id = 1;
inline constexpr std::size_t largest = 4096;  // bytes of a message, and of the remote memory

struct side {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_ep_h to_other = nullptr;
  int active_messages = 0;  // come
  std::array<std::byte, largest> out{};
  std::array<std::byte, largest> in{};
};

// Throws std::runtime_error with UCX's reason.
void check(ucs_status_t status, const char* what);

// It lives until the process ends, which is a child that counts: UCX is not taken down.
class pair {
 public:
  // `tls` as UCX_TLS names transports.
  explicit pair(const std::string& tls);
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;

  side near;
  side far;
  std::uint64_t remote_address = 0;  // of memory of the far side
  ucp_rkey_h remote_key = nullptr;   // for the near one

  // Until `done()` holds. What is waited for comes to `first`, which is progressed before the other side.
  template <class Done>
  void progress_until(const side& first, Done done) {
    const side& second = &first == &near ? far : near;
    while (!done()) {
      ucp_worker_progress(first.worker);
      if (done()) return;
      ucp_worker_progress(second.worker);
    }
  }
  // What a call of UCX returned: null, a request, or an error, which is thrown.
  void wait(ucs_status_ptr_t request, const side& first) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "an operation");
    progress_until(first,
                   [request] { return ucp_request_check_status(request) != UCS_INPROGRESS; });
    check(ucp_request_check_status(request), "an operation");
    ucp_request_free(request);
  }
};

}  // namespace ucx
