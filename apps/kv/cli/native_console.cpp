// Redis commands, sent over the native protocol.
#include "../native/blocking_client.hpp"
#include "console.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

namespace kv::cli {
namespace {

using native::status;
using words = std::span<const std::string>;

// Becomes an error reply.
class refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

template <class Number = std::int64_t>
Number number_of(const std::string& text) {
  Number value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    throw refusal("ERR '" + text + "' is not an integer or out of range");
  }
  return value;
}

std::int64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

// A past time must remain a time: 0 would mean no expiry.
unix_ms moment(std::int64_t ms) { return static_cast<unix_ms>(std::max<std::int64_t>(ms, 1)); }

unix_ms moment_of(const std::string& text, std::int64_t unit_ms, std::int64_t from_ms) {
  std::int64_t ms = 0;
  if (__builtin_mul_overflow(number_of(text), unit_ms, &ms) ||
      __builtin_add_overflow(ms, from_ms, &ms)) {
    throw refusal("ERR invalid expire time");
  }
  return moment(ms);
}

// For SET's options, as in Redis: the number must be above zero, but the time may be in the past.
unix_ms expiry_of(const std::string& text, std::int64_t unit_ms, std::int64_t from_ms) {
  if (number_of(text) <= 0) throw refusal("ERR invalid expire time in 'set' command");
  return moment_of(text, unit_ms, from_ms);
}

void require_success(const reply& r) {
  switch (r.outcome) {
    case status::done:
    case status::absent:
    case status::present:
    case status::other_version: return;
    case status::wrong_type:
      throw refusal("WRONGTYPE Operation against a key holding the wrong kind of value");
    case status::not_a_number: throw refusal("ERR value is not an integer or out of range");
    case status::too_long: throw refusal("ERR key or value is too long");
    case status::out_of_memory:
      throw refusal("OOM command not allowed when used memory > 'maxmemory'.");
    case status::refused: throw refusal("MISCONF the server takes no writes just now");
    case status::no_such_time: throw refusal("ERR invalid expire time");
    case status::malformed: break;
  }
  throw refusal("ERR the server does not know this operation");
}

set_options set_options_of(words options) {
  set_options o;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string what = upper(options[i]);
    const auto value = [&]() -> const std::string& {
      if (++i == options.size()) throw refusal("ERR syntax error: " + what + " needs a value");
      return options[i];
    };
    if (what == "NX") {
      o.flags |= native::op_head::if_absent;
    } else if (what == "XX") {
      o.flags |= native::op_head::if_present;
    } else if (what == "KEEPTTL") {
      o.flags |= native::op_head::keep_expiry;
    } else if (what == "VERSION") {
      o.flags |= native::op_head::if_version;
      o.version = static_cast<std::uint64_t>(number_of(value()));
    } else if (what == "EX") {
      o.expiry = expiry_of(value(), 1000, now_ms());
    } else if (what == "PX") {
      o.expiry = expiry_of(value(), 1, now_ms());
    } else if (what == "EXAT") {
      o.expiry = expiry_of(value(), 1000, 0);
    } else if (what == "PXAT") {
      o.expiry = expiry_of(value(), 1, 0);
    } else {
      throw refusal("ERR syntax error at '" + options[i] + "'");
    }
  }
  constexpr unsigned both = native::op_head::if_absent | native::op_head::if_present;
  if ((o.flags & both) == both) throw refusal("ERR syntax error: NX and XX exclude each other");
  return o;
}

// Views of the words.
struct scan_words {
  std::uint64_t cursor = 0;
  scan_options options = {.count = 10};
  std::optional<native::kind> type = {};
};

scan_words scan_words_of(words of) {
  scan_words how;
  how.cursor = number_of<std::uint64_t>(of[0]);
  for (std::size_t i = 1; i + 1 < of.size(); i += 2) {
    const std::string what = upper(of[i]);
    if (what == "MATCH") {
      how.options.pattern = of[i + 1];
    } else if (what == "COUNT") {
      const std::int64_t count = number_of(of[i + 1]);
      if (count < 1) throw refusal("ERR syntax error at '" + of[i + 1] + "'");
      how.options.count =
          static_cast<std::uint32_t>(std::min<std::int64_t>(count, native::most_scanned));
    } else if (what == "TYPE" && (upper(of[i + 1]) == "STRING" || upper(of[i + 1]) == "HASH")) {
      how.type = upper(of[i + 1]) == "HASH" ? native::kind::hash : native::kind::string;
    } else {
      throw refusal("ERR syntax error at '" + of[i] + "'");
    }
  }
  if (of.size() % 2 == 0) throw refusal("ERR syntax error at '" + of.back() + "'");
  return how;
}

resp_value value_of(const reply& r) {
  return r ? resp_value::of_bulk(std::string(r.value)) : resp_value{};
}

class native_console final : public console {
 public:
  explicit native_console(const service& s)
      : name_(s.native), client_(s.native, s.as_native(), s.wait) {
    if (!client_.inner().fell_back()) return;
    std::fprintf(stderr, "note: the server is on this machine, and shared memory is not used: %s\n",
                 client_.inner().transport_reason().c_str());
  }
  resp_value run(const std::vector<std::string>& line) override;
  [[nodiscard]] std::string help() const override { return native_help(); }

  resp_value get(words of) { return value_of(found(of[0])); }
  resp_value gets(words of) {
    const reply r = found(of[0]);
    if (!r) return {};
    resp_value all{.what = resp_value::kind::map};
    all.items.push_back(resp_value::of_bulk("value"));
    all.items.push_back(value_of(r));
    all.items.push_back(resp_value::of_bulk("version"));
    all.items.push_back(resp_value::of_integer(static_cast<std::int64_t>(r.version)));
    all.items.push_back(resp_value::of_bulk("pttl"));
    all.items.push_back(resp_value::of_integer(ttl_ms(r)));
    return all;
  }
  resp_value mget(words of) {
    resp_value all{.what = resp_value::kind::array};
    in_batches(
        of, 1, [](batch& b, words key) { return b.get(key[0]); },
        [&](const reply& r) {
          // as in Redis: a key that holds no string returns nil
          if (r.outcome != status::wrong_type) require_success(r);
          all.items.push_back(value_of(r));
        });
    return all;
  }
  resp_value exists(words of) {
    return counted(of, [](batch& b, words key) { return b.get(key[0]); }, status::wrong_type);
  }
  resp_value erase(words of) {
    return counted(of, [](batch& b, words key) { return b.erase(key[0]); }, status::done);
  }
  resp_value touch(words of) {
    // A get is a use as well, and reports whether the key exists.
    return exists(of);
  }
  resp_value mset(words of) {
    if (of.size() % 2 != 0) throw refusal("ERR wrong number of arguments for 'mset' command");
    in_batches(
        of, 2, [](batch& b, words pair) { return b.set(pair[0], pair[1]); },
        [](const reply& r) { require_success(r); });
    return resp_value::of_status("OK");
  }
  resp_value set(words of) {
    const reply r = client_.set(of[0], of[1], set_options_of(of.subspan(2)));
    require_success(r);
    return r ? resp_value::of_status("OK") : resp_value{};
  }
  resp_value cas(words of) {
    set_options how = set_options_of(of.subspan(3));
    how.flags |= native::op_head::if_version;
    how.version = static_cast<std::uint64_t>(number_of(of[1]));
    const reply r = client_.set(of[0], of[2], how);
    require_success(r);
    if (r.outcome == status::other_version) {
      return resp_value::of_error("VERSION the key is of version " + std::to_string(r.version));
    }
    return r ? resp_value::of_integer(static_cast<std::int64_t>(r.version)) : resp_value{};
  }
  resp_value strlen(words of) {
    const reply r = found(of[0]);
    return resp_value::of_integer(static_cast<std::int64_t>(r.value.size()));
  }
  resp_value add(const std::string& key, std::int64_t by) {
    const reply r = single([&](batch& b) { return b.increment(key, by); });
    return resp_value::of_integer(number_of(std::string(r.value)));
  }
  resp_value incr(words of) { return add(of[0], 1); }
  resp_value decr(words of) { return add(of[0], -1); }
  resp_value incrby(words of) { return add(of[0], number_of(of[1])); }
  resp_value decrby(words of) {
    std::int64_t by = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, number_of(of[1]), &by)) {
      throw refusal("ERR decrement would overflow");
    }
    return add(of[0], by);
  }
  resp_value expire(words of) { return expire_at(of[0], moment_of(of[1], 1000, now_ms())); }
  resp_value pexpire(words of) { return expire_at(of[0], moment_of(of[1], 1, now_ms())); }
  resp_value expireat(words of) { return expire_at(of[0], moment_of(of[1], 1000, 0)); }
  resp_value pexpireat(words of) { return expire_at(of[0], moment_of(of[1], 1, 0)); }
  resp_value persist(words of) {
    batch b;
    if (!b.get(of[0]) || !b.expire(of[0], never_expires)) too_long();
    client_.run(b);
    require_success(b.replies()[1]);
    const reply& before = b.replies()[0];
    return resp_value::of_integer(before && before.expiry != never_expires ? 1 : 0);
  }
  resp_value pttl(words of) {
    const reply r = found(of[0]);
    return resp_value::of_integer(r ? ttl_ms(r) : -2);
  }
  resp_value ttl(words of) {
    const std::int64_t ms = pttl(of).integer;
    return resp_value::of_integer(ms < 0 ? ms : (ms + 500) / 1000);
  }
  resp_value info(words of) {
    return resp_value::of_text(client_.info(of.empty() ? std::string_view() : of[0]));
  }
  resp_value scan(words of) {
    const scan_words how = scan_words_of(of);
    std::vector<scanned_key> keys;
    const std::uint64_t next = client_.scan(how.cursor, how.options, keys);
    resp_value found{.what = resp_value::kind::array};
    for (scanned_key& k : keys) {
      if (!how.type || k.what == *how.type)
        found.items.push_back(resp_value::of_bulk(std::move(k.key)));
    }
    resp_value both{.what = resp_value::kind::array};
    both.items.push_back(resp_value::of_bulk(std::to_string(next)));
    both.items.push_back(std::move(found));
    return both;
  }
  resp_value connection(words /*of*/) {
    client& c = client_.inner();
    const client_counters& n = c.counters();
    resp_value all{.what = resp_value::kind::map};
    const auto text = [&](const char* what, std::string value) {
      all.items.push_back(resp_value::of_bulk(what));
      all.items.push_back(resp_value::of_bulk(std::move(value)));
    };
    text("server", name_);
    text("transport", std::string(c.transport()));
    text("reason", c.transport_reason());
    text("gets", c.one_sided() ? "one-sided" : "by request");
    for (const auto& [what, count] :
         {std::pair("shards", std::uint64_t{c.shards()}), std::pair("one_sided", n.one_sided),
          std::pair("asked", n.asked), std::pair("requests", n.batches),
          std::pair("absent", n.absent), std::pair("torn", n.torn),
          std::pair("expiring", n.expiring), std::pair("longer", n.longer),
          std::pair("unmapped", n.unmapped), std::pair("late", n.late),
          std::pair("silent", n.silent), std::pair("unsafe", n.unsafe),
          std::pair("one_sided_reads", n.reads), std::pair("torn_reads", n.torn_reads),
          std::pair("registrations", n.registrations)}) {
      all.items.push_back(resp_value::of_bulk(what));
      all.items.push_back(resp_value::of_integer(static_cast<std::int64_t>(count)));
    }
    return all;
  }

 private:
  [[noreturn]] static void too_long() { throw refusal("ERR key or value is too long"); }
  [[nodiscard]] static std::int64_t ttl_ms(const reply& r) {
    if (r.expiry == never_expires) return -1;
    return std::max<std::int64_t>(static_cast<std::int64_t>(r.expiry) - now_ms(), 0);
  }
  // The value is valid until the client's next request.
  reply found(const std::string& key) {
    const reply r = client_.get(key, value_);
    require_success(r);
    return r;
  }
  template <class Add>
  reply single(Add add) {
    batch_.clear();
    if (!add(batch_)) too_long();
    client_.run(batch_);
    require_success(batch_.replies().front());
    return batch_.replies().front();
  }
  resp_value expire_at(const std::string& key, unix_ms when) {
    const reply r = single([&](batch& b) { return b.expire(key, when); });
    return resp_value::of_integer(r ? 1 : 0);
  }
  // Splits any number of words into batches; `each` words form one operation.
  template <class Add, class Take>
  void in_batches(words of, std::size_t each, Add add, Take take) {
    const auto send = [&] {
      client_.read(batch_);  // operations other than gets are run on the server
      for (const reply& r : batch_.replies()) take(r);
      batch_.clear();
    };
    batch_.clear();
    for (std::size_t i = 0; i < of.size(); i += each) {
      if (add(batch_, of.subspan(i, each))) continue;
      if (batch_.empty()) too_long();
      send();
      if (!add(batch_, of.subspan(i, each))) too_long();
    }
    send();
  }
  template <class Add>
  resp_value counted(words of, Add add, status also) {
    std::int64_t count = 0;
    in_batches(of, 1, add, [&](const reply& r) {
      if (r.outcome != also) require_success(r);
      count += r || r.outcome == also ? 1 : 0;
    });
    return resp_value::of_integer(count);
  }

  std::string name_;
  blocking_client client_;
  batch batch_;
  std::string value_;
};

struct command {
  std::string_view name;
  std::size_t least = 0;  // words after the name
  std::size_t most = 0;
  std::string_view arguments;
  std::string_view text;
  resp_value (native_console::*run)(words);
};
constexpr std::size_t many = ~std::size_t{0};
using c = native_console;
constexpr command commands[] = {
    {"get", 1, 1, "KEY", "the value", &c::get},
    {"gets", 1, 1, "KEY", "the value, its version, and how long it lasts", &c::gets},
    {"mget", 1, many, "KEY...", "the values, read in batches", &c::mget},
    {"set", 2, 10, "KEY VALUE [EX s|PX ms|EXAT s|PXAT ms] [NX|XX] [KEEPTTL] [VERSION n]",
     "conditions that do not hold answer nil", &c::set},
    {"cas", 3, 8, "KEY VERSION VALUE [EX s]...", "only where the key is of this version", &c::cas},
    {"mset", 2, many, "KEY VALUE...", "batches, each of which is done at once", &c::mset},
    {"del", 1, many, "KEY...", "how many there were", &c::erase},
    {"exists", 1, many, "KEY...", "how many there are", &c::exists},
    {"touch", 1, many, "KEY...", "they are in use", &c::touch},
    {"strlen", 1, 1, "KEY", "bytes of the value", &c::strlen},
    {"incr", 1, 1, "KEY", "", &c::incr},
    {"decr", 1, 1, "KEY", "", &c::decr},
    {"incrby", 2, 2, "KEY N", "", &c::incrby},
    {"decrby", 2, 2, "KEY N", "", &c::decrby},
    {"expire", 2, 2, "KEY SECONDS", "by the clock of this machine, as all that counts from now",
     &c::expire},
    {"pexpire", 2, 2, "KEY MS", "", &c::pexpire},
    {"expireat", 2, 2, "KEY UNIX-SECONDS", "", &c::expireat},
    {"pexpireat", 2, 2, "KEY UNIX-MS", "", &c::pexpireat},
    {"persist", 1, 1, "KEY", "it lasts for ever", &c::persist},
    {"ttl", 1, 1, "KEY", "seconds; -1: for ever, -2: no such key", &c::ttl},
    {"pttl", 1, 1, "KEY", "milliseconds", &c::pttl},
    {"scan", 1, 7, "CURSOR [MATCH pattern] [COUNT n] [TYPE string|hash]",
     "some keys, and the cursor to go on at; 0: from the start, and the end", &c::scan},
    {"info", 0, 1, "[SECTION]", "how the server fares", &c::info},
    {"connection", 0, 0, "", "how gets were answered by this one", &c::connection},
};

resp_value native_console::run(const std::vector<std::string>& line) {
  const std::string name = upper(line.front());
  const auto* const at = std::ranges::find_if(
      commands, [&](const command& k) { return upper(std::string(k.name)) == name; });
  if (at == std::end(commands)) {
    return resp_value::of_error("ERR unknown command '" + line.front() +
                                "'; the native protocol has few, others go over --resp");
  }
  const words rest = words(line).subspan(1);
  if (rest.size() < at->least || rest.size() > at->most) {
    return resp_value::of_error("ERR wrong number of arguments for '" + std::string(at->name) +
                                "' command: it takes " + std::string(at->arguments));
  }
  try {
    return (this->*at->run)(rest);
  } catch (const refusal& e) {
    return resp_value::of_error(e.what());
  }
}

}  // namespace

std::unique_ptr<console> connect_native_console(const service& s) {
  return std::make_unique<native_console>(s);
}

std::string native_help() {
  std::string text;
  for (const command& k : commands) {
    std::string line = "  " + std::string(k.name) + " " + std::string(k.arguments);
    constexpr std::size_t column = 30;
    if (!k.text.empty()) {
      line += line.size() < column ? std::string(column - line.size(), ' ') : "  ";
      line += k.text;
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace kv::cli
