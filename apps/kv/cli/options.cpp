#include "options.hpp"

#include "../../support/command_line.hpp"
#include "console.hpp"

#include <cordma/runtime/units.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace kv::cli {
namespace {

struct texts {
  std::string transport = "auto";
  std::string wait = "adaptive";
  std::string token_file;
  std::string workload = "a";
  std::string distribution;
  std::string records = "100000";
  std::string operations;
  std::string value_bytes = "64";
  std::string latency_bytes = "64";
  std::string target;
  bool asked = false;
  bool one_sided = false;
  bool no_load = false;
  bool raw = false;
  bool resp3 = false;
  double timeout_s = 5;
};

constexpr const char* examples = R"(
Examples
  cordma-kv-cli set greeting hello EX 60        one command; the value from standard input with -x
  cordma-kv-cli get greeting                    read out of the server's memory: nobody is asked
  cordma-kv-cli                                 a shell; help lists what it knows
  cordma-kv-cli --resp 127.0.0.1:6379 info      Redis's protocol: any command, any such server
  cordma-kv-cli latency                         percentiles of single operations, until Ctrl-C
  cordma-kv-cli bench --workload b --records 1M --clients 2
  cordma-kv-cli bench --workload a --resp 127.0.0.1:6379 --batch 16
                                                the same load on the other door, or on redis-server

Ends with 0; 1 it failed, or the server says an error; 2 the command line is wrong; 3 nil: no such
key, or a condition that does not hold.
)";

std::string footer() {
  return "Commands of the native protocol (with --resp: those of the server)\n" + native_help() +
         examples;
}

void declare_service(CLI::App& app, service& s, texts& t) {
  app.add_option("--server", s.native,
                 "the native protocol is spoken there, unless --resp is given")
      ->type_name("HOST:PORT")
      ->check(support::check_address)
      ->capture_default_str();
  app.add_option("--resp", s.resp, "speak Redis's protocol, there")->type_name("HOST:PORT|PATH");
  app.add_option("--token-file", t.token_file,
                 "has in its first line the server's token; over RESP: the password. "
                 "CORDMA_KV_TOKEN does as well")
      ->type_name("FILE");
  app.add_option("--user", s.user, "over RESP, with the password");
  app.add_flag("--resp3", t.resp3, "over RESP: the third version of the protocol");
  app.add_option("--transport", t.transport, "how to reach the server")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}))
      ->capture_default_str();
  app.add_option("--wait", t.wait, "for answers: polling, event or adaptive")
      ->check(CLI::IsMember({"polling", "event", "adaptive"}))
      ->capture_default_str();
  CLI::Option* const asked = app.add_flag("--asked", t.asked, "ask the server for every get");
  app.add_flag("--one-sided", t.one_sided,
               "read the server's memory for every get; without either, this is done over verbs "
               "and shm, and over tcp, "
               "where asking is faster, it is not")
      ->excludes(asked);
  app.add_option("--timeout", t.timeout_s, "for each answer, seconds")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
}

void declare_output(CLI::App& app, options& o, texts& t) {
  app.add_flag("--json", o.json, "for machines");
  app.add_flag("--raw", t.raw, "replies as bytes, also on a terminal");
  app.add_flag("--exact", o.once.exact, "one command: the bytes of the value, and no line's end");
  app.add_flag("-x", o.once.last_from_stdin, "one command: its last word is standard input");
}

void declare_latency(CLI::App& app, latency_options& o, texts& t) {
  app.add_option("--duration", o.duration_s, "seconds; until Ctrl-C unless given")
      ->check(CLI::Range(0.01, 86400.0));
  app.add_option("--pause", o.pause_ms, "between two rounds, milliseconds")
      ->check(CLI::Range(0.0, 60000.0));
  app.add_option("--value-bytes", t.latency_bytes, "of the value")->capture_default_str();
}

std::string list_of_mixes() {
  std::string text = "a mix of operations:";
  for (const mix& m : mixes) text += "\n" + std::string(m.name) + ": " + std::string(m.text);
  return text;
}

void declare_bench(CLI::App& app, bench_options& o, texts& t) {
  app.add_option("--workload", t.workload, list_of_mixes())
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--distribution", t.distribution, "of the records; else the workload's")
      ->check(CLI::IsMember({"uniform", "zipfian", "latest"}));
  app.add_option("--records", t.records, "that there are; K, M, G are powers of 1000")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--value-bytes", t.value_bytes, "of each")->type_name("N")->capture_default_str();
  app.add_flag("--no-load", t.no_load, "they are there already");
  app.add_option("--duration", o.duration_s, "that is measured, seconds")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
  app.add_option("--operations", t.operations, "that are measured, in place of a duration")
      ->type_name("N");
  app.add_option("--warm-up", o.warmup_s, "before, seconds")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--clients", o.clients, "connections, each with a thread of its own")
      ->check(CLI::Range(1U, most_clients))
      ->capture_default_str();
  app.add_option("--batch,--pipeline", o.batch,
                 "operations that a client sends together; gets alone are read together over shm, "
                 "or with --one-sided")
      ->check(CLI::Range(1U, most_in_batch))
      ->capture_default_str();
  app.add_option("--in-flight", o.in_flight, "batches, or operations, of a client; native")
      ->check(CLI::Range(1U, most_in_flight))
      ->capture_default_str();
  app.add_option("--target", t.target,
                 "operations a second, of all clients: they are due then, whether or not the "
                 "server keeps up, and latencies count from when they were due")
      ->type_name("N");
  app.add_option("--seed", o.seed, "of what is random")->capture_default_str();
  app.add_option("--server-pid", o.server_pid, "a process here whose CPU time is to be told")
      ->type_name("PID");
}

// "100", "10k", "2.5M": powers of 1000.
double count_from(const char* option, const std::string& text, double least, double most) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = text.size() + 1;
  }
  if (used + 1 == text.size()) {
    const std::size_t unit = std::string_view("kKmMgG").find(text.back());
    constexpr double powers[] = {1e3, 1e6, 1e9};
    if (unit != std::string_view::npos) {
      value *= powers[unit / 2];
      ++used;
    }
  }
  if (used == text.size() && value >= least && value <= most) return value;
  char allowed[80];
  std::snprintf(allowed, sizeof allowed, "a number from %.12g to %.12g", least, most);
  throw std::invalid_argument(std::string(option) + ": '" + text + "' will not do; it takes " +
                              allowed);
}

std::uint32_t bytes_from(const std::string& text) {
  const cordma::result<std::uint64_t> size = cordma::parse_size(text);
  if (!size) throw std::invalid_argument("--value-bytes: " + size.why().message());
  if (size.value() > max_value_bytes) {
    throw std::invalid_argument("--value-bytes: a value has at most " +
                                std::to_string(max_value_bytes));
  }
  return static_cast<std::uint32_t>(size.value());
}

void finish_bench(options& o, const texts& t) {
  bench_options& b = o.bench;
  std::string name = t.workload;
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  b.what = find_mix(name);
  if (b.what == nullptr) {
    throw std::invalid_argument("--workload: '" + t.workload + "' is none; --help has them");
  }
  if (!t.distribution.empty()) b.records_spread = parse_spread(t.distribution);
  b.records = static_cast<std::uint64_t>(
      count_from("--records", t.records, 1, static_cast<double>(most_records)));
  if (!t.operations.empty()) {
    b.operations = static_cast<std::uint64_t>(count_from("--operations", t.operations, 1, 1e15));
  }
  if (!t.target.empty()) b.target_hz = count_from("--target", t.target, 1e-3, 1e9);
  b.value_bytes = bytes_from(t.value_bytes);
  b.load = !t.no_load;
  if (o.where.is_resp() && b.in_flight != 1) {
    throw std::invalid_argument("--in-flight: a client of RESP has one; --batch and --clients do");
  }
  const bool inserts = b.what->percent[static_cast<std::size_t>(step::insert)] != 0;
  if (inserts && std::uint64_t{b.clients} * b.in_flight * b.batch >= inserted_records::window) {
    throw std::invalid_argument("--clients times --in-flight times --batch may be " +
                                std::to_string(inserted_records::window - 1) +
                                " where records are inserted");
  }
  if (b.server_pid != 0) {
    const std::string why = why_not_measurable(b.server_pid);
    if (!why.empty()) throw std::invalid_argument("--server-pid: " + why);
  }
}

void finish(options& o, const texts& t) {
  service& s = o.where;
  if (t.transport != "auto") s.transport = cordma::parse_transport(t.transport).value();
  s.wait = cordma::parse_wait_mode(t.wait).value();
  if (t.asked) s.gets = way_of_gets::asked;
  if (t.one_sided) s.gets = way_of_gets::one_sided;
  s.token = support::read_token(t.token_file, "CORDMA_KV_TOKEN");
  s.resp_version = t.resp3 ? 3 : 2;
  s.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(t.timeout_s * 1e3));
  if (o.what == job::bench) finish_bench(o, t);
  if (o.what == job::latency) o.latency.value_bytes = bytes_from(t.latency_bytes);
  o.latency.json = o.json;
  if (o.json) {
    o.once.as = style::json;
  } else if (!t.raw) {
    o.once.as = style::pretty;  // main() checks for a terminal
  }
  if (o.what != job::once && (o.once.last_from_stdin || o.once.exact)) {
    throw std::invalid_argument("-x and --exact go with one command");
  }
}

}  // namespace

std::optional<int> parse(int argc, char** argv, options& into) {
  CLI::App app(
      "Reads and writes a cordma-kv: one command, or many in a shell; measures it, and any server "
      "that speaks Redis's protocol.",
      "cordma-kv-cli");
  texts t;
  bool version = false;
  app.prefix_command();  // the words of a command may begin with a dash
  app.fallthrough();
  declare_service(app, into.where, t);
  declare_output(app, into, t);
  app.add_flag("--version", version, "print the version");
  CLI::App* const latency =
      app.add_subcommand("latency", "how long one operation takes, one at a time");
  declare_latency(*latency, into.latency, t);
  CLI::App* const bench = app.add_subcommand(
      "bench", "YCSB's core workloads: keys of 16 bytes, values as strings, no scans");
  declare_bench(*bench, into.bench, t);
  for (CLI::App* const sub : {latency, bench}) sub->prefix_command(false);
  app.footer(footer());
  if (const std::optional<int> ended = support::parse(app, argc, argv)) return ended;
  if (version) {
    std::puts("cordma-kv-cli " CORDMA_VERSION);
    return 0;
  }
  into.words = app.remaining();
  into.what = latency->parsed()    ? job::latency
              : bench->parsed()    ? job::bench
              : into.words.empty() ? job::shell
                                   : job::once;
  try {
    if (!into.words.empty() && (latency->parsed() || bench->parsed())) {
      throw std::invalid_argument("'" + into.words.front() + "' was not expected");
    }
    if (!into.words.empty() && into.words.front().starts_with("-")) {
      throw std::invalid_argument("unknown option " + into.words.front());
    }
    finish(into, t);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-kv-cli: %s; --help lists all options\n", e.what());
    return 2;
  }
  return std::nullopt;
}

}  // namespace kv::cli
