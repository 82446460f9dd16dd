// caller: a RESP client from the view of commands.
#pragma once

#include "monitor.hpp"
#include "transaction.hpp"
#include "users.hpp"

#include "../resp/byte_buffer.hpp"
#include "../resp/reply.hpp"
#include "session.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kv {

// Bound to its worker's thread, except members marked for others: CLIENT LIST and CLIENT KILL on
// other workers read those while they hold the service's registry.
class caller {
 public:
  enum class replies : std::uint8_t { on, off, skip_next, skip };
  enum class kill : std::uint8_t { no, now };

  // Enters itself into the service's registry; the destructor removes it.
  caller(service& of, session_origin from, session::wake_function wake, void* context);
  ~caller();
  caller(const caller&) = delete;
  caller& operator=(const caller&) = delete;

  // Readable by others; constant.
  const std::uint64_t id;
  const session_origin origin;

  byte_buffer out;
  reply_writer reply{out};
  replies mode = replies::on;
  transaction queued;
  bool no_touch = false;
  bool close_when_sent = false;
  // Set while its SHUTDOWN waits: the number of failed endings when it was sent. It receives no
  // reply if the server ends, and an error after one more failure.
  std::optional<std::uint64_t> awaited_ending;

  // Its user; null: not authenticated.
  [[nodiscard]] const user* who() const noexcept { return who_.get(); }
  // True if it may do everything, so that no other right has to be checked.
  [[nodiscard]] bool unlimited() const noexcept { return unlimited_; }
  void become(std::shared_ptr<const user> u);
  // Updates its rights after users have changed. A client is killed if its user no longer exists.
  void refresh_rights();
  // Restores the state of a new connection (RESET).
  void start_over();

  // Readable by others, through the service only: the texts change under the registry's guard.
  struct labels {
    std::string name;
    std::string library;
    std::string library_version;
    std::string user{default_user};
  };
  [[nodiscard]] const labels& said() const noexcept { return labels_; }
  void say(std::string labels::* which, std::string_view text);

  std::atomic<std::int64_t> created_ms{0};
  std::atomic<std::int64_t> seen_ms{0};
  std::atomic<const known_command*> last{nullptr};
  std::atomic<std::size_t> input_bytes{0};
  std::atomic<std::size_t> input_room{0};
  std::atomic<std::size_t> output_bytes{0};
  std::atomic<std::size_t> output_room{0};
  std::atomic<std::uint32_t> queued_commands{0};
  std::atomic<std::uint32_t> watched_keys{0};
  std::atomic<std::uint8_t> protocol{2};
  std::atomic<unsigned> database{0};
  std::atomic<bool> in_transaction{false};
  std::atomic<bool> no_evict{false};
  std::atomic<bool> blocked{false};  // its command waits for the end of CLIENT PAUSE
  std::atomic<kill> killed{kill::no};
  std::atomic<bool> attention{false};  // its wake() is due on its own thread: see service::mark()

  // Commands for it as a monitor; null: it is none. Only service::start_monitor() and
  // stop_monitor() change it.
  std::unique_ptr<monitor_box> monitored;

  void wake() noexcept { wake_(context_); }

 private:
  friend class service;
  service& of_;
  session::wake_function wake_;
  void* context_;
  std::shared_ptr<const user> who_;
  bool unlimited_ = false;
  labels labels_;
};

// Returns its line of CLIENT LIST. For a client of the calling worker, or under the registry's
// guard.
[[nodiscard]] std::string describe(const caller& c, unix_ms now);

}  // namespace kv
