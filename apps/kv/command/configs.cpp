// CONFIG.
#include "digest.hpp"
#include "handling.hpp"

#include "../resp/glob.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <mutex>
#include <sstream>
#include <utility>

namespace kv {
namespace {

// Shows each parameter under the requested name, unless that is a pattern.
void config_get(call& c) {
  const settings& now = c.of.current(c.who.origin.worker);
  std::vector<std::pair<std::string_view, const parameter*>> wanted;
  const auto want = [&](std::string_view shown, const parameter* p) {
    const bool known = std::ranges::any_of(wanted, [&](const auto& w) { return w.second == p; });
    if (p != nullptr && !known) wanted.emplace_back(shown, p);
  };
  for (const std::string_view asked : c.args.subspan(2)) {
    if (asked.find_first_of("[*?") == std::string_view::npos) {
      want(asked, find_parameter(asked));
      continue;
    }
    for (const parameter& p : all_parameters()) {
      if (matches_glob(asked, p.name, letter_case::ignored)) want(p.name, &p);
    }
  }
  c.out.map(wanted.size());
  for (const auto& [shown, p] : wanted) {
    c.out.bulk(shown);
    c.out.bulk(p->get(now));
  }
}

void refuse(call& c, std::string_view name, std::string_view why) {
  c.out.error("ERR CONFIG SET failed (possibly related to argument '" + std::string(name) +
              "') - " + std::string(why));
}

void config_set(call& c) {
  if (c.count() % 2 != 0) return c.out.error(syntax_error);
  std::vector<const parameter*> named;
  for (std::size_t i = 2; i < c.count(); i += 2) {
    const parameter* const p = find_parameter(c.arg(i));
    if (p == nullptr) {
      return c.out.error("ERR Unknown option or number of arguments for CONFIG SET - '" +
                         std::string(until_nul(c.arg(i))) + "'");
    }
    if (p->settable == parameter::when::start)
      return refuse(c, p->name, "can't set immutable config");
    if (std::ranges::find(named, p) != named.end())
      return refuse(c, p->name, "duplicate parameter");
    named.push_back(p);
  }
  settings next = *c.of.snapshot();
  for (std::size_t i = 0; i < named.size(); ++i) {
    const std::string why = named[i]->set(next, c.arg(3 + i * 2));
    if (!why.empty()) return refuse(c, named[i]->name, why);
  }
  const std::string why = c.of.replace(std::move(next));
  if (!why.empty()) return refuse(c, named.front()->name, why);
  c.out.ok();
}

void config_resetstat(call& c) {
  c.of.reset_statistics();
  c.out.ok();
}

// True if requirepass is the default user's password, rather than one set later by ACL SETUSER. In
// a file with both, requirepass would apply.
bool is_usual_password(call& c, std::string_view password) {
  const std::shared_ptr<const user> usual = c.of.accounts().find(default_user);
  return usual != nullptr && usual->passwords == std::vector<std::string>{sha256(password)};
}

void config_rewrite(call& c) {
  const std::string& path = c.of.options().config_file;
  if (path.empty()) return c.out.error("ERR The server is running without a config file");
  const std::lock_guard alone(c.of.files_guard());
  std::ifstream in(path, std::ios::binary);
  std::stringstream before;
  if (in) before << in.rdbuf();
  std::vector<std::string> lines;
  settings now = *c.of.snapshot();
  if (now.aclfile.empty()) {
    for (const auto& u : c.of.accounts().all()) {
      const std::string line = u->line();
      if (line != "default on nopass ~* &* +@all") lines.push_back(line);
    }
    if (!is_usual_password(c, now.requirepass)) now.requirepass.clear();
  }
  std::string after = rewrite_settings(before.str(), now, lines);
  if (const cordma::result<void> done = put_in_place(path, after); !done) {
    return c.out.error("ERR Rewriting config file: " + done.why().message());
  }
  c.of.rewrote(std::move(after));
  c.out.ok();
}

void config_help(call& c) {
  reply_help(
      c, "CONFIG",
      {"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
       "SET <directive> <value>", "    Set the configuration <directive> to <value>.", "RESETSTAT",
       "    Reset statistics reported by the INFO command.", "REWRITE",
       "    Rewrite the configuration file."});
}

constexpr auto config_parts = std::to_array<command>({
    {.name = "get",
     .run = config_get,
     .arity = -3,
     .complexity = {},
     .summary = "Get the values of configuration parameters"},
    {.name = "set",
     .run = config_set,
     .arity = -4,
     .shards = reach::all,
     .complexity = {},
     .summary = "Set configuration parameters to the given values",
     .tips = "request_policy:all_nodes response_policy:all_succeeded"},
    {.name = "resetstat",
     .run = config_resetstat,
     .arity = 2,
     .summary = "Reset the stats returned by INFO"},
    {.name = "rewrite",
     .run = config_rewrite,
     .arity = 2,
     .since = "2.8.0",
     .summary = "Rewrite the configuration file with the in memory configuration"},
    help_part(config_help, "5.0.0"),
});

constexpr auto configs_table = std::to_array<command>({
    container("config", "2.0.0", "A container for server configuration commands",
              {.commands = config_parts,
               .since = "2.0.0",
               .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
               .shards = reach::own}),
});

}  // namespace

command_group config_commands() noexcept { return {.commands = configs_table, .name = "server"}; }

}  // namespace kv
