// caller: a RESP client as commands see it.
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

// Bound to its worker's thread, but for what is said to be for others: CLIENT LIST and CLIENT KILL of other workers'
// clients read that, while they hold the service's registry.
class caller {
 public:
  enum class replies : std::uint8_t { on, off, skip_next, skip };
  enum class kill : std::uint8_t { no, now };

  // Enters the service's registry, and leaves it.
  caller(service& of, session_origin from, session::wake_function wake, void* context);
  ~caller();
  caller(const caller&) = delete;
  caller& operator=(const caller&) = delete;

  // For others; constant.
  const std::uint64_t id;
  const session_origin origin;

  byte_buffer out;
  reply_writer reply{out};
  replies mode = replies::on;
  transaction queued;
  bool no_touch = false;
  bool close_when_sent = false;
  // It asked the server to end, when so many endings had failed: its answer is its end, or an error after one more.
  std::optional<std::uint64_t> awaited_ending;

  // Who it is; null: nobody yet.
  [[nodiscard]] const user* who() const noexcept { return who_.get(); }
  // May do everything: nothing else has to be asked about its rights.
  [[nodiscard]] bool unlimited() const noexcept { return unlimited_; }
  void become(std::shared_ptr<const user> u);
  // After users have changed: what it may do now; a client whose user is gone or not enabled any more is killed.
  void refresh_rights();
  // Back to what it was when it came (RESET).
  void start_over();

  // For others too. Texts change under the registry's guard: call only through the service.
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
  std::atomic<bool> attention{false};  // its wake() is due, on its own thread: see service::mark()

  // Commands that it is to see; null: it is no monitor. Changes by service::start_monitor() and stop_monitor() alone.
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

// As CLIENT LIST has it. For a client of the own thread's worker, or under the registry's guard.
[[nodiscard]] std::string describe(const caller& c, unix_ms now);

}  // namespace kv
