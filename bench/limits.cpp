// bench-limits: the best performance that this machine can reach, with plain C++ and Linux calls,
// without cordma.
//
// Each limit is the lower or upper bound of a figure of cordma-perf; compare.sh runs both side by
// side. See bench/README.md.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "limits/batches.hpp"
#include "limits/cache_line.hpp"
#include "limits/eventfd.hpp"
#include "limits/report.hpp"
#include "limits/shared_copy.hpp"
#include "limits/sides.hpp"
#include "limits/tcp.hpp"

namespace {

using limits::measurement;
using limits::settings;
using limits::wait_mode;

constexpr const char* usage =
    R"(usage: bench-limits TEST [options]

What this machine can do at best, without cordma. TEST is one of
  cache-line      two threads bouncing one cache line: one-way latency
  copy-write      memcpy from a private buffer into pages shared with another process
  copy-read       memcpy from pages shared with another process into a private buffer
  tcp-latency     raw TCP sockets on loopback, ping-pong between two processes
  tcp-bandwidth   raw TCP sockets on loopback, a one-way stream between two processes
  eventfd         two threads waking each other through blocking eventfds
  all             each of them, with the sizes and waiting modes that compare.sh uses

options
  --size BYTES         message or copy size (8; 65536 for copies and tcp-bandwidth)
  --wait polling|event sockets: spin on non-blocking calls, or block in the kernel (polling for
                       tcp-latency, event for tcp-bandwidth); the other tests have one way only
  --iterations N       steps counted, all batches together (each test has its own default)
  --batches N          batches that the steps are timed in (100)
  --cpu A,B            CPUs of the answering and the measuring side (0,1)
  --json FILE|-        write JSON to FILE, or to standard output in place of the text
)";

/// One limit: its name, its default size, waiting mode and number of steps, and how to measure it.
struct limit {
  std::string_view name;
  std::size_t size;
  wait_mode wait;
  std::uint64_t iterations;
  measurement (*measure)(const settings&);
};

measurement copy_write(const settings& how) {
  return limits::measure_shared_copy(how, limits::copy_direction::write_to_shared);
}

measurement copy_read(const settings& how) {
  return limits::measure_shared_copy(how, limits::copy_direction::read_from_shared);
}

constexpr std::size_t KiB = 1024;
constexpr std::size_t MiB = 1024 * KiB;

/// The first entry of a name holds the defaults of that test; `all` runs every entry.
constexpr limit all_limits[] = {
    {"cache-line", 8, wait_mode::polling, 2'000'000, limits::measure_cache_line},
    {"copy-write", 64 * KiB, wait_mode::polling, 100'000, copy_write},
    {"copy-write", MiB, wait_mode::polling, 5'000, copy_write},
    {"copy-read", 64 * KiB, wait_mode::polling, 100'000, copy_read},
    {"copy-read", MiB, wait_mode::polling, 5'000, copy_read},
    {"tcp-latency", 8, wait_mode::polling, 50'000, limits::measure_tcp_latency},
    {"tcp-latency", 8, wait_mode::event, 20'000, limits::measure_tcp_latency},
    {"tcp-bandwidth", 64 * KiB, wait_mode::event, 20'000, limits::measure_tcp_bandwidth},
    {"tcp-bandwidth", MiB, wait_mode::event, 2'000, limits::measure_tcp_bandwidth},
    {"tcp-bandwidth", 64 * KiB, wait_mode::polling, 20'000, limits::measure_tcp_bandwidth},
    {"tcp-bandwidth", MiB, wait_mode::polling, 2'000, limits::measure_tcp_bandwidth},
    {"eventfd", 8, wait_mode::event, 50'000, limits::measure_eventfd},
};

/// The command line; absent options have the test's own defaults.
struct command_line {
  std::string test;
  std::optional<std::size_t> size;
  std::optional<wait_mode> wait;
  std::optional<std::uint64_t> iterations;
  std::uint64_t batches = 100;
  int peer_cpu = 0;
  int own_cpu = 1;
  std::string json;
};

/// Parses a count between 1 and 1e12, or throws a typed error that names `option`.
std::uint64_t count_of(const std::string& option, const std::string& text) {
  constexpr std::uint64_t most = 1'000'000'000'000;
  const bool digits = !text.empty() && text.size() <= 13 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  const std::uint64_t value = digits ? std::strtoull(text.c_str(), nullptr, 10) : 0;
  if (value == 0 || value > most) {
    throw std::invalid_argument(option + " needs a whole number from 1 to 1e12, not '" + text +
                                "'");
  }
  return value;
}

int cpu_of(const std::string& text) {
  constexpr int most = 1023;
  const bool digits = !text.empty() && text.size() <= 4 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  const int cpu = digits ? std::atoi(text.c_str()) : -1;
  if (cpu < 0 || cpu > most) {
    throw std::invalid_argument("--cpu needs two CPU numbers as in 0,1");
  }
  return cpu;
}

void read_cpus(command_line& line, const std::string& text) {
  const auto comma = text.find(',');
  line.peer_cpu = cpu_of(text.substr(0, comma));
  line.own_cpu = cpu_of(comma == std::string::npos ? "" : text.substr(comma + 1));
  if (line.peer_cpu == line.own_cpu) {
    throw std::invalid_argument("--cpu needs two different CPUs: both sides spin");
  }
}

wait_mode wait_of(const std::string& text) {
  if (text == "polling") {
    return wait_mode::polling;
  }
  if (text == "event") {
    return wait_mode::event;
  }
  throw std::invalid_argument("--wait is polling or event, not '" + text + "'");
}

void read_option(command_line& line, const std::string& option, const std::string& value) {
  if (option == "--size") {
    line.size = count_of(option, value);
  } else if (option == "--wait") {
    line.wait = wait_of(value);
  } else if (option == "--iterations") {
    line.iterations = count_of(option, value);
  } else if (option == "--batches") {
    line.batches = count_of(option, value);
  } else if (option == "--cpu") {
    read_cpus(line, value);
  } else if (option == "--json") {
    line.json = value;
  } else {
    throw std::invalid_argument("unknown option " + option);
  }
}

command_line read(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0].starts_with("-")) {
    throw std::invalid_argument("the first word is the test");
  }
  command_line line;
  line.test = words[0];
  for (std::size_t at = 1; at < words.size(); at += 2) {
    if (at + 1 == words.size()) {
      throw std::invalid_argument(words[at] + " needs a value");
    }
    read_option(line, words[at], words[at + 1]);
  }
  return line;
}

settings settings_for(const limit& which, const command_line& line) {
  return {.size = line.size.value_or(which.size),
          .iterations = line.iterations.value_or(which.iterations),
          .batches = line.batches,
          .peer_cpu = line.peer_cpu,
          .own_cpu = line.own_cpu,
          .wait = line.wait.value_or(which.wait)};
}

std::vector<measurement> measure(const command_line& line) {
  // Both CPUs are tried here: a side that failed to pin later would leave the other one waiting.
  limits::pin_to(line.peer_cpu);
  limits::pin_to(line.own_cpu);
  std::vector<measurement> made;
  const bool all = line.test == "all";
  for (const limit& which : all_limits) {
    if (all || which.name == line.test) {
      made.push_back(which.measure(settings_for(which, line)));
      if (line.json != "-") {
        limits::print_text(made.back());
        std::fflush(stdout);  // otherwise a forked peer would print it again
      }
    }
    if (!all && !made.empty()) {
      break;
    }
  }
  if (made.empty()) {
    throw std::invalid_argument("unknown test " + line.test);
  }
  return made;
}

void write_json(const std::string& where, const std::vector<measurement>& made) {
  const std::string text = limits::json_of(made) + "\n";
  if (where == "-") {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(where.c_str(), "w"),
                                                             std::fclose);
  if (!file || std::fputs(text.c_str(), file.get()) < 0 || std::fflush(file.get()) != 0) {
    throw std::system_error(errno, std::generic_category(), "writing " + where);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    std::fputs(usage, stdout);
    return 0;
  }
  try {
    const command_line line = read(argc, argv);
    const auto made = measure(line);
    if (!line.json.empty()) {
      write_json(line.json, made);
    }
    return 0;
  } catch (const std::invalid_argument& wrong) {
    std::fprintf(stderr, "bench-limits: %s\n\n%s", wrong.what(), usage);
    return 2;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench-limits: %s\n", problem.what());
    return 1;
  }
}
