// service: the state that clients of a server share: keys, settings, users, statistics, and the
// hooks into main.
#pragma once

#include "../keyspace/counters.hpp"
#include "../keyspace/journal_gate.hpp"
#include "../keyspace/keyspace.hpp"
#include "acl_log.hpp"
#include "caller.hpp"
#include "command.hpp"
#include "latency.hpp"
#include "lock_script.hpp"
#include "settings.hpp"
#include "slowlog.hpp"
#include "users.hpp"

#include <cordma/runtime/clock.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// How to end the server.
struct shutdown_request {
  enum class snapshot : std::uint8_t { as_configured, yes, no };
  snapshot save = snapshot::as_configured;
  bool force = false;  // even if data cannot be kept
};

// Durability fields of INFO.
struct persistence_info {
  bool loading = false;
  std::uint64_t changes_since_save = 0;
  bool save_in_progress = false;
  std::uint64_t last_save = 0;  // seconds since 1970
  bool last_save_failed = false;
  std::uint64_t saves = 0;   // since the start
  double save_seconds = -1;  // duration of the last one; negative: none yet
  bool log_enabled = false;
  bool rewrite_in_progress = false;
  bool last_rewrite_failed = false;
  std::uint64_t rewrites = 0;
  double rewrite_seconds = -1;
  bool last_write_failed = false;
  std::string last_log_error;  // empty: none
  std::uint64_t log_bytes = 0;
  std::uint64_t log_base_bytes = 0;
};

// A response from main: text for the client, after "+" or "-ERR ".
struct hook_answer {
  bool done = true;
  std::string text;
};

// Filled in by main before the first session; commands for an empty hook reply with an error.
// Called on a worker's thread and, except save, possibly while it holds shards: a hook must not
// wait for one.
struct service_hooks {
  // Requests a call of attend(worker) on that worker's thread. From any thread.
  std::function<void(unsigned worker)> attend;
  // Requests the end of the server. Not done: the reason.
  std::function<hook_answer(shutdown_request)> shutdown;
  // SAVE: complete on return. Called without any shard held.
  std::function<hook_answer()> save;
  std::function<hook_answer()> background_save;
  // All keys were erased: erases the last snapshot too, if snapshots are made.
  std::function<hook_answer()> drop_snapshot;
  std::function<hook_answer()> rewrite_log;
  std::function<persistence_info()> persistence;
  // Called before new settings apply. Returns an empty string, or the reason to refuse them.
  std::function<std::string(const settings& before, const settings& after)> settings_change;
  // Much memory was freed: the allocator may return its cache to the system. Does not wait.
  std::function<void()> much_was_freed;
  // Writes a line to the log, as a warning.
  std::function<void(std::string_view line)> warn;
  // Number of clients outside of this service; empty: none.
  std::function<std::size_t()> native_clients;
  // Lines for INFO: "name:value\r\n"; appended to the service's sections, and for other sections:
  // "native".
  std::function<std::string(std::string_view section)> more_info;
};

struct service_options {
  unsigned workers = 1;
  std::string config_file;                                  // for CONFIG REWRITE; empty: none
  cordma::clock* time = nullptr;                            // null: the real clock
  unix_ms (*wall_clock)(void* context) noexcept = nullptr;  // null: the system's
  void* wall_context = nullptr;
};

// Any thread, except functions that take a worker: these are for that worker's thread.
class service {
 public:
  // Applies maxmemory and its policy to the keyspace, the lines of users, and requirepass to the
  // default user. Throws cordma::error (invalid_value: a user's rules).
  service(keyspace& keys, const parsed_settings& initial, service_options options);
  ~service();
  service(const service&) = delete;
  service& operator=(const service&) = delete;

  service_hooks hooks;
  journal_gate* journal = nullptr;    // null: changes are not logged
  std::atomic<bool> loading = false;  // commands are refused with LOADING
  // Number of times that the server did not end because not all data could be kept.
  std::atomic<std::uint64_t> failed_endings = 0;

  [[nodiscard]] keyspace& keys() noexcept { return keys_; }
  [[nodiscard]] const command_table& commands() const noexcept { return commands_; }
  [[nodiscard]] users& accounts() noexcept { return users_; }
  // Replaces the users by those of aclfile, all or nothing. Returns an empty string, or the reason
  // of a failure. Has no effect without aclfile.
  [[nodiscard]] std::string load_users();
  // The same in two steps. The first may take long and fail; `found` is null without aclfile. The
  // second does neither.
  [[nodiscard]] std::string read_users(std::unique_ptr<users>& found) const;
  void take_users(const std::unique_ptr<users>& found);
  // Applies the users of the configuration, which had `before` at the last read; as
  // users::configure().
  [[nodiscard]] std::string configure_users(std::span<const std::string> before,
                                            std::span<const std::string> lines);
  [[nodiscard]] slowlog& slow() noexcept { return slow_; }
  [[nodiscard]] script_cache& scripts() noexcept { return scripts_; }
  [[nodiscard]] latency_log& latency() noexcept { return latency_; }
  [[nodiscard]] acl_log& denials() noexcept { return denials_; }
  // Guards writes of the configuration file and aclfile: held from before the data is read until
  // the file is written.
  [[nodiscard]] std::mutex& files_guard() noexcept { return files_guard_; }
  // Records the new content of the configuration file. REQUIRES the files_guard().
  void rewrote(std::string text) { rewritten_ = std::move(text); }
  // Returns the content written since the last call; empty: none.
  [[nodiscard]] std::string take_rewritten();
  [[nodiscard]] const service_options& options() const noexcept { return options_; }

  // Settings. The reference is valid until the worker's next call of current().
  [[nodiscard]] const settings& current(unsigned worker);
  [[nodiscard]] std::shared_ptr<const settings> snapshot() const;
  // Replaces all settings (CONFIG SET, a reload) and applies them. REQUIRES that the caller holds
  // all shards. Returns an empty string, or the reason of a failure.
  [[nodiscard]] std::string replace(settings next);

  // Time of the last read; sessions read it when bytes arrive.
  void read_time(unsigned worker) noexcept;
  [[nodiscard]] unix_ms now_ms(unsigned worker) const noexcept { return at(worker).now_ms; }
  [[nodiscard]] cordma::time_point now(unsigned worker) const noexcept { return at(worker).now; }
  void went_on(unsigned worker, cordma::time_point now) noexcept { at(worker).now = now; }
  [[nodiscard]] cordma::time_point read_clock() noexcept { return time_.now(); }
  [[nodiscard]] std::uint64_t read_wall_clock_us() const noexcept;
  [[nodiscard]] unix_ms read_wall_clock() const noexcept { return read_wall_clock_us() / 1000; }
  [[nodiscard]] unix_ms started_ms() const noexcept { return started_ms_; }
  [[nodiscard]] std::chrono::seconds uptime() const noexcept {
    return std::chrono::duration_cast<std::chrono::seconds>(time_.now() - started_);
  }

  // Called about ten times a second per worker: expires keys of its shards, resumes clients after a
  // pause, samples for INFO. Returns true if more keys are to expire: call it again soon.
  bool tick(unsigned worker);
  // durable(), waits() or backlogged() of the journal has changed: wakes sessions of this worker
  // that wait for it.
  void journal_advanced(unsigned worker);
  // Handles a request of another thread through hooks.attend: wakes clients that were killed or
  // resumed.
  void attend(unsigned worker);

  [[nodiscard]] worker_counters& counters(unsigned worker) noexcept { return at(worker).counters; }
  [[nodiscard]] unsigned workers() const noexcept { return options_.workers; }
  // Differs for each start: 40 hexadecimal digits.
  [[nodiscard]] const std::string& run_id() const noexcept { return run_id_; }
  // Bytes that the empty shards took.
  [[nodiscard]] std::size_t bytes_at_start() const noexcept { return bytes_at_start_; }
  // Sums over all workers.
  [[nodiscard]] std::uint64_t total(relaxed_counter worker_counters::* which) const noexcept;
  [[nodiscard]] std::uint64_t total(std::size_t command,
                                    relaxed_counter command_counters::* which) const noexcept;
  struct rates {
    std::uint64_t commands = 0;
    std::uint64_t input_bytes = 0;
    std::uint64_t output_bytes = 0;
  };
  // Recent rates, per second.
  [[nodiscard]] rates per_second() const noexcept;
  // Returns the peak bytes of the shards, as seen by ticks and by callers; `now` is the current
  // number.
  [[nodiscard]] std::size_t peak_bytes(std::size_t now) noexcept;
  void count_error(unsigned worker, std::string_view reply);  // "-ERR ..."
  [[nodiscard]] std::map<std::string, std::uint64_t, std::less<>> errors() const;
  void reset_statistics();

  // Clients. for_each_client() visits them in the order of connecting; `each` may not end one.
  [[nodiscard]] std::size_t clients() const noexcept {
    return clients_.load(std::memory_order_relaxed);
  }
  void for_each_client(const std::function<void(caller&)>& each);
  // Running totals of all clients, which avoid a walk over them. Each client's own thread reports
  // changes.
  struct client_figures {
    std::size_t blocked = 0;
    std::size_t room_bytes = 0;    // capacity of input and output buffers
    std::size_t recent_input = 0;  // the most unread bytes of one client in the last two seconds
    std::size_t recent_output = 0;
  };
  [[nodiscard]] client_figures figures_of_clients() const noexcept;
  void client_waits(caller& c) noexcept;
  void client_goes_on(caller& c) noexcept;
  struct client_buffers {
    std::size_t input_bytes = 0;
    std::size_t input_room = 0;
    std::size_t output_bytes = 0;
    std::size_t output_room = 0;
  };
  void show_buffers(caller& c, const client_buffers& now) noexcept;
  // Schedules its wake() for the next journal_advanced() or attend(), which visit only marked
  // clients. On its own thread.
  void mark(caller& c) noexcept;
  // Marks a client to be closed, within for_each_client(); rouse(), called after that, wakes it.
  static void end_client(caller& c) noexcept;
  void rouse(unsigned from_worker);

  // It receives all commands from now on, or no more. On its own thread.
  void start_monitor(caller& c);
  void stop_monitor(caller& c) noexcept;
  [[nodiscard]] bool has_monitors() const noexcept {
    return monitors_.load(std::memory_order_relaxed) != 0;
  }
  // Sends a command that `who` ran to all monitors. Ends a monitor that has too much unread.
  void show_monitors(const caller& who, std::span<const std::string_view> args);

  // Commands that have to wait: because of CLIENT PAUSE, or of a journal that has too much to
  // write.
  enum class paused : std::uint8_t { none, writes, all };
  void pause(cordma::time_point until, paused what) noexcept;
  void resume_all(unsigned from_worker);
  [[nodiscard]] paused pausing(unsigned worker) const noexcept;
  // True during CLIENT PAUSE: nothing is erased then, not even expired keys.
  [[nodiscard]] bool is_still(unsigned worker) const noexcept {
    return paused_by_client(worker) != paused::none;
  }

 private:
  friend class caller;
  struct sample {
    cordma::time_point when{};
    rates so_far;
  };
  struct alignas(64) worker_state {
    unix_ms now_ms = 0;
    cordma::time_point now{};
    std::shared_ptr<const settings> settings_seen;
    std::uint64_t settings_generation = 0;
    std::mutex guard;  // for the registry
    std::map<std::uint64_t, caller*> callers;
    std::vector<caller*> monitors;
    std::atomic<std::size_t> monitor_count = 0;  // for a check without the guard
    std::vector<std::uint64_t> marked;  // ids of clients with attention set; some may have left
    bool all_marked = false;            // out of memory to record ids
    sample last_sample;
    std::atomic<std::uint64_t> commands_per_second = 0;
    std::atomic<std::uint64_t> input_per_second = 0;
    std::atomic<std::uint64_t> output_per_second = 0;
    std::atomic<std::size_t> peak_bytes = 0;  // of the shards that it sweeps
    // Longest buffers of clients, in this second and in the previous one.
    std::array<std::atomic<std::size_t>, 2> longest_input{};
    std::array<std::atomic<std::size_t>, 2> longest_output{};
    std::size_t object_bytes = 0;  // of its shards, the most since much_was_freed()
    worker_counters counters;
  };

  [[nodiscard]] worker_state& at(unsigned worker) noexcept { return *workers_[worker]; }
  [[nodiscard]] const worker_state& at(unsigned worker) const noexcept { return *workers_[worker]; }
  void enter(caller& c);
  void leave(caller& c) noexcept;
  void require_password();
  void take_sample(worker_state& w) noexcept;
  void note_sweep(unsigned worker, cordma::time_point began);
  void mind_freed(worker_state& w, std::size_t object_bytes);
  void configure_shards(const settings& s);
  void wake_marked(unsigned worker);
  static void mark_in(worker_state& held, caller& c) noexcept;
  [[nodiscard]] paused paused_by_client(unsigned worker) const noexcept;

  keyspace& keys_;
  service_options options_;
  cordma::clock& time_;
  command_table commands_;
  users users_;
  slowlog slow_;
  script_cache scripts_;
  latency_log latency_;
  acl_log denials_;
  std::string run_id_;
  std::size_t bytes_at_start_ = 0;
  unix_ms started_ms_ = 0;
  cordma::time_point started_{};
  std::vector<std::unique_ptr<worker_state>> workers_;
  mutable std::mutex settings_guard_;
  std::shared_ptr<const settings> settings_;
  std::atomic<std::uint64_t> settings_generation_ = 1;
  std::mutex files_guard_;
  std::string rewritten_;
  mutable std::mutex errors_guard_;
  std::map<std::string, std::uint64_t, std::less<>> errors_;
  std::atomic<std::uint64_t> next_id_ = 1;
  std::atomic<std::size_t> clients_ = 0;
  std::atomic<std::size_t> monitors_ = 0;
  std::atomic<std::size_t> blocked_clients_ = 0;
  std::atomic<std::size_t> client_room_bytes_ = 0;
  std::atomic<std::size_t> peak_bytes_ = 0;
  std::atomic<cordma::time_point> paused_until_{};
  std::atomic<paused> paused_ = paused::none;
};

}  // namespace kv
