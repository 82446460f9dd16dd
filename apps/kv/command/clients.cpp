// CLIENT: information about connections, and control of them.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

namespace kv {
namespace {

constexpr std::string_view bad_name =
    "ERR Client names cannot contain spaces, newlines or special characters.";

bool is_name(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace

std::string describe(const caller& c, unix_ms now) {
  const auto seconds = [&](std::int64_t since) {
    const auto n = static_cast<std::int64_t>(now);
    return std::to_string(n > since ? (n - since) / 1000 : 0);
  };
  const known_command* const last = c.last;
  const bool in_transaction = c.in_transaction;
  const caller::labels& said = c.said();
  std::string flags;
  if (c.monitored) flags += 'O';
  if (in_transaction) flags += 'x';
  if (c.blocked) flags += 'b';
  if (c.origin.came_by == door::unix_socket) flags += 'U';
  if (c.no_evict) flags += 'e';
  if (flags.empty()) flags = "N";
  const std::size_t total = c.input_bytes + c.input_room + c.output_room + sizeof(caller);
  std::string text =
      "id=" + std::to_string(c.id) + " addr=" + c.origin.peer + " laddr=" + c.origin.local;
  text += " fd=" + std::to_string(c.origin.descriptor) + " name=" + said.name;
  text += " age=" + seconds(c.created_ms) + " idle=" + seconds(c.seen_ms) + " flags=" + flags;
  text += " db=" + std::to_string(c.database) + " sub=0 psub=0 ssub=0 multi=";
  text += in_transaction ? std::to_string(c.queued_commands) : "-1";
  text += " qbuf=" + std::to_string(c.input_bytes) + " qbuf-free=" + std::to_string(c.input_room);
  text += " argv-mem=0 multi-mem=0 rbs=" + std::to_string(c.output_room) +
          " rbp=" + std::to_string(c.output_room);
  text +=
      " obl=0 oll=0 omem=" + std::to_string(c.output_bytes) + " tot-mem=" + std::to_string(total);
  text += " events=r cmd=";
  text += last != nullptr ? last->full_name : "NULL";
  text += " user=" + said.user + " redir=-1 resp=" + std::to_string(c.protocol);
  text += " lib-name=" + said.library + " lib-ver=" + said.library_version;
  return text;
}

namespace {

void client_id(call& c) { c.out.integer(static_cast<std::int64_t>(c.who.id)); }

void client_info(call& c) {
  c.who.last = &c.what;
  c.out.verbatim(describe(c.who, now_of(c)) + '\n');
}

// True for the client types of Redis; all but "normal" have no clients here.
bool is_client_type(std::string_view word) noexcept {
  return is_word(word, "normal") || is_word(word, "master") || is_word(word, "replica") ||
         is_word(word, "slave") || is_word(word, "pubsub");
}

void client_list(call& c) {
  std::optional<std::vector<std::uint64_t>> ids;
  bool none = false;
  if (c.count() == 4 && is_word(c.arg(2), "type")) {
    if (!is_client_type(c.arg(3))) {
      return c.out.error("ERR Unknown client type '" + std::string(c.arg(3)) + "'");
    }
    none = !is_word(c.arg(3), "normal");
  } else if (c.count() > 3 && is_word(c.arg(2), "id")) {
    ids.emplace();
    for (std::size_t i = 3; i < c.count(); ++i) {
      const auto id = parse_integer(c.arg(i));
      if (!id) return c.out.error("ERR Invalid client ID");
      ids->push_back(static_cast<std::uint64_t>(*id));
    }
  } else if (c.count() != 2) {
    return c.out.error(syntax_error);
  }
  c.who.last = &c.what;
  std::string text;
  c.of.for_each_client([&](caller& each) {
    const bool wanted = !none && (!ids || std::ranges::find(*ids, each.id) != ids->end());
    if (wanted) text += describe(each, now_of(c)) + '\n';
  });
  c.out.verbatim(text);
}

void client_getname(call& c) {
  const std::string& name = c.who.said().name;
  name.empty() ? c.out.null() : c.out.bulk(name);
}

void client_setname(call& c) {
  if (!is_name(c.arg(2))) return c.out.error(bad_name);
  c.who.say(&caller::labels::name, c.arg(2));
  c.out.ok();
}

void client_setinfo(call& c) {
  std::string caller::labels::* which = nullptr;
  if (is_word(c.arg(2), "lib-name")) which = &caller::labels::library;
  if (is_word(c.arg(2), "lib-ver")) which = &caller::labels::library_version;
  if (which == nullptr)
    return c.out.error("ERR Unrecognized option '" + std::string(c.arg(2)) + "'");
  if (!is_name(c.arg(3))) {
    return c.out.error("ERR " + std::string(c.arg(2)) +
                       " cannot contain spaces, newlines or special characters.");
  }
  c.who.say(which, c.arg(3));
  c.out.ok();
}

void client_reply(call& c) {
  if (is_word(c.arg(2), "on")) {
    if (c.who.mode != caller::replies::skip_next) c.who.mode = caller::replies::on;
    c.out.ok();
  } else if (is_word(c.arg(2), "off")) {
    c.who.mode = caller::replies::off;
  } else if (is_word(c.arg(2), "skip")) {
    if (c.who.mode != caller::replies::off) c.who.mode = caller::replies::skip_next;
  } else {
    c.out.error(syntax_error);
  }
}

struct kill_filter {
  std::optional<std::uint64_t> id;
  std::optional<std::string_view> peer;
  std::optional<std::string_view> local;
  std::optional<std::string_view> user;
  bool no_such_type = false;
  bool skips_me = true;

  [[nodiscard]] bool wants(const caller& c) const noexcept {
    return !no_such_type && (!id || *id == c.id) && (!peer || *peer == c.origin.peer) &&
           (!local || *local == c.origin.local) && (!user || *user == c.said().user);
  }
};

// Reads one pair of the filter. Returns false after an error reply.
bool read_filter(call& c, std::size_t i, kill_filter& f) {
  const std::string_view value = c.arg(i + 1);
  if (is_word(c.arg(i), "id")) {
    const auto id = parse_integer(value);
    if (!id || *id < 1) return c.out.error("ERR client-id should be greater than 0"), false;
    f.id = static_cast<std::uint64_t>(*id);
  } else if (is_word(c.arg(i), "type")) {
    if (!is_client_type(value)) {
      return c.out.error("ERR Unknown client type '" + std::string(value) + "'"), false;
    }
    f.no_such_type = !is_word(value, "normal");
  } else if (is_word(c.arg(i), "addr")) {
    f.peer = value;
  } else if (is_word(c.arg(i), "laddr")) {
    f.local = value;
  } else if (is_word(c.arg(i), "user")) {
    if (c.of.accounts().find(value) == nullptr) {
      return c.out.error("ERR No such user '" + std::string(value) + "'"), false;
    }
    f.user = value;
  } else if (is_word(c.arg(i), "skipme") && (is_word(value, "yes") || is_word(value, "no"))) {
    f.skips_me = is_word(value, "yes");
  } else {
    return c.out.error(syntax_error), false;
  }
  return true;
}

void client_kill(call& c) {
  kill_filter f;
  const bool old_form = c.count() == 3;
  if (old_form) {
    f.peer = c.arg(2);
    f.skips_me = false;
  } else {
    if (c.count() % 2 != 0) return c.out.error(syntax_error);
    for (std::size_t i = 2; i < c.count(); i += 2) {
      if (!read_filter(c, i, f)) return;
    }
  }
  std::int64_t killed = 0;
  c.of.for_each_client([&](caller& each) {
    if (!f.wants(each) || (&each == &c.who && f.skips_me)) return;
    ++killed;
    if (&each == &c.who) {
      c.who.close_when_sent = true;
    } else {
      service::end_client(each);
    }
  });
  if (killed != 0) c.of.rouse(c.who.origin.worker);
  if (!old_form) return c.out.integer(killed);
  killed != 0 ? c.out.ok() : c.out.error("ERR No such client");
}

void client_no_evict(call& c) {
  if (!is_word(c.arg(2), "on") && !is_word(c.arg(2), "off")) return c.out.error(syntax_error);
  c.who.no_evict = is_word(c.arg(2), "on");
  c.out.ok();
}

// No command blocks here, so no client can be unblocked.
void client_unblock(call& c) {
  if (c.count() > 4 ||
      (c.count() == 4 && !is_word(c.arg(3), "timeout") && !is_word(c.arg(3), "error"))) {
    return c.out.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  }
  if (integer_arg(c, 2)) c.out.integer(0);
}

void client_pause(call& c) {
  service::paused what = service::paused::all;
  if (c.count() == 4) {
    if (!is_word(c.arg(3), "write") && !is_word(c.arg(3), "all")) {
      return c.out.error("ERR CLIENT PAUSE mode must be WRITE or ALL");
    }
    if (is_word(c.arg(3), "write")) what = service::paused::writes;
  } else if (c.count() > 4) {
    return c.out.error(syntax_error);
  }
  const auto ms = integer_arg(c, 2, "ERR timeout is not an integer or out of range");
  if (!ms) return;
  if (*ms < 0) return c.out.error("ERR timeout is negative");
  if (*ms > std::numeric_limits<std::int64_t>::max() - static_cast<std::int64_t>(now_of(c))) {
    return c.out.error("ERR timeout is not an integer or out of range");
  }
  constexpr std::int64_t longest = cordma::duration::max() / std::chrono::milliseconds(1);
  const cordma::duration length = std::chrono::milliseconds(std::min(*ms, longest));
  c.of.pause(cordma::after(c.of.now(c.who.origin.worker), length), what);
  c.out.ok();
}

void client_unpause(call& c) {
  c.of.resume_all(c.who.origin.worker);
  c.out.ok();
}

void client_getredir(call& c) { c.out.integer(-1); }

void client_trackinginfo(call& c) {
  c.out.map(3);
  c.out.bulk("flags");
  c.out.set(1);
  c.out.bulk("off");
  c.out.bulk("redirect");
  c.out.integer(-1);
  c.out.bulk("prefixes");
  c.out.array(0);
}

void client_tracking(call& c) {
  if (c.count() == 3 && is_word(c.arg(2), "off")) return c.out.ok();
  c.out.error(is_word(c.arg(2), "on") ? "ERR client side caching is not supported" : syntax_error);
}

void client_help(call& c) {
  reply_help(c, "CLIENT",
             {"GETNAME",
              "    Return the name of the current connection.",
              "GETREDIR",
              "    Return the client ID we are redirecting to when tracking is enabled.",
              "ID",
              "    Return the ID of the current connection.",
              "INFO",
              "    Return information about the current client connection.",
              "KILL <ip:port>",
              "    Kill connection made from <ip:port>.",
              "KILL <option> <value> [<option> <value> [...]]",
              "    Kill connections. Options are:",
              "    * ADDR (<ip:port>|<unixsocket>:0)",
              "      Kill connections made from the specified address",
              "    * LADDR (<ip:port>|<unixsocket>:0)",
              "      Kill connections made to specified local address",
              "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
              "      Kill connections by type.",
              "    * USER <username>",
              "      Kill connections authenticated by <username>.",
              "    * SKIPME (YES|NO)",
              "      Skip killing current connection (default: yes).",
              "LIST [options ...]",
              "    Return information about client connections. Options:",
              "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
              "      Return clients of specified type.",
              "    * ID <id> [<id> ...]",
              "      Return clients of specified IDs only.",
              "NO-EVICT (ON|OFF)",
              "    Protect current client connection from eviction.",
              "PAUSE <timeout> [ALL|WRITE]",
              "    Suspend all, or just write, clients for <timeout> milliseconds.",
              "REPLY (ON|OFF|SKIP)",
              "    Control the replies sent to the current connection.",
              "SETINFO <option> <value>",
              "    Set client meta attr. Options are LIB-NAME and LIB-VER.",
              "SETNAME <name>",
              "    Assign the name <name> to the current connection.",
              "UNBLOCK <clientid> [TIMEOUT|ERROR]",
              "    Unblock the specified blocked client.",
              "UNPAUSE",
              "    Stop the current client pause, resuming traffic."});
}

constexpr auto client_parts = std::to_array<command>({
    {.name = "id",
     .run = client_id,
     .arity = 2,
     .since = "5.0.0",
     .summary = "Returns the client ID for the current connection"},
    {.name = "info",
     .run = client_info,
     .arity = 2,
     .summary = "Returns information about the current client connection",
     .tips = "nondeterministic_output"},
    {.name = "list",
     .run = client_list,
     .arity = -2,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "2.4.0",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Get the list of client connections",
     .tips = "nondeterministic_output"},
    {.name = "getname",
     .run = client_getname,
     .arity = 2,
     .since = "2.6.9",
     .summary = "Get the current connection name"},
    {.name = "setname",
     .run = client_setname,
     .arity = 3,
     .since = "2.6.9",
     .summary = "Set the current connection name"},
    {.name = "reply",
     .run = client_reply,
     .arity = 3,
     .since = "3.2.0",
     .summary = "Instruct the server whether to reply to commands"},
    {.name = "kill",
     .run = client_kill,
     .arity = -3,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "2.4.0",
     .complexity = "O(N) where N is the number of client connections",
     .summary = "Kill the connection of a client"},
    {.name = "no-evict",
     .run = client_no_evict,
     .arity = 3,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "7.0.0",
     .summary = "Set client eviction mode for the current connection"},
    {.name = "unblock",
     .run = client_unblock,
     .arity = -3,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "5.0.0",
     .complexity = "O(log N) where N is the number of client connections",
     .summary = "Unblock a client blocked in a blocking command from a different connection"},
    {.name = "pause",
     .run = client_pause,
     .arity = -3,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .since = "2.9.50",
     .summary = "Stop processing commands from clients for some time"},
    {.name = "unpause",
     .run = client_unpause,
     .arity = 2,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .complexity = "O(N) Where N is the number of paused clients",
     .summary = "Resume processing of clients that were paused"},
    {.name = "getredir",
     .run = client_getredir,
     .arity = 2,
     .since = "6.0.0",
     .summary = "Get tracking notifications redirection client ID if any"},
    {.name = "trackinginfo",
     .run = client_trackinginfo,
     .arity = 2,
     .summary =
         "Return information about server assisted client side caching for the current connection"},
    {.name = "tracking",
     .run = client_tracking,
     .arity = -3,
     .since = "6.0.0",
     .complexity = "O(1). Some options may introduce additional complexity.",
     .summary = "Enable or disable server assisted client side caching support"},
    help_part(client_help, "5.0.0"),
    {.name = "setinfo",
     .run = client_setinfo,
     .arity = 4,
     .since = "7.2.0",
     .summary = "Set client or connection specific info"},
});

constexpr auto clients_table = std::to_array<command>({
    container("client", "2.4.0", "A container for client connection commands",
              {.commands = client_parts,
               .since = "6.2.0",
               .flags = flag_noscript | flag_loading | flag_stale,
               .categories = in_connection,
               .shards = reach::own}),
});

}  // namespace

command_group client_commands() noexcept {
  return {.commands = clients_table, .name = "connection"};
}

}  // namespace kv
