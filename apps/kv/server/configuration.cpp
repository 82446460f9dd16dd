#include "configuration.hpp"

#include "../command/least_memory.hpp"
#include "../command/users.hpp"
#include "../command/word.hpp"
#include "../resp/words.hpp"
#include "settings_of_redis.hpp"

#include <cordma/runtime/result.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <sstream>

namespace kv {
namespace {

[[noreturn]] void fail(const std::string& what) {
  cordma::throw_error(cordma::failure(cordma::errc::invalid_value, what));
}

using setter = void (*)(server_options&, const std::string& value);

// Settings of the process rather than of the service; CONFIG does not have them.
struct own_setting {
  std::string_view name;
  setter set;
};

void set_wait(server_options& o, const std::string& value) {
  const cordma::result<cordma::wait_mode> mode = cordma::parse_wait_mode(value);
  if (!mode) fail(mode.why().message());
  o.wait = mode.value();
}

void set_io(server_options& o, const std::string& value) {
  const std::optional<io_choice> io = parse_io_choice(value);
  if (!io) fail("\"" + value + "\" is unknown: use auto, uring or asio");
  o.io = *io;
}

constexpr std::string_view foreground =
    "cordma-kv stays in the foreground: a service manager starts and watches it; see the systemd "
    "unit that comes with it";

void refuse_daemon(server_options&, const std::string& value) {
  if (value != "no") fail(std::string(foreground));
}

void check_supervised(server_options&, const std::string& value) {
  if (value == "no" || value == "auto" || value == "systemd") return;
  fail("\"" + value +
       "\" is unknown; systemd is told where NOTIFY_SOCKET is set, whatever this says");
}

void set_native_port(server_options& o, const std::string& value) {
  constexpr std::uint64_t most_port = 65'535;
  std::uint64_t port = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), port);
  if (error != std::errc() || end != value.data() + value.size() || port > most_port) {
    fail("\"" + value + "\" is no port: 0 to 65535");
  }
  o.native.port = port;
}

void set_one_sided(server_options& o, const std::string& value) {
  if (value != "yes" && value != "no") fail("\"" + value + "\" is neither yes nor no");
  o.native.one_sided = value == "yes";
}

constexpr own_setting own_settings[] = {
    {"native-port", &set_native_port},
    {"native-token-file",
     [](server_options& o, const std::string& value) { o.native.token_file = value; }},
    {"native-one-sided", &set_one_sided},
    {"wait", &set_wait},
    {"io", &set_io},
    {"pidfile", [](server_options& o, const std::string& value) { o.pidfile = value; }},
    {"daemonize", &refuse_daemon},
    {"supervised", &check_supervised},
};

[[nodiscard]] const own_setting* find_own(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(own_settings, name, &own_setting::name);
  return at == std::end(own_settings) ? nullptr : at;
}

[[nodiscard]] std::vector<std::string> all_names() {
  std::vector<std::string> names{"user"};
  for (const parameter& p : all_parameters()) names.emplace_back(p.name);
  for (const other_name& other : all_other_names()) names.emplace_back(other.name);
  for (const own_setting& s : own_settings) names.emplace_back(s.name);
  return names;
}

// Levenshtein distance: the number of letters to change, insert or delete.
[[nodiscard]] std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

[[nodiscard]] std::string unknown(const std::string& name) {
  const std::string nearest = nearest_name(name);
  return "\"" + name + "\" is no setting of cordma-kv" +
         (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?");
}

void apply_own(server_options& o, const own_setting& s, std::span<const std::string> values) {
  if (values.size() != 1) fail("wrong number of arguments for \"" + std::string(s.name) + "\"");
  s.set(o, values.front());
}

// True for the limit of a class of clients that does not exist here.
[[nodiscard]] bool is_limit_of_others(std::string_view name, std::span<const std::string> words) {
  constexpr std::size_t one_class = 5;
  return name == "client-output-buffer-limit" && words.size() == one_class &&
         in_lower_case(words[1]) != "normal";
}

// Settings of Redis for which only one value is accepted. Another value would change which data is
// kept at the end.
struct fixed_setting {
  std::string_view name;
  std::string_view value;
  std::string_view why;
};
constexpr std::string_view kept_at_the_end =
    "the end by a signal keeps what `save` and `appendonly` say";
constexpr auto fixed_settings = std::to_array<fixed_setting>({
    {"shutdown-on-sigterm", "default", kept_at_the_end},
    {"shutdown-on-sigint", "default", kept_at_the_end},
    {"aof-load-truncated", "yes", "what a crash left unfinished at the journal's end is cut off"},
});

const fixed_setting* find_fixed(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(fixed_settings, name, &fixed_setting::name);
  return at == fixed_settings.end() ? nullptr : at;
}

// Consumes the lines of a file that parse_settings() does not handle, and leaves blank lines for
// them.
class own_lines {
 public:
  own_lines(server_options& into, std::vector<line_issue>& wrong) : into_(into), wrong_(wrong) {}

  [[nodiscard]] std::string take_from(std::string_view text) {
    std::string rest;
    for (number_ = 1; !text.empty(); ++number_) {
      const std::size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (!take(line)) rest.append(line);
      rest += '\n';
    }
    return rest;
  }

 private:
  // Returns false if the line is for parse_settings().
  [[nodiscard]] bool take(std::string_view line) try {
    const auto words = split_words(line);
    const std::string name = words && !words->empty() ? in_lower_case(words->front()) : "";
    if (name.empty() || name.starts_with('#')) return false;
    if (name == "user") {
      const std::string said = user_line(std::span(*words).subspan(1));
      const std::string why = users(commands_).configure({}, std::span(&said, 1));
      if (!why.empty()) wrong_.push_back({number_, why});
      return !why.empty();
    }
    if (name == "daemonize") {
      if (words->size() == 2 && (*words)[1] == "yes") warn("daemonize: " + std::string(foreground));
      return true;
    }
    if (const fixed_setting* const fixed = find_fixed(name)) {
      if (words->size() == 2 && in_lower_case((*words)[1]) == fixed->value) return true;
      wrong_.push_back({number_, name + ": only \"" + std::string(fixed->value) +
                                     "\" is taken: " + std::string(fixed->why)});
      return true;
    }
    if (const own_setting* const own = find_own(name)) {
      apply_own(into_, *own, std::span(*words).subspan(1));
      return true;
    }
    if (is_limit_of_others(name, *words)) {
      warn("\"" + name + " " + (*words)[1] + "\" has no meaning here: it has no such clients");
      return true;
    }
    if (find_parameter(name) != nullptr) return false;
    if (is_without_meaning(name)) {
      warn("\"" + name + "\" is a setting of Redis that has no meaning here");
    } else {
      wrong_.push_back({number_, unknown(words->front())});
    }
    return true;
  } catch (const cordma::error& e) {
    wrong_.push_back(
        {number_, in_lower_case(split_words(line)->front()) + ": " + e.why().message()});
    return true;
  }

  void warn(const std::string& what) {
    into_.warnings.push_back("line " + std::to_string(number_) + ": " + what);
  }

  server_options& into_;
  std::vector<line_issue>& wrong_;
  const command_table commands_;
  std::size_t number_ = 0;
};

void apply_option(server_options& o, const said_option& said) {
  const std::string name = in_lower_case(said.name);
  if (const own_setting* const own = find_own(name)) return apply_own(o, *own, said.values);
  if (name != "user" && find_parameter(name) == nullptr) fail(unknown(said.name));
  std::string line = name;
  for (const std::string& value : said.values) line += ' ' + as_word(value);
  parsed_settings now = parse_settings(line, o.configured.values);
  o.configured.values = std::move(now.values);
  for (std::string& user : now.users) o.configured.users.push_back(std::move(user));
}

// Checks that the rules are valid, and that users are defined in one place only.
void check_users(const parsed_settings& said) {
  const command_table commands;
  const std::string why = users(commands).configure({}, said.users);
  if (!why.empty()) fail(why);
  if (said.users.empty() || said.values.aclfile.empty()) return;
  fail("users are said by `user` lines and by aclfile: have them all in " + said.values.aclfile);
}

// Reports all issues, in the order of their lines.
void fail_for(std::vector<line_issue>& wrong, const std::string& file) {
  if (wrong.empty()) return;
  std::ranges::sort(wrong, {}, &line_issue::line);
  std::string text;
  for (const line_issue& one : wrong) {
    text +=
        (text.empty() ? "" : "\n") + file + ": line " + std::to_string(one.line) + ": " + one.what;
  }
  fail(text);
}

[[nodiscard]] std::string without(std::string text, std::string_view part) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? text : text.erase(at, part.size());
}

[[nodiscard]] std::string contents_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) cordma::throw_error(cordma::failure::from_os(errno, file));
  if (std::filesystem::is_directory(file)) {
    cordma::throw_error(cordma::failure::from_os(EISDIR, file));
  }
  return text.str();
}

[[nodiscard]] std::string whole_path(const std::string& file) {
  char* const found = ::realpath(file.c_str(), nullptr);
  if (found == nullptr) return file;
  std::string path(found);
  std::free(found);
  return path;
}

}  // namespace

std::string nearest_name(std::string_view name) {
  const std::string wanted = in_lower_case(name);
  std::string best;
  std::size_t least = std::max<std::size_t>(wanted.size() / 2, 2) + 1;
  for (const std::string& known : all_names()) {
    const std::size_t d = distance(wanted, known);
    if (d >= least) continue;
    least = d;
    best = known;
  }
  return best;
}

namespace {

[[nodiscard]] bool asks_for_check_aof(std::string_view argument) {
  return argument == "--check-aof" || argument.starts_with("--check-aof=");
}

// PATH, optionally with --fix, and no other argument.
[[nodiscard]] command_line parse_check_aof(const std::vector<std::string>& arguments) {
  command_line said;
  said.what = command_line::wish::check_aof;
  for (const std::string& a : arguments) {
    if (a == "--check-aof") continue;
    if (a == "--fix") {
      said.what = command_line::wish::fix_aof;
    } else if (said.aof.empty() && (asks_for_check_aof(a) || !a.starts_with("--"))) {
      said.aof = asks_for_check_aof(a) ? a.substr(a.find('=') + 1) : a;
    } else {
      fail("--check-aof PATH [--fix] stands alone: what is \"" + a + "\" for?");
    }
  }
  if (said.aof.empty()) {
    fail("--check-aof: of what? A file of the journal, its manifest, or the folder (dir)");
  }
  return said;
}

}  // namespace

command_line parse_command_line(const std::vector<std::string>& arguments) {
  using wish = command_line::wish;
  if (std::ranges::any_of(arguments, asks_for_check_aof)) return parse_check_aof(arguments);
  command_line said;
  for (const std::string& a : arguments) {
    if (a == "--help" || a == "-h") {
      said.what = wish::help;
    } else if (a == "--version" || a == "-v") {
      said.what = wish::version;
    } else if (a == "--check-config") {
      said.what = wish::check;
    } else if (a == "--fix") {
      fail("--fix comes with --check-aof PATH");
    } else if (a.starts_with("--") && a.size() > 2) {
      const std::size_t equals = a.find('=');
      said.options.push_back({a.substr(2, equals == a.npos ? a.npos : equals - 2), {}});
      if (equals != a.npos) said.options.back().values.push_back(a.substr(equals + 1));
    } else if (!said.options.empty()) {
      said.options.back().values.push_back(a);
    } else if (said.config_file.empty()) {
      said.config_file = a;
    } else {
      fail("two configuration files: " + said.config_file + " and " + a);
    }
  }
  return said;
}

server_options read_options(const command_line& said) {
  if (said.config_file.empty()) return read_options({}, {}, said.options);
  return read_options(contents_of(said.config_file), whole_path(said.config_file), said.options);
}

server_options read_options(std::string_view text, const std::string& file,
                            const std::vector<said_option>& options) {
  server_options o;
  o.config_file = file;
  std::vector<line_issue> wrong;
  const std::string rest = own_lines(o, wrong).take_from(text);
  const settings before = o.configured.values;
  o.configured = parse_settings(rest, before, wrong);
  fail_for(wrong, file);
  for (const said_option& one : options) {
    try {
      apply_option(o, one);
    } catch (const cordma::error& e) {
      fail("--" + one.name + ": " + without(e.why().message(), "configuration, line 1: "));
    }
  }
  check_users(o.configured);
  const settings& s = o.configured.values;
  const std::string too_little = memory_refusal(s.maxmemory, s.workers);
  if (!too_little.empty()) fail(too_little);
  return o;
}

std::string help_text() {
  std::string text =
      R"(cordma-kv [FILE] [--NAME VALUE ...] ...

A key-value service for the strings, hashes, transactions and locks of Redis clients. FILE is a configuration in
Redis's own syntax; every name in it is an option too, which prevails over it.

Where clients come to
  --port 6379                   TCP; 0: none, which takes another place to come to
  --bind 127.0.0.1 -::1         addresses; '-' before one: do without it where this host has it not; * is all
  --protected-mode yes          without a password nobody comes from other hosts
  --unixsocket PATH             and --unixsocketperm 770
  --native-port 7379            clients of the native protocol: cordma-kv-cli, and programs with the client library, over
                                shared memory, RDMA or TCP; they get values by reading the server's memory
  --native-token-file FILE      what those have to show, in its first line; without one, the password
  --native-one-sided no         they ask for every value: then no client sees keys that it did not ask for
  --tls-port 6380               and --tls-cert-file, --tls-key-file, --tls-ca-cert-file, --tls-auth-clients no
  --metrics-port 9121           figures for Prometheus, at /metrics; the same addresses as --bind
  --requirepass PASSWORD        or users: --aclfile FILE, and `user` lines in FILE
  --maxclients 10000            of all doors; with --native-port four open files for each, else one. And --timeout SECONDS, --tcp-keepalive SECONDS, --tcp-backlog N

What is kept
  --maxmemory 1gb               0: as much as there is; at least 5mb for each thread
  --maxmemory-policy noeviction ... which refuses writes then; or allkeys-lru, ... which give up keys
  --dir PATH                    where files are: one for each server that keeps anything
  --appendonly yes              every change to a journal; --appendfsync everysec, always or no
  --save 3600 1 300 100         snapshots: after so many seconds where there were so many changes; "": none

How it runs
  --threads 1                   each with a part of the keys and of the clients
  --wait event                  for work: event (sleeps), adaptive (spins for a short while), polling (never sleeps)
  --io auto                     sockets: uring (io_uring, Linux 6.1), asio (anywhere), or what there is
  --logfile FILE                instead of standard error; --loglevel debug, verbose, notice or warning
  --pidfile FILE
  --check-config                look at all that a start takes but ports and data, say what is wrong, and end: 0 where all is
                                right. Also while a server runs with that configuration

A journal that keeps it from starting
  --check-aof PATH              say whether the journal is whole, and end: of a file of it, or of all of it where PATH is
                                its manifest or a folder that has it (--dir's). Not while a server writes to it.
  --check-aof PATH --fix        cut the file off where it is damaged, or of all the last, and give up what follows there;
                                keep a copy. What it ends with: 0 whole, or mended now; 1 damaged, or not to be read

Signals
  SIGTERM, SIGINT               finish what is under way, write what is to be kept, end with 0; again: end at once
  SIGHUP                        read FILE again: what can change while it runs does, users included, and the log says
                                what did and what cannot; if anything in it is wrong all stays as it was. aclfile and
                                certificates are read again, and so is the place of the log

Examples
  cordma-kv                                      port 6379 of this host, for this host
  cordma-kv /etc/cordma-kv.conf --port 7000      a configuration, and another port
  cordma-kv --maxmemory 2gb --maxmemory-policy allkeys-lru --save ""          a cache
  cordma-kv --appendonly yes --appendfsync always --dir /var/lib/cordma-kv    nothing acknowledged is lost

All names:)";
  std::size_t column = 100;
  for (const std::string& name : all_names()) {
    if (column + name.size() > 98) {
      text += "\n  ";
      column = 2;
    }
    text += name + ' ';
    column += name.size() + 1;
  }
  return text + '\n';
}

}  // namespace kv
