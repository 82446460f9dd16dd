// The parameters of CONFIG: how each is read and written.
#include "settings.hpp"
#include "word.hpp"

#include "../resp/number.hpp"
#include "../resp/words.hpp"
#include "../store/item.hpp"
#include "../store/key.hpp"

#include <algorithm>
#include <array>
#include <climits>

namespace kv {
namespace {

constexpr std::uint64_t most_int = INT_MAX;
constexpr std::uint64_t most_unsigned = 0xFFFF'FFFF;
constexpr std::uint64_t most_signed = INT64_MAX;
constexpr std::uint64_t most_port = 65535;
constexpr std::uint64_t most_workers = 64;

using when = parameter::when;

std::string outside(std::int64_t low, std::uint64_t high) {
  return "argument must be between " + std::to_string(low) + " and " + std::to_string(high) +
         " inclusive";
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text = "argument(s) must be one of the following: ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += ", ";
    text += names[i];
  }
  return text;
}

template <std::uint64_t settings::* member, std::uint64_t low, std::uint64_t high>
constexpr parameter number(std::string_view name, when at = when::any_time) {
  return {name, at, [](const settings& s) { return std::to_string(s.*member); },
          [](settings& s, std::string_view value) -> std::string {
            const auto n = parse_integer(value);
            if (!n) return "argument couldn't be parsed into an integer";
            if (*n < 0 || std::uint64_t(*n) < low || std::uint64_t(*n) > high) {
              return outside(std::int64_t(low), high);
            }
            s.*member = static_cast<std::uint64_t>(*n);
            return {};
          }};
}

template <std::uint64_t settings::* member, std::uint64_t low = 0, std::uint64_t high = UINT64_MAX>
constexpr parameter memory(std::string_view name, when at = when::any_time) {
  return {name, at, [](const settings& s) { return std::to_string(s.*member); },
          [](settings& s, std::string_view value) -> std::string {
            const auto n = parse_memory(value);
            if (!n) return "argument must be a memory value";
            if (*n < low || *n > high) return outside(std::int64_t(low), high);
            s.*member = *n;
            return {};
          }};
}

template <bool settings::* member>
constexpr parameter yes_no(std::string_view name, when at = when::any_time) {
  return {name, at, [](const settings& s) { return std::string(s.*member ? "yes" : "no"); },
          [](settings& s, std::string_view value) -> std::string {
            if (!is_word(value, "yes") && !is_word(value, "no"))
              return "argument must be 'yes' or 'no'";
            s.*member = is_word(value, "yes");
            return {};
          }};
}

constexpr parameter secret(parameter p) {
  p.secret = true;
  return p;
}

template <std::string settings::* member>
constexpr parameter text(std::string_view name, when at = when::any_time) {
  return {name, at, [](const settings& s) { return s.*member; },
          [](settings& s, std::string_view value) -> std::string {
            s.*member = value;
            return {};
          }};
}

// One of these names, stored unchanged.
template <std::string settings::* member, const auto& names>
constexpr parameter word(std::string_view name, when at = when::any_time) {
  return {name, at, [](const settings& s) { return s.*member; },
          [](settings& s, std::string_view value) -> std::string {
            for (const std::string_view n : names) {
              if (!is_word(n, value)) continue;
              s.*member = n;
              return {};
            }
            return one_of(names);
          }};
}

template <std::vector<std::string> settings::* member>
constexpr parameter words(std::string_view name, when at = when::any_time) {
  return {name, at,
          [](const settings& s) {
            std::string text;
            for (const std::string& w : s.*member) text += (text.empty() ? "" : " ") + as_word(w);
            return text;
          },
          [](settings& s, std::string_view value) -> std::string {
            auto found = split_words(value);
            if (!found) return "unbalanced quotes";
            s.*member = std::move(*found);
            return {};
          }};
}

constexpr std::array<std::string_view, 3> fsync_names{"everysec", "always", "no"};
constexpr std::array<fsync_policy, 3> fsync_values{fsync_policy::everysec, fsync_policy::always,
                                                   fsync_policy::no};
constexpr std::array<std::string_view, 4> log_levels{"debug", "verbose", "notice", "warning"};
constexpr std::array<std::string_view, 3> debug_names{"no", "yes", "local"};
constexpr std::array<std::string_view, 3> tls_auth{"yes", "no", "optional"};
constexpr std::array<std::string_view, 8> policies{
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl",
    "allkeys-lru",  "allkeys-lfu",  "allkeys-random",  "noeviction"};

std::string get_fsync(const settings& s) {
  const auto at = std::ranges::find(fsync_values, s.appendfsync);
  return std::string(fsync_names[static_cast<std::size_t>(at - fsync_values.begin())]);
}

std::string set_fsync(settings& s, std::string_view value) {
  for (std::size_t i = 0; i < fsync_names.size(); ++i) {
    if (!is_word(fsync_names[i], value)) continue;
    s.appendfsync = fsync_values[i];
    return {};
  }
  return one_of(fsync_names);
}

std::string get_policy(const settings& s) { return std::string(name(s.maxmemory_policy)); }

std::string set_policy(settings& s, std::string_view value) {
  const std::optional<eviction> found = parse_eviction(in_lower_case(value));
  if (!found) return one_of(policies);
  s.maxmemory_policy = *found;
  return {};
}

std::string get_save(const settings& s) {
  std::string text;
  for (const save_point& p : s.save) {
    if (!text.empty()) text += ' ';
    text += std::to_string(p.seconds) + ' ' + std::to_string(p.changes);
  }
  return text;
}

std::string set_save(settings& s, std::string_view value) {
  const auto found = split_words(value);
  if (!found || found->size() % 2 != 0) return "Invalid save parameters";
  std::vector<save_point> points;
  for (std::size_t i = 0; i < found->size(); i += 2) {
    const auto seconds = parse_integer((*found)[i]);
    const auto changes = parse_integer((*found)[i + 1]);
    if (!seconds || *seconds < 1 || !changes || *changes < 0) return "Invalid save parameters";
    points.push_back({static_cast<std::uint64_t>(*seconds), static_cast<std::uint64_t>(*changes)});
  }
  s.save = std::move(points);
  return {};
}

// Replicas and subscribers do not exist here: only Redis's own limits are accepted for them.
constexpr output_limit limit_of_replicas{
    .hard_bytes = 256 << 20, .soft_bytes = 64 << 20, .soft_seconds = 60};
constexpr output_limit limit_of_subscribers{
    .hard_bytes = 32 << 20, .soft_bytes = 8 << 20, .soft_seconds = 60};

std::string get_output_limit(const settings& s) {
  const output_limit& l = s.client_output_buffer_limit;
  return "normal " + std::to_string(l.hard_bytes) + ' ' + std::to_string(l.soft_bytes) + ' ' +
         std::to_string(l.soft_seconds) + " slave 268435456 67108864 60 pubsub 33554432 8388608 60";
}

std::string set_output_limit(settings& s, std::string_view value) {
  const auto found = split_words(value);
  if (!found || found->size() % 4 != 0 || found->empty()) {
    return "Wrong number of arguments in buffer limit configuration.";
  }
  output_limit limit = s.client_output_buffer_limit;
  for (std::size_t i = 0; i < found->size(); i += 4) {
    const std::string& type = (*found)[i];
    if (!is_word(type, "normal") && !is_word(type, "slave") && !is_word(type, "replica") &&
        !is_word(type, "pubsub")) {
      return "Invalid client class specified in buffer limit configuration.";
    }
    const auto hard = parse_memory((*found)[i + 1]);
    const auto soft = parse_memory((*found)[i + 2]);
    const auto seconds = parse_integer((*found)[i + 3]);
    if (!hard || !soft || !seconds || *seconds < 0) {
      return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    }
    const output_limit given{*hard, *soft, static_cast<std::uint64_t>(*seconds)};
    if (is_word(type, "normal")) {
      limit = given;
    } else if (given != (is_word(type, "pubsub") ? limit_of_subscribers : limit_of_replicas)) {
      return "cordma-kv has no clients of class " + type + ", and takes only Redis's own limit";
    }
  }
  s.client_output_buffer_limit = limit;
  return {};
}

std::string get_slower_than(const settings& s) { return std::to_string(s.slowlog_log_slower_than); }

std::string set_slower_than(settings& s, std::string_view value) {
  const auto n = parse_integer(value);
  if (!n) return "argument couldn't be parsed into an integer";
  if (*n < -1) return outside(-1, most_signed);
  s.slowlog_log_slower_than = *n;
  return {};
}

// Redis's range, restricted to the possible length of a value.
std::string set_bulk_len(settings& s, std::string_view value) {
  constexpr std::uint64_t least = 1 << 20;
  const auto n = parse_memory(value);
  if (!n) return "argument must be a memory value";
  if (*n < least || *n > most_signed) return outside(least, most_signed);
  if (*n > max_value_bytes) return "no value is longer than 512mb";
  s.proto_max_bulk_len = *n;
  return {};
}

// A name within dir rather than a path.
std::string name_refusal(std::string_view setting, std::string_view what, std::string_view value) {
  if (value.empty()) return std::string(setting) + " can't be empty";
  if (value.find_first_of("/\\") == std::string_view::npos && value != "." && value != "..")
    return {};
  return std::string(setting) + " can't be a path, just a " + std::string(what);
}

std::string set_dbfilename(settings& s, std::string_view value) {
  std::string why = name_refusal("dbfilename", "filename", value);
  if (why.empty()) s.dbfilename = value;
  return why;
}

// Names in its manifest end at a space, and it accepts no hidden files.
std::string set_appendfilename(settings& s, std::string_view value) {
  std::string why = name_refusal("appendfilename", "filename", value);
  if (!why.empty()) return why;
  if (value.front() == '.' || value.find_first_of(" \t\n\v\f\r") != std::string_view::npos) {
    return "appendfilename can't begin with '.', nor have spaces in it";
  }
  s.appendfilename = value;
  return {};
}

std::string set_appenddirname(settings& s, std::string_view value) {
  std::string why = name_refusal("appenddirname", "dirname", value);
  if (why.empty()) s.appenddirname = value;
  return why;
}

constexpr auto parameters_table = std::to_array<parameter>({
    number<&settings::port, 0, most_port>("port", when::start),
    words<&settings::bind>("bind", when::start),
    text<&settings::unixsocket>("unixsocket", when::start),
    text<&settings::unixsocketperm>("unixsocketperm", when::start),
    number<&settings::tcp_backlog, 0, most_int>("tcp-backlog", when::start),
    number<&settings::tls_port, 0, most_port>("tls-port", when::start),
    text<&settings::tls_cert_file>("tls-cert-file", when::start),
    text<&settings::tls_key_file>("tls-key-file", when::start),
    text<&settings::tls_ca_cert_file>("tls-ca-cert-file", when::start),
    word<&settings::tls_auth_clients, tls_auth>("tls-auth-clients", when::start),
    secret(text<&settings::requirepass>("requirepass")),
    text<&settings::aclfile>("aclfile", when::start),
    yes_no<&settings::protected_mode>("protected-mode"),
    number<&settings::maxclients, 1, most_unsigned>("maxclients"),
    number<&settings::timeout, 0, most_int>("timeout"),
    number<&settings::tcp_keepalive, 0, most_int>("tcp-keepalive", when::start),
    {"client-output-buffer-limit", when::any_time, get_output_limit, set_output_limit},
    memory<&settings::client_query_buffer_limit, 1 << 20, most_signed>("client-query-buffer-limit"),
    {"proto-max-bulk-len", when::any_time,
     [](const settings& s) { return std::to_string(s.proto_max_bulk_len); }, set_bulk_len},
    memory<&settings::maxmemory>("maxmemory"),
    {"maxmemory-policy", when::any_time, get_policy, set_policy},
    number<&settings::maxmemory_samples, 1, most_int>("maxmemory-samples"),
    number<&settings::databases, 1, most_databases>("databases", when::start),
    word<&settings::enable_debug_command, debug_names>("enable-debug-command", when::start),
    yes_no<&settings::appendonly>("appendonly"),
    {"appendfsync", when::any_time, get_fsync, set_fsync},
    {"appendfilename", when::start, [](const settings& s) { return s.appendfilename; },
     set_appendfilename},
    {"appenddirname", when::start, [](const settings& s) { return s.appenddirname; },
     set_appenddirname},
    number<&settings::auto_aof_rewrite_percentage, 0, most_int>("auto-aof-rewrite-percentage"),
    memory<&settings::auto_aof_rewrite_min_size, 0, most_signed>("auto-aof-rewrite-min-size"),
    {"save", when::any_time, get_save, set_save},
    yes_no<&settings::stop_writes_on_bgsave_error>("stop-writes-on-bgsave-error"),
    text<&settings::dir>("dir", when::start),
    {"dbfilename", when::start, [](const settings& s) { return s.dbfilename; }, set_dbfilename},
    number<&settings::shutdown_timeout, 0, most_int>("shutdown-timeout"),
    {"slowlog-log-slower-than", when::any_time, get_slower_than, set_slower_than},
    number<&settings::slowlog_max_len, 0, most_signed>("slowlog-max-len"),
    number<&settings::latency_monitor_threshold, 0, most_signed>("latency-monitor-threshold"),
    number<&settings::acllog_max_len, 0, most_signed>("acllog-max-len"),
    word<&settings::loglevel, log_levels>("loglevel"),
    text<&settings::logfile>("logfile", when::start),
    number<&settings::workers, 1, most_workers>("workers", when::start),
    number<&settings::metrics_port, 0, most_port>("metrics-port", when::start),
});

constexpr auto other_names = std::to_array<other_name>({{.name = "threads", .of = "workers"}});

}  // namespace

std::span<const parameter> all_parameters() noexcept { return parameters_table; }
std::span<const other_name> all_other_names() noexcept { return other_names; }

const parameter* find_parameter(std::string_view name) noexcept {
  for (const other_name& other : other_names) {
    if (is_word(other.name, name)) name = other.of;
  }
  for (const parameter& p : parameters_table) {
    if (is_word(p.name, name)) return &p;
  }
  return nullptr;
}

}  // namespace kv
