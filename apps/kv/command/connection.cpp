// Commands at the start and end of a connection: HELLO, AUTH, SELECT, PING, QUIT, RESET.
#include "databases.hpp"
#include "handling.hpp"

#include "../resp/number.hpp"

#include <array>

namespace kv {
namespace {

constexpr std::string_view redis_version =
    "7.0.15";  // the version these commands follow; clients check it
constexpr std::string_view wrong_password =
    "WRONGPASS invalid username-password pair or user is disabled.";

bool is_name(std::string_view text) noexcept {
  for (const char c : text) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

void ping(call& c) {
  if (c.count() > 2) return c.out.error("ERR wrong number of arguments for 'ping' command");
  c.count() == 2 ? c.out.bulk(c.arg(1)) : c.out.raw("+PONG\r\n");
}

void echo(call& c) { c.out.bulk(c.arg(1)); }

void quit(call& c) {
  c.who.close_when_sent = true;
  c.out.ok();
}

void select(call& c) {
  const auto number = integer_arg(c, 1);
  if (!number) return;
  const auto database = selected_by(c.args, c.of.current(c.who.origin.worker).databases);
  if (!database) return c.out.error("ERR DB index is out of range");
  c.who.database = *database;
  c.out.ok();
}

// Returns false after an error reply.
bool authenticate(call& c, std::string_view name, std::string_view password) {
  std::shared_ptr<const user> u = c.of.accounts().authenticate(name, password);
  if (u == nullptr) {
    c.of.denials().add({.reason = "auth",
                        .context = c.who.in_transaction ? "multi" : "toplevel",
                        .object = std::string(c.arg(0)),
                        .user = std::string(name),
                        .client = describe(c.who, now_of(c)),
                        .when = now_of(c)},
                       static_cast<std::size_t>(c.of.current(c.who.origin.worker).acllog_max_len));
    c.out.error(wrong_password);
    return false;
  }
  c.who.become(std::move(u));
  return true;
}

void auth(call& c) {
  if (c.count() > 3) return c.out.error(syntax_error);
  if (c.count() == 2) {
    const auto usual = c.of.accounts().find(default_user);
    if (usual != nullptr && usual->any_password) {
      return c.out.error(
          "ERR AUTH <password> called without any password configured for the default user. Are "
          "you sure your "
          "configuration is correct?");
    }
  }
  const bool named = c.count() == 3;
  if (authenticate(c, named ? c.arg(1) : default_user, c.arg(named ? 2 : 1))) c.out.ok();
}

void greet(call& c) {
  c.out.map(7);
  c.out.bulk("server");
  c.out.bulk("redis");
  c.out.bulk("version");
  c.out.bulk(redis_version);
  c.out.bulk("proto");
  c.out.integer(static_cast<std::int64_t>(c.out.version()));
  c.out.bulk("id");
  c.out.integer(static_cast<std::int64_t>(c.who.id));
  c.out.bulk("mode");
  c.out.bulk("standalone");
  c.out.bulk("role");
  c.out.bulk("master");
  c.out.bulk("modules");
  c.out.array(0);
}

void hello(call& c) {
  std::int64_t version = static_cast<std::int64_t>(c.out.version());
  if (c.count() > 1) {
    const auto n = integer_arg(c, 1, "ERR Protocol version is not an integer or out of range");
    if (!n) return;
    if (*n != 2 && *n != 3) return c.out.error("NOPROTO unsupported protocol version");
    version = *n;
  }
  std::optional<std::size_t> auth_at;
  std::optional<std::string_view> name;
  for (std::size_t i = 2; i < c.count(); ++i) {
    if (is_word(c.arg(i), "auth") && i + 2 < c.count()) {
      auth_at = i;
      i += 2;
    } else if (is_word(c.arg(i), "setname") && i + 1 < c.count()) {
      name = c.arg(++i);
      if (!is_name(*name)) {
        return c.out.error(
            "ERR Client names cannot contain spaces, newlines or special characters.");
      }
    } else {
      return c.out.error("ERR Syntax error in HELLO option '" + std::string(until_nul(c.arg(i))) +
                         "'");
    }
  }
  if (auth_at && !authenticate(c, c.arg(*auth_at + 1), c.arg(*auth_at + 2))) return;
  if (c.who.who() == nullptr) {
    return c.out.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
        "protocol version "
        "at the same time");
  }
  if (name) c.who.say(&caller::labels::name, *name);
  c.out.speak(version == 3 ? reply_writer::protocol::resp3 : reply_writer::protocol::resp2);
  c.who.protocol = static_cast<std::uint8_t>(version);
  greet(c);
}

constexpr auto connection_table = std::to_array<command>({
    {.name = "ping",
     .run = ping,
     .arity = -1,
     .flags = flag_fast,
     .summary = "Ping the server",
     .tips = "request_policy:all_shards response_policy:all_succeeded"},
    {.name = "echo",
     .run = echo,
     .arity = 2,
     .flags = flag_loading | flag_stale | flag_fast,
     .summary = "Echo the given string"},
    {.name = "quit",
     .run = quit,
     .arity = -1,
     .shards = reach::own,
     .summary = "Close the connection"},
    {.name = "select",
     .run = select,
     .arity = 2,
     .flags = flag_loading | flag_stale | flag_fast,
     .shards = reach::own,
     .summary = "Change the selected database for the current connection"},
    {.name = "auth",
     .run = auth,
     .arity = -2,
     .shards = reach::own,
     .complexity = "O(N) where N is the number of passwords defined for the user",
     .summary = "Authenticate to the server"},
    {.name = "hello",
     .run = hello,
     .arity = -1,
     .shards = reach::own,
     .since = "6.0.0",
     .summary = "Handshake with Redis"},
});

}  // namespace

command_group connection_commands() noexcept {
  return {.commands = connection_table,
          .name = "connection",
          .since = "1.0.0",
          .flags = flag_noscript | flag_loading | flag_stale | flag_fast | flag_no_auth |
                   flag_allow_busy,
          .categories = in_connection};
}

}  // namespace kv
