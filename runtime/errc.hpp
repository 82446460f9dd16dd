// The error codes of every cordma call, and their std::error_category.
#pragma once

#include <cstdint>
#include <string_view>
#include <system_error>

namespace cordma {

// One code per kind of remedy: the caller's possible reactions differ from code to code. Values are
// stable: they may be logged and compared between releases; new ones are added at the end.
enum class errc : std::uint8_t {
  ok = 0,
  unknown,
  not_permitted,           // rights are missing, on the region, the connection or the process
  in_use,                  // still referenced, or the address is taken
  not_supported,           // not available in this transport, device or build
  again,                   // a try_ call would have had to wait
  invalid_value,           // an argument breaks a documented rule
  no_memory,               // memory, locked memory, descriptors or slots are exhausted
  initialization,          // could not be set up
  timed_out,               // a deadline passed
  shutdown,                // the object is stopping or was stopped
  connection_reset,        // the peer is disconnected, or the connection broke
  connection_aborted,      // the handshake failed
  connection_in_progress,  // not yet connected
  not_connected,           // never connected, or closed by this side
  no_lock,                 // called from a thread that does not own the object
  not_found,               // no such device, name, address or key
  io_failed,               // the transport reported a failed operation
  bad_state,               // the call is not legal in this state
  unsupported_version,     // the peer or a blob uses another version
  operating_system,        // a system call failed; see os_errno
  driver,                  // a library or driver below failed
  unexpected,              // an internal error; please report
  in_progress,             // started, not finished
  full,                    // a configured maximum is reached
  already_exists,          // created before
  canceled,                // withdrawn on request before it took effect
  flushed,                 // cut off, or never begun: the connection ended first, see cause()
  rejected,                // the peer refused
  unreachable,             // no route, no listener, or no transport in common
  truncated,               // the message was longer than the receive buffer
  remote_access,           // the peer's memory protection refused the access
  remote_not_ready,        // the peer posted no receive within the configured time
};
inline constexpr int errc_count = static_cast<int>(errc::remote_not_ready) + 1;

// The name of the code, spelled as above.
[[nodiscard]] std::string_view name(errc code) noexcept;
// One sentence for people, without a full stop.
[[nodiscard]] std::string_view sentence(errc code) noexcept;
// Every errno value maps to exactly one code; unlisted ones to errc::operating_system.
[[nodiscard]] errc from_errno(int os_errno) noexcept;

[[nodiscard]] const std::error_category& category() noexcept;
[[nodiscard]] inline std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), category()};
}

}  // namespace cordma

template <>
struct std::is_error_code_enum<cordma::errc> : std::true_type {};
