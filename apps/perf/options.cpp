#include "options.hpp"

#include "arguments.hpp"

#include <CLI/CLI.hpp>

#include <sstream>
#include <stdexcept>

namespace perf {
namespace {

constexpr std::string_view default_port = "18600";

constexpr const char* examples = R"(
Examples
  cordma-perf --local                              latency of 8-byte messages, two processes here
  cordma-perf --local --wait polling,event,adaptive --cpu 0,1
                                                   what each way of waiting costs, side by side
  cordma-perf --local --test send-bw --size 64K,1M --transport shm,tcp
                                                   bandwidth; every combination is a run of its own
  cordma-perf --listen                             on one machine, and on another:
  cordma-perf server.example --test write-bw --size 1M --duration 5 --check

Reading the figures
  Latencies are one way, half of a round trip, for send-lat and write-lat, and of a whole operation
  for read-lat and fetch-add-lat; percentiles are of all samples at three digits. GB/s are 1e9 bytes
  per second. CPU is user and system time of each side, in percent of one core and per message.
  Without --check one buffer serves all messages. Exit code: 0 all is well, 1 a run failed or its
  result is not valid, 2 the command line is wrong.
)";

// As they stand on the command line.
struct raw {
  std::string address;
  std::string listen;
  bool local = false;
  std::vector<std::string> transports{"auto"};
  std::vector<std::string> tests{"send-lat"};
  std::vector<std::string> sizes;
  std::vector<std::string> waits{"polling"};
  std::vector<std::string> thinks{"0"};
  std::string iterations;
  std::string warmup;
  std::string duration;
  std::string outstanding = "32";
  std::vector<std::string> cpus;
  std::string json;
  bool once = false;
  bool check = false;
  bool verbose = false;
  bool version = false;
};

std::string test_list() {
  std::string text;
  for (const test_facts& f : all_tests()) {
    text += (text.empty() ? "" : ", ") + std::string(f.name);
  }
  return text;
}

std::string footer() {
  std::ostringstream text;
  text << "Tests\n";
  for (const test_facts& f : all_tests()) {
    text << "  " << f.name << std::string(16 - f.name.size(), ' ') << f.what << '\n';
  }
  return text.str() + examples;
}

test test_of(const std::string& text) {
  const std::optional<test> t = parse_test(text);
  if (!t) throw usage_error("--test", text, "one of " + test_list());
  return *t;
}

cordma::wait_mode wait_of(const std::string& text) {
  const cordma::result<cordma::wait_mode> mode = cordma::parse_wait_mode(text);
  if (!mode) throw usage_error("--wait", text, "polling, event or adaptive");
  return *mode;
}

std::optional<cordma::transport::kind> transport_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const cordma::result<cordma::transport::kind> kind = cordma::parse_transport(text);
  if (!kind || *kind == cordma::transport::kind::sim) {
    throw usage_error("--transport", text, "auto, shm, tcp or verbs");
  }
  return *kind;
}

std::uint64_t size_of(const std::string& text) {
  const std::optional<std::uint64_t> bytes = bytes_from(text);
  if (!bytes || *bytes == 0 || *bytes > largest_size) {
    throw usage_error("--size", text, "bytes from 1 to 1G, with K, M or G for powers of 1024");
  }
  return *bytes;
}

plan common(const raw& r) {
  plan p;
  p.check = r.check;
  p.outstanding =
      static_cast<std::uint32_t>(number_from("--outstanding", r.outstanding, 1, most_outstanding));
  constexpr std::uint64_t most = 1'000'000'000'000;
  if (!r.iterations.empty()) p.iterations = number_from("--iterations", r.iterations, 1, most);
  if (!r.warmup.empty()) p.warmup = number_from("--warmup", r.warmup, 0, most);
  if (!r.duration.empty()) {
    if (!r.iterations.empty()) throw usage_error("--iterations and --duration exclude each other");
    p.duration_s = seconds_from("--duration", r.duration, 0.01, 3600);
  }
  return p;
}

// The plan of one combination, where it makes sense.
plan completed(plan p, const std::vector<std::string>& sizes, const std::string& size) {
  const test_facts& f = facts(p.what);
  const std::string name(f.name);
  p.size = sizes.empty() ? f.usual_size : size_of(size);
  if (f.atomic() && p.size != 8) {
    throw usage_error("--test " + name + " is about words of 8 bytes: leave --size out");
  }
  if (p.think_us != 0 && p.what != test::send_lat) {
    throw usage_error("--think-us works with --test send-lat, not with " + name);
  }
  return p;
}

std::vector<plan> combinations(const raw& r) {
  std::vector<plan> plans;
  const std::vector<std::string> one{""};
  plan p = common(r);
  for (const std::string& t : r.tests) {
    p.what = test_of(t);
    for (const std::string& k : r.transports) {
      p.transport = transport_of(k);
      for (const std::string& size : r.sizes.empty() ? one : r.sizes) {
        for (const std::string& think : r.thinks) {
          p.think_us = number_from("--think-us", think, 0, 10'000'000);
          for (const std::string& w : r.waits) {
            p.wait = wait_of(w);
            plans.push_back(completed(p, r.sizes, size));
          }
        }
      }
    }
  }
  return plans;
}

std::string with_port(const std::string& address) {
  const bool bare_ipv6 = address.ends_with(']');
  if (bare_ipv6 || address.find(':') == std::string::npos) {
    return address + ":" + std::string(default_port);
  }
  return address;
}

options interpret(const raw& r, bool listens) {
  options o;
  const int roles = (r.local ? 1 : 0) + (listens ? 1 : 0) + (r.address.empty() ? 0 : 1);
  if (roles != 1) {
    throw usage_error("give one of HOST:PORT, --listen and --local; --help explains them");
  }
  o.what = r.local ? role::both : listens ? role::server : role::client;
  o.address = r.local ? "127.0.0.1:0" : with_port(listens ? r.listen : r.address);
  if (const cordma::result<cordma::transport::address> a = cordma::parse_address(o.address); !a) {
    throw usage_error(a.why().message());
  }
  o.plans = combinations(r);
  if (r.cpus.size() > 2) throw usage_error("--cpu takes one or two numbers: SERVER,CLIENT");
  if (!r.cpus.empty()) {
    o.server_cpu = static_cast<int>(number_from("--cpu", r.cpus.front(), 0, 4095));
    o.client_cpu = static_cast<int>(number_from("--cpu", r.cpus.back(), 0, 4095));
  }
  o.json = r.json;
  o.once = r.once;
  o.verbose = r.verbose;
  return o;
}

void declare(CLI::App& app, raw& r) {
  app.add_option("HOST:PORT", r.address, "measure against the server there");
  app.add_option("--listen", r.listen,
                 "be that server; without an address: every local one, " + std::string("port ") +
                     std::string(default_port))
      ->expected(0, 1)
      ->type_name("[HOST:PORT]");
  app.add_flag("--local", r.local, "both: two processes on this machine");
  app.add_option("--test", r.tests, "what to measure, see below")->type_name("T,...");
  app.add_option("--transport", r.transports, "auto, shm, tcp or verbs")->type_name("K,...");
  app.add_option("--size", r.sizes, "bytes per message, e.g. 64K")->type_name("N,...");
  app.add_option("--wait", r.waits, "polling, event or adaptive; a server has its own")
      ->type_name("W,...");
  app.add_option("--think-us", r.thinks, "send-lat: pause between round trips, microseconds")
      ->type_name("T,...");
  for (const char* list : {"--test", "--transport", "--size", "--wait", "--think-us"}) {
    app.get_option(list)->delimiter(',');
  }
  app.add_option("--iterations", r.iterations, "messages, or round trips; else --duration")
      ->type_name("N");
  app.add_option("--warmup", r.warmup, "of them before measuring; else a tenth")->type_name("N");
  app.add_option("--duration", r.duration, "seconds, about; 1 unless told otherwise")
      ->type_name("S");
  app.add_option("--outstanding", r.outstanding, "operations in flight for -bw and -rate")
      ->type_name("W");
  app.add_option("--cpu", r.cpus, "pin the server to A and the client to B")
      ->type_name("A,B")
      ->delimiter(',');
  app.add_option("--json", r.json, "write the figures as JSON; - is standard output")
      ->type_name("FILE|-");
  app.add_flag("--check", r.check, "look at every byte of every message");
  app.add_flag("--once", r.once, "--listen: end after one client");
  app.add_flag("-v,--verbose", r.verbose, "say which transport was chosen and why, and more");
  app.add_flag("--version", r.version, "print the version");
}

}  // namespace

parsed parse_options(int argc, char** argv) {
  CLI::App app("Measures messages, remote memory and atomics between two cordma programs.",
               "cordma-perf");
  raw r;
  declare(app, r);
  app.footer(footer());
  r.listen = ":" + std::string(default_port);
  parsed result;
  try {
    app.parse(argc, argv);
    if (r.version) return {{}, 0, "cordma-perf " CORDMA_VERSION "\n"};
    result.chosen = interpret(r, app.get_option("--listen")->count() != 0);
  } catch (const CLI::CallForHelp&) {
    return {{}, 0, app.help()};
  } catch (const CLI::ParseError& e) {
    return {{}, exit_usage, "cordma-perf: " + sentence(e, app) + "\n"};
  } catch (const usage_error& e) {
    return {{}, exit_usage, std::string("cordma-perf: ") + e.what() + "\n"};
  }
  return result;
}

}  // namespace perf
