// Two sides of UCX in one process, as in two processes, progressed alternately by one thread.
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
  int active_messages = 0;  // number of arrived active messages
  std::array<std::byte, largest> out{};
  std::array<std::byte, largest> in{};
};

// Throws std::runtime_error with UCX's reason.
void check(ucs_status_t status, const char* what);

// Lives until the process ends, which is a child that counts: UCX is not shut down.
class pair {
 public:
  // `tls`: transports, named as in UCX_TLS.
  explicit pair(const std::string& tls);
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;

  side near;
  side far;
  std::uint64_t remote_address = 0;  // of memory of the far side
  ucp_rkey_h remote_key = nullptr;   // used by the near side

  // Progresses both until `done()` is true. The awaited event arrives at `first`, which is
  // progressed before the other side.
  template <class Done>
  void progress_until(const side& first, Done done) {
    const side& second = &first == &near ? far : near;
    while (!done()) {
      ucp_worker_progress(first.worker);
      if (done()) return;
      ucp_worker_progress(second.worker);
    }
  }
  // Waits for the result of a UCX call: null, a request, or an error, which is thrown.
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
