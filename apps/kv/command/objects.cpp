// OBJECT: the representation of a value.
#include "handling.hpp"

#include "../resp/number.hpp"

#include <algorithm>
#include <array>

namespace kv {
namespace {

constexpr std::size_t longest_embedded = 44;  // limit between Redis's two kinds of strings
constexpr std::size_t longest_integer = 20;

// Returns Redis's name for the most similar representation.
std::string_view encoding_of(const found& f) {
  if (f.is_string()) {
    if (f.value.size() <= longest_integer && parse_integer(f.value)) return "int";
    return f.value.size() <= longest_embedded ? "embstr" : "raw";
  }
  return f.fields->is_small() ? "listpack" : "hashtable";
}

void encoding(call& c) {
  const found f = store_of(c, c.key).peek(c.key);
  f ? c.out.bulk(encoding_of(f)) : c.out.null();
}

void refcount(call& c) { store_of(c, c.key).peek(c.key) ? c.out.integer(1) : c.out.null(); }

void idletime(call& c) {
  store& s = store_of(c, c.key);
  const found f = s.peek(c.key);
  if (!f) return c.out.null();
  if (counts_uses(c.of.current(c.who.origin.worker).maxmemory_policy)) {
    return c.out.error(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when "
        "switching between "
        "policies at runtime LRU and LFU data will take some time to adjust.");
  }
  c.out.integer(static_cast<std::int64_t>(s.idle_seconds(*f.at)));
}

void freq(call& c) {
  store& s = store_of(c, c.key);
  const found f = s.peek(c.key);
  if (!f) return c.out.null();
  if (!counts_uses(c.of.current(c.who.origin.worker).maxmemory_policy)) {
    return c.out.error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note "
        "that when switching "
        "between policies at runtime LRU and LFU data will take some time to adjust.");
  }
  c.out.integer(s.frequency(*f.at));
}

void object_help(call& c) {
  reply_help(c, "OBJECT",
             {"ENCODING <key>",
              "    Return the kind of internal representation used in order to store the value",
              "    associated with a <key>.", "FREQ <key>",
              "    Return the access frequency index of the <key>. The returned integer is",
              "    proportional to the logarithm of the recent access frequency of the key.",
              "IDLETIME <key>",
              "    Return the idle time of the <key>, that is the approximated number of",
              "    seconds elapsed since the last access to the key.", "REFCOUNT <key>",
              "    Return the number of references of the value associated with the specified",
              "    <key>."});
}

constexpr auto object_parts = std::to_array<command>({
    {.name = "encoding",
     .run = encoding,
     .arity = 3,
     .keys = {.first = 2, .last = 2, .step = 1, .use = use_ro},
     .summary = "Inspect the internal encoding of a Redis object",
     .tips = "nondeterministic_output"},
    {.name = "freq",
     .run = freq,
     .arity = 3,
     .keys = {.first = 2, .last = 2, .step = 1, .use = use_ro},
     .since = "4.0.0",
     .summary = "Get the logarithmic access frequency counter of a Redis object",
     .tips = "nondeterministic_output"},
    {.name = "idletime",
     .run = idletime,
     .arity = 3,
     .keys = {.first = 2, .last = 2, .step = 1, .use = use_ro},
     .summary = "Get the time since a Redis object was last accessed",
     .tips = "nondeterministic_output"},
    {.name = "refcount",
     .run = refcount,
     .arity = 3,
     .keys = {.first = 2, .last = 2, .step = 1, .use = use_ro},
     .summary = "Get the number of references to the value of the key",
     .tips = "nondeterministic_output"},
    help_part(object_help, "6.2.0"),
});

constexpr auto objects_table = std::to_array<command>({
    container("object", "2.2.3", "A container for object introspection commands",
              {.commands = object_parts,
               .since = "2.2.3",
               .flags = flag_readonly,
               .categories = in_keyspace}),
});

}  // namespace

command_group object_commands() noexcept { return {.commands = objects_table, .name = "generic"}; }

}  // namespace kv
