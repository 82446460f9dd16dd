// settings: the configuration of a running server, a snapshot that is replaced when a setting
// changes.
#pragma once

#include "../store/policy.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

enum class fsync_policy : std::uint8_t { always, everysec, no };

struct save_point {
  std::uint64_t seconds = 0;
  std::uint64_t changes = 0;
  friend bool operator==(const save_point&, const save_point&) = default;
};

// client-output-buffer-limit: 0 is no limit.
struct output_limit {
  std::uint64_t hard_bytes = 0;
  std::uint64_t soft_bytes = 0;
  std::uint64_t soft_seconds = 0;
  friend bool operator==(const output_limit&, const output_limit&) = default;
};

// Immutable once a server uses it, so a reader keeps a consistent view. Names are Redis's, with '_'
// for '-'.
struct settings {
  std::uint64_t port = 6379;  // 0: none
  std::vector<std::string> bind{"127.0.0.1", "-::1"};
  std::string unixsocket;
  std::string unixsocketperm{"0"};  // octal; 0: by the umask
  std::uint64_t tcp_backlog = 511;
  std::uint64_t tls_port = 0;
  std::string tls_cert_file;
  std::string tls_key_file;
  std::string tls_ca_cert_file;
  std::string tls_auth_clients{"yes"};
  std::string requirepass;
  std::string aclfile;
  bool protected_mode = true;
  std::uint64_t maxclients = 10000;
  std::uint64_t timeout = 0;  // seconds
  std::uint64_t tcp_keepalive = 300;
  output_limit client_output_buffer_limit;  // of class "normal"
  std::uint64_t client_query_buffer_limit = std::uint64_t{1} << 30;
  std::uint64_t proto_max_bulk_len = std::uint64_t{512} << 20;

  std::uint64_t maxmemory = 0;
  eviction maxmemory_policy = eviction::none;
  std::uint64_t maxmemory_samples = 5;
  std::uint64_t databases = 16;
  std::string enable_debug_command{"no"};  // or "local", or "yes"

  bool appendonly = false;
  fsync_policy appendfsync = fsync_policy::everysec;
  std::string appendfilename{"appendonly.aof"};
  std::string appenddirname{"appendonlydir"};
  std::uint64_t auto_aof_rewrite_percentage = 100;
  std::uint64_t auto_aof_rewrite_min_size = std::uint64_t{64} << 20;
  std::vector<save_point> save{{3600, 1}, {300, 100}, {60, 10000}};
  bool stop_writes_on_bgsave_error = true;
  std::string dir{"."};
  std::string dbfilename{"dump.ckv"};
  std::uint64_t shutdown_timeout = 10;  // seconds

  std::int64_t slowlog_log_slower_than = 10000;  // microseconds; negative: never
  std::uint64_t slowlog_max_len = 128;
  std::uint64_t latency_monitor_threshold = 0;  // milliseconds; 0: nothing is recorded
  std::uint64_t acllog_max_len = 128;
  std::string loglevel{"notice"};
  std::string logfile;

  // Not in Redis.
  std::uint64_t workers = 1;
  std::uint64_t metrics_port = 0;  // 0: no /metrics
};

// A parameter of CONFIG.
struct parameter {
  enum class when : std::uint8_t { any_time, start };

  std::string_view name;
  when settable = when::any_time;
  std::string (*get)(const settings&) = nullptr;
  // Returns an empty string, or an error in Redis's words: "argument must be 'yes' or 'no'".
  std::string (*set)(settings&, std::string_view value) = nullptr;
  bool secret = false;  // its value must not be shown
};

[[nodiscard]] std::span<const parameter> all_parameters() noexcept;
struct other_name {
  std::string_view name;
  std::string_view of;
};
// Alternative names, accepted like the parameter's own.
[[nodiscard]] std::span<const other_name> all_other_names() noexcept;
// Finds by either name, in any case; null: unknown.
[[nodiscard]] const parameter* find_parameter(std::string_view name) noexcept;

// The content of a configuration file: a name and its values on each line, comments after '#',
// quotes as in a shell.
struct parsed_settings {
  settings values;
  std::vector<std::string> users;  // words after "user " of such lines, each as by as_word()
};
// Throws cordma::error (invalid_value) that names the line.
[[nodiscard]] parsed_settings parse_settings(std::string_view text, const settings& from = {});
struct line_issue {
  std::size_t line = 0;  // from 1
  std::string what;
};
// Reports all errors in `wrong`, and returns the valid settings.
[[nodiscard]] parsed_settings parse_settings(std::string_view text, const settings& from,
                                             std::vector<line_issue>& wrong);
// Returns the text with its lines changed to these values, under the names used there. Values that
// it lacks and that are not the default are appended.
[[nodiscard]] std::string rewrite_settings(std::string_view text, const settings& now,
                                           std::span<const std::string> users);
// Joins the words after "user " as in parsed_settings.
[[nodiscard]] std::string user_line(std::span<const std::string> words);
// Returns a word that split_words() turns into this value: quoted if needed, with control
// characters as "\xHH".
[[nodiscard]] std::string as_word(std::string_view value);

}  // namespace kv
