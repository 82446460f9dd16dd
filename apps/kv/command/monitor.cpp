#include "monitor.hpp"

#include "../resp/words.hpp"
#include "handling.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace kv {
namespace {

void monitor(call& c) {
  if (c.who.in_transaction) {
    return c.out.error("ERR MONITOR isn't allowed for DENY BLOCKING client");
  }
  c.of.start_monitor(c.who);
  c.out.ok();
}

// Limit of the shown arguments, in bytes plus one per argument. Quoting makes them at most four
// times as long, so one command does not end a monitor that reads.
constexpr std::size_t longest_shown = monitor_box::most_bytes / 8;

constexpr auto monitor_table = std::to_array<command>({
    {.name = "monitor",
     .run = monitor,
     .arity = 1,
     .flags = flag_admin | flag_noscript | flag_loading | flag_stale,
     .shards = reach::own,
     .group = "server",
     .since = "1.0.0",
     .complexity = {},
     .summary = "Listen for all requests received by the server in real time"},
});

}  // namespace

std::string monitor_line(const caller& who, std::uint64_t now_us,
                         std::span<const std::string_view> args) {
  std::array<char, 48> time{};
  const int n =
      std::snprintf(time.data(), time.size(), "+%llu.%06llu [%u ",
                    static_cast<unsigned long long>(now_us / 1'000'000),
                    static_cast<unsigned long long>(now_us % 1'000'000), who.database.load());
  std::string line(time.data(), static_cast<std::size_t>(n));
  if (who.origin.came_by == door::unix_socket) {
    line.append("unix:").append(who.origin.peer, 0, who.origin.peer.rfind(':'));
  } else {
    line += who.origin.peer;
  }
  line += ']';
  std::size_t left = longest_shown;
  for (std::size_t i = 0; i < args.size() && left != 0; ++i) {
    const std::string_view shown = args[i].substr(0, left);
    append_quoted(line += ' ', shown);
    left -= std::min(left, shown.size() + 1);
    const std::size_t bytes = args[i].size() - shown.size();
    if (bytes != 0) line += " ... (" + std::to_string(bytes) + " more bytes)";
    const std::size_t more = args.size() - 1 - i;
    if (left == 0 && more != 0) line += " ... (" + std::to_string(more) + " more arguments)";
  }
  return line += "\r\n";
}

bool monitor_box::add(std::string_view line) {
  const std::scoped_lock hold(guard_);
  if (line.size() > most_bytes - text_.size()) return false;
  text_ += line;
  return true;
}

std::string monitor_box::take() noexcept {
  const std::scoped_lock hold(guard_);
  return std::exchange(text_, {});
}

command_group monitor_commands() noexcept { return {.commands = monitor_table}; }

}  // namespace kv
