// ACL: users and their rights.
#include "dispatch.hpp"
#include "handling.hpp"

#include <openssl/rand.h>
#include <algorithm>
#include <array>
#include <mutex>

namespace kv {
namespace {

constexpr std::string_view no_file =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users "
    "via the ACL SETUSER "
    "command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in "
    "order to store "
    "users in the Redis configuration.";

void acl_whoami(call& c) { c.out.bulk(c.who.said().user); }

void acl_users(call& c) {
  const auto all = c.of.accounts().all();
  c.out.array(all.size());
  for (const auto& u : all) c.out.bulk(u->name);
}

void acl_list(call& c) {
  const auto all = c.of.accounts().all();
  c.out.array(all.size());
  for (const auto& u : all) c.out.bulk("user " + u->name + ' ' + u->describe());
}

void acl_getuser(call& c) {
  const auto u = c.of.accounts().find(c.arg(2));
  if (u == nullptr) return c.out.null();
  c.out.map(6);
  c.out.bulk("flags");
  c.out.set(std::size_t{1} + (u->any_password ? 1U : 0U) + (u->payloads.empty() ? 0U : 1U));
  c.out.bulk(u->enabled ? "on" : "off");
  if (u->any_password) c.out.bulk("nopass");
  if (!u->payloads.empty()) c.out.bulk(u->payloads);
  c.out.bulk("passwords");
  c.out.array(u->passwords.size());
  for (const std::string& p : u->passwords) c.out.bulk(p);
  c.out.bulk("commands");
  c.out.bulk(u->describe_commands());
  c.out.bulk("keys");
  c.out.bulk(u->describe_keys());
  c.out.bulk("channels");
  c.out.bulk(u->describe_channels());
  c.out.bulk("selectors");
  c.out.array(0);
}

void acl_setuser(call& c) {
  const std::string why = c.of.accounts().set(c.arg(2), c.args.subspan(3));
  why.empty() ? c.out.ok() : c.out.error("ERR " + why);
}

void acl_deluser(call& c) {
  std::int64_t erased = 0;
  for (std::size_t i = 2; i < c.count(); ++i) {
    if (c.arg(i) == default_user) return c.out.error("ERR The 'default' user cannot be removed");
  }
  for (std::size_t i = 2; i < c.count(); ++i) {
    if (!c.of.accounts().erase(c.arg(i))) continue;
    ++erased;
    c.of.for_each_client([&](caller& each) {
      if (each.said().user != c.arg(i)) return;
      if (&each == &c.who) {
        c.who.close_when_sent = true;
      } else {
        service::end_client(each);
      }
    });
  }
  if (erased != 0) c.of.rouse(c.who.origin.worker);
  c.out.integer(erased);
}

void acl_cat(call& c) {
  const auto names = category_names();
  if (c.count() == 2) {
    c.out.array(names.size());
    for (const std::string_view n : names) c.out.bulk(n);
    return;
  }
  if (c.count() > 3) return c.out.error(syntax_error);
  const auto at =
      std::ranges::find_if(names, [&](std::string_view n) { return is_word(c.arg(2), n); });
  if (at == names.end())
    return c.out.error("ERR Unknown category '" + std::string(until_nul(c.arg(2))) + "'");
  std::vector<const known_command*> found;
  for (const known_command& k : c.of.commands().all()) {
    if ((k.belongs >> (at - names.begin()) & 1U) != 0) found.push_back(&k);
  }
  c.out.array(found.size());
  for (const known_command* k : found) c.out.bulk(k->full_name);
}

void acl_genpass(call& c) {
  constexpr std::string_view range =
      "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
      "number up to 4096";
  constexpr std::int64_t most_bits = 4096;
  std::int64_t bits = 256;
  if (c.count() > 3) return c.out.error(syntax_error);
  if (c.count() == 3) {
    const auto n = integer_arg(c, 2);
    if (!n) return;
    if (*n <= 0 || *n > most_bits) return c.out.error(range);
    bits = *n;
  }
  std::array<unsigned char, most_bits / 8> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    return c.out.error("ERR no random bytes can be had");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::int64_t i = 0; i < (bits + 3) / 4; ++i) {
    text += digits[random[static_cast<std::size_t>(i / 2)] >> (i % 2 * 4) & 15];
  }
  c.out.bulk(text);
}

void acl_dryrun(call& c) {
  const auto u = c.of.accounts().find(c.arg(2));
  if (u == nullptr) return c.out.error("ERR User '" + std::string(c.arg(2)) + "' not found");
  const known_command* k = c.of.commands().find(c.arg(3));
  if (k != nullptr && k->run == nullptr && c.count() > 4) {
    k = c.of.commands().find_part(*k, c.arg(4));
  }
  if (k == nullptr) return c.out.error("ERR Command '" + std::string(c.arg(3)) + "' not found");
  const std::span<const std::string_view> args = c.args.subspan(3);
  if (!k->fits(args.size())) {
    return c.out.error("ERR wrong number of arguments for '" + k->full_name + "' command");
  }
  const denied why = denied_by_rights(*u, *k, args);
  switch (why.what) {
    case denial::none: return c.out.ok();
    case denial::of_command:
      return c.out.bulk("This user has no permissions to run the '" + k->full_name + "' command");
    case denial::of_key:
      return c.out.bulk("This user has no permissions to access the '" +
                        std::string(args[why.key]) + "' key");
  }
}

void acl_save(call& c) {
  const std::string& path = c.of.current(c.who.origin.worker).aclfile;
  if (path.empty()) return c.out.error(no_file);
  const std::lock_guard alone(c.of.files_guard());
  const cordma::result<void> done = put_in_place(path, c.of.accounts().save());
  if (!done) {
    return c.out.error("ERR There was an error trying to save the ACLs: " + done.why().message());
  }
  c.out.ok();
}

void acl_load(call& c) {
  const std::string& path = c.of.current(c.who.origin.worker).aclfile;
  if (path.empty()) return c.out.error(no_file);
  const std::string why = c.of.load_users();
  why.empty() ? c.out.ok() : c.out.error("ERR " + why);
}

void give_entry(call& c, const acl_log::entry& e) {
  const unix_ms now = now_of(c);
  c.out.map(7);
  c.out.bulk("count");
  c.out.integer(static_cast<std::int64_t>(e.count));
  const std::array<std::pair<std::string_view, std::string_view>, 4> texts{
      {{"reason", e.reason}, {"context", e.context}, {"object", e.object}, {"username", e.user}}};
  for (const auto& [name, text] : texts) {
    c.out.bulk(name);
    c.out.bulk(text);
  }
  c.out.bulk("age-seconds");
  c.out.real(static_cast<double>(now > e.when ? now - e.when : 0) / 1000);
  c.out.bulk("client-info");
  c.out.bulk(e.client);
}

void acl_log_of(call& c) {
  std::int64_t count = 10;
  if (c.count() > 3) {
    return c.out.error(
        "ERR unknown subcommand or wrong number of arguments for 'log'. Try ACL HELP.");
  }
  if (c.count() == 3 && is_word(c.arg(2), "reset")) {
    c.of.denials().clear();
    return c.out.ok();
  }
  if (c.count() == 3) {
    const auto n = integer_arg(c, 2);
    if (!n) return;
    count = std::max<std::int64_t>(*n, 0);
  }
  const auto entries = c.of.denials().newest(static_cast<std::size_t>(count));
  c.out.array(entries.size());
  for (const acl_log::entry& e : entries) give_entry(c, e);
}

void acl_help(call& c) {
  reply_help(
      c, "ACL",
      {"CAT [<category>]",
       "    List all commands that belong to <category>, or all command categories",
       "    when no category is specified.",
       "DELUSER <username> [<username> ...]",
       "    Delete a list of users.",
       "DRYRUN <username> <command> [<arg> ...]",
       "    Returns whether the user can execute the given command without executing the command.",
       "GETUSER <username>",
       "    Get the user's details.",
       "GENPASS [<bits>]",
       "    Generate a secure 256-bit user password. The optional `bits` argument can",
       "    be used to specify a different size.",
       "LIST",
       "    Show users details in config file format.",
       "LOAD",
       "    Reload users from the ACL file.",
       "LOG [<count> | RESET]",
       "    List latest events denied because of ACL in place.",
       "SAVE",
       "    Save the current config to the ACL file.",
       "SETUSER <username> <attribute> [<attribute> ...]",
       "    Create or modify a user with the specified attributes.",
       "USERS",
       "    List all the registered usernames.",
       "WHOAMI",
       "    Return the current connection username."});
}

constexpr auto acl_parts = std::to_array<command>({
    {.name = "whoami",
     .run = acl_whoami,
     .arity = 2,
     .flags = flag_noscript | flag_loading | flag_stale,
     .summary = "Return the name of the user associated to the current connection"},
    {.name = "users",
     .run = acl_users,
     .arity = 2,
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "List the username of all the configured ACL rules"},
    {.name = "list",
     .run = acl_list,
     .arity = 2,
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "List the current ACL rules in ACL config file format"},
    {.name = "getuser",
     .run = acl_getuser,
     .arity = 3,
     .complexity = {},
     .summary = "Get the rules for a specific ACL user"},
    {.name = "setuser",
     .run = acl_setuser,
     .arity = -3,
     .complexity = "O(N). Where N is the number of rules provided.",
     .summary = "Modify or create the rules for a specific ACL user"},
    {.name = "deluser",
     .run = acl_deluser,
     .arity = -3,
     .complexity = "O(1) amortized time considering the typical user.",
     .summary = "Remove the specified ACL users and the associated rules"},
    {.name = "cat",
     .run = acl_cat,
     .arity = -2,
     .flags = flag_noscript | flag_loading | flag_stale,
     .complexity = "O(1) since the categories and commands are a fixed set.",
     .summary = "List the ACL categories or the commands inside a category"},
    {.name = "genpass",
     .run = acl_genpass,
     .arity = -2,
     .flags = flag_noscript | flag_loading | flag_stale,
     .summary = "Generate a pseudorandom secure password to use for ACL users"},
    {.name = "dryrun",
     .run = acl_dryrun,
     .arity = -4,
     .since = "7.0.0",
     .complexity = "O(1).",
     .summary =
         "Returns whether the user can execute the given command without executing the command"},
    {.name = "save",
     .run = acl_save,
     .arity = 2,
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Save the current ACL rules in the configured ACL file"},
    {.name = "load",
     .run = acl_load,
     .arity = 2,
     .complexity = "O(N). Where N is the number of configured users.",
     .summary = "Reload the ACLs from the configured ACL file"},
    {.name = "log",
     .run = acl_log_of,
     .arity = -2,
     .complexity = "O(N) with N being the number of entries shown.",
     .summary = "List latest events denied because of ACLs in place"},
    help_part(acl_help, "6.0.0"),
});

constexpr auto acls_table = std::to_array<command>({
    container("acl", "6.0.0", "A container for Access List Control commands",
              {.commands = acl_parts,
               .since = "6.0.0",
               .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
               .shards = reach::own}),
});

}  // namespace

void note_denied(service& of, const caller& who, const prepared& p, denied why, denied_in where) {
  const unsigned worker = who.origin.worker;
  const bool of_key = why.what == denial::of_key;
  of.denials().add({.reason = of_key ? "key" : "command",
                    .context = where == denied_in::multi ? "multi" : "toplevel",
                    .object = of_key ? std::string(p.said[why.key]) : p.what->full_name,
                    .user = who.said().user,
                    .client = describe(who, of.now_ms(worker)),
                    .when = of.now_ms(worker)},
                   static_cast<std::size_t>(of.current(worker).acllog_max_len));
}

command_group acl_commands() noexcept { return {.commands = acls_table, .name = "server"}; }

}  // namespace kv
