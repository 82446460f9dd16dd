// COMMAND: the list of commands and their properties.
#include "handling.hpp"

#include "../resp/glob.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace kv {
namespace {

void give_names(call& c, std::span<const std::string_view> names, std::uint32_t bits,
                std::string_view prefix) {
  bits &= (1U << names.size()) - 1;  // drop flags without a name
  c.out.set(static_cast<std::size_t>(std::popcount(bits)));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if ((bits >> i & 1U) != 0) c.out.simple(std::string(prefix) + std::string(names[i]));
  }
}

enum class placing : std::uint8_t { range, counted };

// Describes one key, or the keys from `first` to `last`, which is relative to `first` or, if
// negative, to the end.
void give_key_specification(call& c, std::uint16_t use, std::string_view note, int first, int last,
                            int step, placing how = placing::range) {
  const bool counted = how == placing::counted;
  c.out.map(note.empty() ? 3 : 4);
  if (!note.empty()) {
    c.out.bulk("notes");
    c.out.bulk(note);
  }
  c.out.bulk("flags");
  give_names(c, key_use_names(), use, "");
  c.out.bulk("begin_search");
  c.out.map(2);
  c.out.bulk("type");
  c.out.bulk("index");
  c.out.bulk("spec");
  c.out.map(1);
  c.out.bulk("index");
  c.out.integer(first);
  c.out.bulk("find_keys");
  c.out.map(2);
  c.out.bulk("type");
  if (counted) {
    c.out.bulk("keynum");
    c.out.bulk("spec");
    c.out.map(3);
    c.out.bulk("keynumidx");
    c.out.integer(0);
    c.out.bulk("firstkey");
    c.out.integer(1);
    c.out.bulk("keystep");
    c.out.integer(1);
    return;
  }
  c.out.bulk("range");
  c.out.bulk("spec");
  c.out.map(3);
  c.out.bulk("lastkey");
  c.out.integer(last);
  c.out.bulk("keystep");
  c.out.integer(step);
  c.out.bulk("limit");
  c.out.integer(0);
}

void give_key_specifications(call& c, const known_command& k) {
  const key_positions& keys = k.keys;
  if (!k.has_keys()) return c.out.set(0);
  if (keys.counted_at != 0) {
    c.out.set(1);
    return give_key_specification(c, keys.use, keys.note, keys.counted_at, 0, 1, placing::counted);
  }
  if (keys.second_use == 0) {
    c.out.set(1);
    const int last = keys.last < 0 ? keys.last : keys.last - keys.first;
    return give_key_specification(c, keys.use, keys.note, keys.first, last, keys.step);
  }
  c.out.set(2);
  give_key_specification(c, keys.use, keys.note, keys.first, 0, 1);
  give_key_specification(c, keys.second_use, {}, keys.last, 0, 1);
}

void give_tips(call& c, std::string_view tips) {
  c.out.set(tips.empty() ? 0 : static_cast<std::size_t>(std::ranges::count(tips, ' ')) + 1);
  while (!tips.empty()) {
    const std::string_view one = tips.substr(0, tips.find(' '));
    c.out.bulk(one);
    tips.remove_prefix(std::min(one.size() + 1, tips.size()));
  }
}

void give_info(call& c, const known_command* k) {
  if (k == nullptr) return c.out.null();
  c.out.array(10);
  c.out.bulk(k->full_name);
  c.out.integer(k->arity);
  give_names(c, flag_names(), k->flags, "");
  const bool listed = k->keys.counted_at == 0;
  c.out.integer(listed ? k->keys.first : 0);
  c.out.integer(listed ? k->keys.last : 0);
  c.out.integer(listed ? k->keys.step : 0);
  give_names(c, category_names(), k->belongs, "@");
  give_tips(c, k->tips);
  give_key_specifications(c, *k);
  c.out.set(k->parts.size());
  for (const known_command* part : k->parts) give_info(c, part);
}

void give_docs(call& c, const known_command& k) {
  c.out.bulk(k.full_name);
  const bool complex = !k.complexity.empty();
  c.out.map(std::size_t{3} + (complex ? 1U : 0U) + (k.parts.empty() ? 0U : 1U));
  c.out.bulk("summary");
  c.out.bulk(k.summary);
  c.out.bulk("since");
  c.out.bulk(k.since);
  c.out.bulk("group");
  c.out.bulk(k.group);
  if (complex) {
    c.out.bulk("complexity");
    c.out.bulk(k.complexity);
  }
  if (k.parts.empty()) return;
  c.out.bulk("subcommands");
  c.out.map(k.parts.size());
  for (const known_command* part : k.parts) give_docs(c, *part);
}

void all_info(call& c) {
  c.out.array(c.of.commands().commands().size());
  for (const known_command* k : c.of.commands().commands()) give_info(c, k);
}

void command_count(call& c) {
  c.out.integer(static_cast<std::int64_t>(c.of.commands().commands().size()));
}

void command_info(call& c) {
  if (c.count() == 2) return all_info(c);
  c.out.array(c.count() - 2);
  for (std::size_t i = 2; i < c.count(); ++i) give_info(c, c.of.commands().find_full(c.arg(i)));
}

void command_docs(call& c) {
  std::vector<const known_command*> wanted;
  if (c.count() == 2) {
    wanted.assign(c.of.commands().commands().begin(), c.of.commands().commands().end());
  }
  for (std::size_t i = 2; i < c.count(); ++i) {
    const known_command* const k = c.of.commands().find_full(c.arg(i));
    if (k != nullptr) wanted.push_back(k);
  }
  c.out.map(wanted.size());
  for (const known_command* k : wanted) give_docs(c, *k);
}

void command_list(call& c) {
  std::optional<std::uint32_t> category;
  std::optional<std::string_view> pattern;
  bool none = false;
  if (c.count() == 5 && is_word(c.arg(2), "filterby")) {
    if (is_word(c.arg(3), "aclcat")) {
      const auto names = category_names();
      const auto at =
          std::ranges::find_if(names, [&](std::string_view n) { return is_word(c.arg(4), n); });
      none = at == names.end();
      category = none ? 0 : std::uint32_t{1} << (at - names.begin());
    } else if (is_word(c.arg(3), "pattern")) {
      pattern = c.arg(4);
    } else if (is_word(c.arg(3), "module")) {
      none = true;
    } else {
      return c.out.error(syntax_error);
    }
  } else if (c.count() != 2) {
    return c.out.error(syntax_error);
  }
  std::vector<const known_command*> wanted;
  for (const known_command& k : c.of.commands().all()) {
    if (none || (!category && !pattern && k.full_name.size() != k.name.size())) continue;
    if (category && (k.belongs & *category) == 0) continue;
    if (pattern && !matches_glob(*pattern, k.full_name, letter_case::ignored)) continue;
    wanted.push_back(&k);
  }
  c.out.array(wanted.size());
  for (const known_command* k : wanted) c.out.bulk(k->full_name);
}

// Returns the command named by argument 2, with its own arguments, if it has keys. Returns null
// after an error reply.
const known_command* command_in(call& c) {
  const known_command* k = c.of.commands().find(c.arg(2));
  if (k != nullptr && k->run == nullptr && c.count() > 3) {
    const known_command* const part = c.of.commands().find_part(*k, c.arg(3));
    if (part != nullptr) k = part;
  }
  const std::size_t count = c.count() - 2;
  if (k == nullptr) {
    c.out.error("ERR Invalid command specified");
  } else if (!k->has_keys()) {
    c.out.error("ERR The command has no key arguments");
  } else if (!k->fits(count)) {
    c.out.error("ERR Invalid number of arguments specified for command");
  } else {
    return k;
  }
  return nullptr;
}

// Returns the positions of its keys in `args`, which begin with its name.
std::vector<std::size_t> places_of_keys(const known_command& k,
                                        std::span<const std::string_view> args) {
  std::vector<std::size_t> found;
  const std::size_t end = k.keys_end(args);
  for (auto i = static_cast<std::size_t>(k.keys.first); i < end;
       i += static_cast<std::size_t>(k.keys.step)) {
    found.push_back(i);
  }
  return found;
}

void command_getkeys(call& c) {
  const known_command* const k = command_in(c);
  if (k == nullptr) return;
  const std::span<const std::string_view> args = c.args.subspan(2);
  const std::vector<std::size_t> places = places_of_keys(*k, args);
  c.out.array(places.size());
  for (const std::size_t i : places) c.out.bulk(args[i]);
}

void command_getkeysandflags(call& c) {
  const known_command* const k = command_in(c);
  if (k == nullptr) return;
  const std::span<const std::string_view> args = c.args.subspan(2);
  const std::vector<std::size_t> places = places_of_keys(*k, args);
  c.out.array(places.size());
  for (const std::size_t i : places) {
    c.out.array(2);
    c.out.bulk(args[i]);
    give_names(c, key_use_names(), use_of_key(*k, args, i), "");
  }
}

void command_help(call& c) {
  reply_help(c, "COMMAND",
             {"(no subcommand)", "    Return details about all Redis commands.", "COUNT",
              "    Return the total number of commands in this Redis server.", "LIST",
              "    Return a list of all commands in this Redis server.",
              "INFO [<command-name> ...]", "    Return details about multiple Redis commands.",
              "    If no command names are given, documentation details for all",
              "    commands are returned.", "DOCS [<command-name> ...]",
              "    Return documentation details about multiple Redis commands.",
              "    If no command names are given, documentation details for all",
              "    commands are returned.", "GETKEYS <full-command>",
              "    Return the keys from a full Redis command.", "GETKEYSANDFLAGS <full-command>",
              "    Return the keys and the access flags from a full Redis command."});
}

constexpr auto command_parts = std::to_array<command>({
    {.name = "count",
     .run = command_count,
     .arity = 2,
     .summary = "Get total number of Redis commands"},
    {.name = "info",
     .run = command_info,
     .arity = -2,
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Get array of specific Redis command details, or all when no argument is given",
     .tips = "nondeterministic_output_order"},
    {.name = "docs",
     .run = command_docs,
     .arity = -2,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of commands to look up",
     .summary = "Get array of specific Redis command documentation",
     .tips = "nondeterministic_output_order"},
    {.name = "list",
     .run = command_list,
     .arity = -2,
     .since = "7.0.0",
     .complexity = "O(N) where N is the total number of Redis commands",
     .summary = "Get an array of Redis command names",
     .tips = "nondeterministic_output_order"},
    {.name = "getkeys",
     .run = command_getkeys,
     .arity = -4,
     .complexity = "O(N) where N is the number of arguments to the command",
     .summary = "Extract keys given a full Redis command"},
    {.name = "getkeysandflags",
     .run = command_getkeysandflags,
     .arity = -4,
     .since = "7.0.0",
     .complexity = "O(N) where N is the number of arguments to the command",
     .summary = "Extract keys and access flags given a full Redis command"},
    help_part(command_help, "5.0.0"),
});

constexpr auto introspection_table = std::to_array<command>({
    {.name = "command",
     .run = all_info,
     .arity = -1,
     .flags = flag_loading | flag_stale,
     .categories = in_connection,
     .shards = reach::own,
     .group = "server",
     .since = "2.8.13",
     .complexity = "O(N) where N is the total number of Redis commands",
     .summary = "Get array of Redis command details",
     .tips = "nondeterministic_output_order",
     .subcommands = {.commands = command_parts,
                     .since = "2.8.13",
                     .flags = flag_loading | flag_stale,
                     .categories = in_connection,
                     .shards = reach::own}},
});

}  // namespace

command_group introspection_commands() noexcept { return {.commands = introspection_table}; }

}  // namespace kv
