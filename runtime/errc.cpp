#include <cordma/runtime/errc.hpp>

#include <array>
#include <cerrno>
#include <string>

namespace cordma {
namespace {

struct entry {
  errc code;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array<entry, errc_count> table{{
    {errc::ok, "ok", "success"},
    {errc::unknown, "unknown", "unknown failure"},
    {errc::not_permitted, "not_permitted", "not permitted"},
    {errc::in_use, "in_use", "still in use"},
    {errc::not_supported, "not_supported", "not supported here"},
    {errc::again, "again", "would have to wait"},
    {errc::invalid_value, "invalid_value", "invalid argument"},
    {errc::no_memory, "no_memory", "out of memory, descriptors or slots"},
    {errc::initialization, "initialization", "could not be set up"},
    {errc::timed_out, "timed_out", "timed out"},
    {errc::shutdown, "shutdown", "shut down"},
    {errc::connection_reset, "connection_reset", "connection broken by the peer or the network"},
    {errc::connection_aborted, "connection_aborted", "the handshake failed"},
    {errc::connection_in_progress, "connection_in_progress", "not yet connected"},
    {errc::not_connected, "not_connected", "not connected"},
    {errc::no_lock, "no_lock", "called from a thread that does not own the object"},
    {errc::not_found, "not_found", "not found"},
    {errc::io_failed, "io_failed", "the transport reported a failed operation"},
    {errc::bad_state, "bad_state", "not legal in this state"},
    {errc::unsupported_version, "unsupported_version", "another version"},
    {errc::operating_system, "operating_system", "a system call failed"},
    {errc::driver, "driver", "a driver or library below failed"},
    {errc::unexpected, "unexpected", "unexpected failure, please report"},
    {errc::in_progress, "in_progress", "started, not finished"},
    {errc::full, "full", "a configured maximum is reached"},
    {errc::already_exists, "already_exists", "already exists"},
    {errc::canceled, "canceled", "canceled before it took effect"},
    {errc::flushed, "flushed", "cut off, or never begun, because the connection ended first"},
    {errc::rejected, "rejected", "rejected by the peer"},
    {errc::unreachable, "unreachable", "unreachable"},
    {errc::truncated, "truncated", "the message is longer than the receive: post larger ones"},
    {errc::remote_access, "remote_access",
     "refused by the peer's memory protection: check rights and range, and that the "
     "region is still registered there"},
    {errc::remote_not_ready, "remote_not_ready", "the peer posted no receive in time"},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (static_cast<std::size_t>(table[i].code) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by code");

const entry& look_up(int code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return i < table.size() ? table[i] : table[static_cast<std::size_t>(errc::unknown)];
}

class cordma_category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "cordma"; }
  std::string message(int code) const override { return std::string(look_up(code).sentence); }
};

}  // namespace

std::string_view name(errc code) noexcept { return look_up(static_cast<int>(code)).name; }
std::string_view sentence(errc code) noexcept { return look_up(static_cast<int>(code)).sentence; }

errc from_errno(int os_errno) noexcept {
  switch (os_errno) {
    case 0: return errc::ok;
    case EPERM:
    case EACCES: return errc::not_permitted;
    case EADDRINUSE:
    case EBUSY: return errc::in_use;
    case EOPNOTSUPP:
    case ENOSYS:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT: return errc::not_supported;
    case EAGAIN: return errc::again;
    case EINVAL:
    case EBADF:
    case EFAULT: return errc::invalid_value;
    case ENOMEM:
    case ENOSPC:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOBUFS: return errc::no_memory;
    case ETIMEDOUT: return errc::timed_out;
    case ESHUTDOWN: return errc::shutdown;
    case ECONNRESET:
    case EPIPE: return errc::connection_reset;
    case ECONNABORTED: return errc::connection_aborted;
    case EINPROGRESS:
    case EALREADY: return errc::connection_in_progress;
    case ENOTCONN: return errc::not_connected;
    case ENOENT:
    case ENODEV:
    case ENXIO: return errc::not_found;
    case EIO: return errc::io_failed;
    case EEXIST: return errc::already_exists;
    case ECANCELED: return errc::canceled;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL: return errc::unreachable;
    case EMSGSIZE: return errc::truncated;
    default: return errc::operating_system;
  }
}

const std::error_category& category() noexcept {
  static const cordma_category instance;
  return instance;
}

}  // namespace cordma
