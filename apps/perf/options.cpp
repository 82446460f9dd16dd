#include "options.hpp"

#include "arguments.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
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
  cordma-perf --local --test send-bw --size 256..100M --transport shm,tcp
                                                   bandwidth over size; every combination is a run
  cordma-perf --local --set tpt                    4 flows of 1 MiB messages, 2 of each in flight
  cordma-perf --local --load 1000,10K,50% --wait event
                                                   open loop: requests come whether or not the server
                                                   keeps up; latencies count from when each was due
  cordma-perf --local --think-us 0,10,100,1000,10000 --wait polling,event,adaptive
                                                   CPU per message over the pause between messages
  cordma-perf --listen                             on one machine, and on another:
  cordma-perf server.example --test write-bw --size 1M --duration 5 --check

Reading the figures
  Latencies are whole: of a round trip where the server answers (send, tag, am, stream, write,
  write-imm), of an operation where it does not (read, fetch-add, compare-swap). JSON has half of a
  round trip as well, for comparing with tools that print that. Percentiles are of all samples, at
  three digits; nothing is left out. GB/s are 1e9 bytes per second, Gbps 1e9 bits. CPU is user and
  system time of each side, in percent of one core and per message; messages of a ping-pong count
  both ways. In the open loop the client polls, so that it is not late, and --wait is the server's.
  A run is not valid where bytes were wrong, where the generator of an open loop was late by more
  than a tenth of what it measured, or where samples are missing by Little's law.
  Without --check one buffer serves all messages. Ctrl-C shows what was measured until then. Exit code:
  0 all is well, 1 a run failed or its result is not valid, 2 the command line is wrong, 130 Ctrl-C.
)";

// Values as given on the command line.
struct raw {
  std::string address;
  std::string listen;
  bool local = false;
  std::string set;
  std::vector<std::string> transports{"auto"};
  std::vector<std::string> tests{"send-lat"};
  std::vector<std::string> sizes;
  std::vector<std::string> waits{"polling"};
  std::vector<std::string> thinks{"0"};
  std::vector<std::string> flows{"1"};
  std::vector<std::string> outstanding;
  std::string messages = "1";
  std::vector<std::string> loads;
  std::string arrival;
  std::string iterations;
  std::string warmup;
  std::string duration;
  std::string inline_bytes;
  std::string depth;
  std::string seed = "1";
  std::string stall = "0";
  std::string watchdog;
  std::vector<std::string> cpus;
  std::string json;
  bool random_think = false;
  bool once = false;
  bool check = false;
  bool flip = false;
  bool verbose = false;
  bool version = false;
};

// Values of --set for options that are not on the command line.
struct preset {
  std::string_view name;
  const char* test;
  const char* size;
  const char* flows;
  const char* outstanding;
  bool check;
  std::string_view text;
};
constexpr std::array<preset, 4> presets{{
    {"lat", "send-lat", "256..1M", "1", "1", false, "round trips of one flow, 256 bytes to 1 MiB"},
    {"tpt", "send-bw", "1M", "4", "2", false, "4 flows, 2 messages of 1 MiB in flight on each"},
    {"bi", "send-bi", "1M", "4", "2", false, "the same in both directions"},
    {"basic", "send-bw", "1M", "4", "2", true, "the same in one, every byte checked"},
}};

std::string footer() {
  std::ostringstream text;
  const auto line = [&text](const std::string& name, std::string_view what) {
    text << "  " << name << std::string(16 - name.size(), ' ') << what << '\n';
  };
  text << "Tests: WHAT-HOW, or idle: connected, and nobody does anything\n";
  for (const verb_facts& v : all_verbs()) line(std::string(v.name), v.text);
  for (const pattern_facts& p : all_patterns()) line("-" + std::string(p.name), p.text);
  text << "  Atomics have no -bw.\nSets\n";
  for (const preset& p : presets) line(std::string(p.name), p.text);
  return text.str() + examples;
}

const test_facts* test_of(const std::string& text) {
  const test_facts* const t = find_test(text);
  if (t == nullptr) {
    throw usage_error("--test", text,
                      "send, tag, am, stream, write, write-imm or read with -lat, -bw, -rate or "
                      "-bi; fetch-add or compare-swap with -lat, -rate or -bi; or idle");
  }
  return t;
}

waiting wait_of(const std::string& text) {
  constexpr const char* allowed = "polling, event, adaptive, or adaptive:US with the longest spin";
  const std::size_t colon = text.find(':');
  const cordma::result<cordma::wait_mode> mode = cordma::parse_wait_mode(text.substr(0, colon));
  if (!mode) throw usage_error("--wait", text, allowed);
  waiting w{*mode, std::nullopt};
  if (colon == std::string::npos) return w;
  if (*mode != cordma::wait_mode::adaptive) throw usage_error("--wait", text, allowed);
  w.spin_us = number_from("--wait adaptive:", text.substr(colon + 1), 0, 1'000'000);
  return w;
}

std::optional<cordma::transport::kind> transport_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  const cordma::result<cordma::transport::kind> kind = cordma::parse_transport(text);
  if (!kind || !cordma::transport::has_setting(*kind)) {
    throw usage_error("--transport", text, "auto, shm, tcp or verbs");
  }
  return *kind;
}

std::uint64_t size_of(const std::string& text, const std::string& whole) {
  const std::optional<std::uint64_t> bytes = bytes_from(text);
  if (!bytes || *bytes == 0 || *bytes > largest_size) {
    throw usage_error("--size", whole,
                      "bytes from 1 to 1G, with K, M or G for powers of 1024, KB, MB or GB for "
                      "powers of 1000, and A..B for A, 4 times A, and so on to B");
  }
  return *bytes;
}

// Parses "64K", or "256..1M".
std::vector<std::uint64_t> sizes_of(const std::vector<std::string>& texts) {
  constexpr std::uint64_t step = 4;
  std::vector<std::uint64_t> sizes;
  for (const std::string& text : texts) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) {
      sizes.push_back(size_of(text, text));
      continue;
    }
    const std::uint64_t first = size_of(text.substr(0, dots), text);
    const std::uint64_t last = size_of(text.substr(dots + 2), text);
    if (first > last) throw usage_error("--size", text, "A..B with A not above B");
    for (std::uint64_t size = first; size < last; size *= step) sizes.push_back(size);
    sizes.push_back(last);
  }
  return sizes;
}

void set_load(plan& p, const std::string& text) {
  constexpr const char* allowed =
      "requests per second, with K or M for thousands or millions, or a share of what is possible, "
      "as 50%";
  const bool share = text.ends_with('%');
  const std::optional<double> value = rate_from(share ? text.substr(0, text.size() - 1) : text);
  constexpr double most_hz = 1e9;
  constexpr double percent = 100;
  if (!value || *value > (share ? percent : most_hz)) throw usage_error("--load", text, allowed);
  (share ? p.load_share : p.load_hz) = share ? *value / percent : *value;
}

std::uint32_t count_from(const std::string& option, const std::string& text, std::uint32_t least,
                         std::uint32_t most) {
  return static_cast<std::uint32_t>(number_from(option, text, least, most));
}

arrival arrival_of(const raw& r) {
  if (r.arrival.empty()) return r.loads.empty() ? arrival::closed : arrival::poisson;
  if (r.arrival != "poisson" && r.arrival != "constant") {
    throw usage_error("--arrival", r.arrival, "poisson or constant");
  }
  if (r.loads.empty()) throw usage_error("--arrival needs a --load: how many requests per second");
  return r.arrival == "poisson" ? arrival::poisson : arrival::constant;
}

plan common(const raw& r) {
  plan p;
  p.check = r.check;
  p.flip = r.flip;
  p.random_think = r.random_think;
  p.arrives = arrival_of(r);
  p.messages = count_from("--messages", r.messages, 1, most_outstanding);
  constexpr std::uint64_t most = 1'000'000'000'000;
  constexpr std::uint32_t most_inline = 1U << 20;
  constexpr std::uint32_t deepest = 1U << 20;
  if (!r.inline_bytes.empty()) {
    p.inline_bytes = count_from("--inline", r.inline_bytes, 0, most_inline);
  }
  if (!r.depth.empty()) p.depth = count_from("--depth", r.depth, 1, deepest);
  if (!r.iterations.empty()) p.iterations = number_from("--iterations", r.iterations, 1, most);
  if (!r.warmup.empty()) p.warmup = number_from("--warmup", r.warmup, 0, most);
  if (!r.duration.empty()) {
    if (!r.iterations.empty()) throw usage_error("--iterations and --duration exclude each other");
    p.duration_s = seconds_from("--duration", r.duration, 0.01, 86400);
  }
  p.seed = number_from("--seed", r.seed, 0, ~std::uint64_t{0});
  p.stall_ms = number_from("--stall", r.stall, 0, longest_stall_ms);
  if (!r.watchdog.empty()) p.watchdog_s = seconds_from("--watchdog", r.watchdog, 0.1, 3600);
  return p;
}

// Rejects pauses and stalls that the watchdog would take for a hang.
void require_patience(const plan& p) {
  if (p.watchdog_s == 0) return;
  constexpr double us_per_s = 1e6;
  constexpr double ms_per_s = 1e3;
  constexpr double rare = 20;  // exponentially distributed pauses hardly ever exceed 20 means
  double longest = static_cast<double>(p.think_us) / us_per_s * (p.random_think ? rare : 1);
  longest = std::max(longest, static_cast<double>(p.stall_ms) / ms_per_s);
  if (p.load_hz > 0) longest = std::max(longest, rare / p.load_hz);
  if (p.facts().form == pattern::idle || p.watchdog_s <= longest) {
    throw usage_error(
        "--watchdog: pauses, stalls and what is idle are shorter than that, or it would "
        "take them for a hang");
  }
}

// Rejects combinations of options that make no sense.
void require_sense(const plan& p) {
  const test_facts& f = p.facts();
  const std::string test = "--test " + f.name;
  if (f.atomic() && p.size != 8) {
    throw usage_error(test + " is about words of 8 bytes: leave --size out");
  }
  if (p.think_us != 0 && (!f.latency() || p.windowed())) {
    throw usage_error("--think-us works with -lat tests, one request at a time; not with " +
                      f.name + (p.windowed() ? " and --outstanding or --load" : ""));
  }
  if (p.check && f.what == verb::write && f.latency()) {
    throw usage_error(
        "--check does not work with write-lat: a flag in its last bytes tells that a "
        "message is there, and what is before them may come later");
  }
  constexpr std::uint32_t least_of_a_stream = 16;  // stream_options::notices
  if (f.by_stream() && p.depth < least_of_a_stream) {
    throw usage_error("--depth", std::to_string(p.depth), "16 at least for a stream");
  }
  if (p.flip && (!p.check || f.form == pattern::idle)) {
    throw usage_error("--flip shows what --check sees: give both, and a test that moves something");
  }
  require_patience(p);
  if (p.windowed() && !f.windowed()) {
    throw usage_error(
        (p.open_loop() ? "--load" : "--outstanding above 1") +
        std::string(" works with send, tag, write-imm, read, fetch-add and compare-swap "
                    "with -lat; not with ") +
        f.name);
  }
  if (p.open_loop() && !f.latency()) {
    throw usage_error("--load works with -lat tests, not with " + f.name);
  }
  if (p.messages > 1 && f.latency()) {
    throw usage_error("--messages works where many are in flight, not with " + f.name);
  }
  if (p.messages > most_outstanding / p.outstanding) {
    throw usage_error("--outstanding times --messages may be " + std::to_string(most_outstanding) +
                      " at most");
  }
  if (p.stall_ms != 0 && !f.ping_pong()) {
    throw usage_error(
        "--stall works where the server answers: -lat of messages, streams and writes; "
        "not with " +
        f.name);
  }
}

// Replaces every plan by one copy for each value.
template <class Values, class Set>
void expand(std::vector<plan>& plans, const Values& values, Set set) {
  std::vector<plan> all;
  for (const plan& p : plans) {
    for (const auto& value : values) {
      all.push_back(p);
      set(all.back(), value);
    }
  }
  plans = std::move(all);
}

std::vector<plan> combinations(const raw& r) {
  std::vector<plan> plans{common(r)};
  expand(plans, r.tests, [](plan& p, const std::string& t) {
    p.test = test_of(t);
    p.size = p.facts().usual_size;
  });
  expand(plans, r.transports, [](plan& p, const std::string& k) { p.transport = transport_of(k); });
  expand(plans, r.flows,
         [](plan& p, const std::string& n) { p.flows = count_from("--flows", n, 1, most_flows); });
  if (!r.sizes.empty()) {
    expand(plans, sizes_of(r.sizes), [](plan& p, std::uint64_t size) { p.size = size; });
  }
  if (!r.loads.empty()) expand(plans, r.loads, set_load);
  for (plan& p : plans) {
    p.outstanding = usual_outstanding(p);
  }
  if (!r.outstanding.empty()) {
    expand(plans, r.outstanding, [](plan& p, const std::string& n) {
      p.outstanding = count_from("--outstanding", n, 1, most_outstanding);
    });
  }
  expand(plans, r.thinks, [](plan& p, const std::string& think) {
    p.think_us = number_from("--think-us", think, 0, 10'000'000);
  });
  expand(plans, r.waits, [](plan& p, const std::string& w) { p.wait = wait_of(w); });
  for (const plan& p : plans) require_sense(p);
  if (r.random_think &&
      std::ranges::none_of(plans, [](const plan& p) { return p.think_us != 0; })) {
    throw usage_error("--random-think needs the mean: --think-us");
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

// Applies the set to the options that are not on the command line.
void apply_set(raw& r, const CLI::App& app) {
  if (r.set.empty()) return;
  const auto* const at = std::ranges::find(presets, r.set, &preset::name);
  if (at == presets.end()) throw usage_error("--set", r.set, "lat, tpt, bi or basic");
  const auto said = [&app](const char* option) { return app.get_option(option)->count() != 0; };
  if (!said("--size") && !said("--test")) r.sizes = {at->size};
  if (!said("--test")) r.tests = {at->test};
  if (!said("--flows")) r.flows = {at->flows};
  if (!said("--outstanding") && !said("--load")) r.outstanding = {at->outstanding};
  r.check = r.check || at->check;
}

// Rejects options of the other role.
void require_role(role what, const CLI::App& app) {
  if (what != role::server) {
    if (app.get_option("--once")->count() != 0) throw usage_error("--once goes with --listen");
    return;
  }
  constexpr std::array<std::string_view, 7> servers{"--listen", "--wait",    "--transport", "--cpu",
                                                    "--once",   "--verbose", "--help"};
  for (const CLI::Option* const o : app.get_options()) {
    const std::string name = o->get_name();
    if (o->count() == 0 || std::ranges::find(servers, name) != servers.end()) continue;
    throw usage_error(name +
                      " is the client's to say: a server takes --wait, --transport, --cpu and "
                      "--once");
  }
  for (const char* const list : {"--wait", "--transport"}) {
    if (app.get_option(list)->results().size() > 1) {
      throw usage_error(std::string(list) + ": a server has one");
    }
  }
}

options interpret(const raw& r, const CLI::App& app) {
  options o;
  const bool listens = app.get_option("--listen")->count() != 0;
  const int roles = (r.local ? 1 : 0) + (listens ? 1 : 0) + (r.address.empty() ? 0 : 1);
  if (roles != 1) {
    throw usage_error("give one of HOST:PORT, --listen and --local; --help explains them");
  }
  o.what = r.local ? role::both : listens ? role::server : role::client;
  o.address = r.local ? "127.0.0.1:0" : with_port(listens ? r.listen : r.address);
  if (const cordma::result<cordma::transport::address> a = cordma::parse_address(o.address); !a) {
    throw usage_error(a.why().message());
  }
  require_role(o.what, app);
  o.plans = combinations(r);
  const bool said_wait = app.get_option("--wait")->count() != 0;
  if (o.what == role::client && said_wait && !r.loads.empty()) {
    throw usage_error("with --load the client polls: say --wait to the server");
  }
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

void declare_what(CLI::App& app, raw& r) {
  app.add_option("HOST:PORT", r.address, "measure against the server there");
  app.add_option("--listen", r.listen,
                 "be that server; without an address: every local one, " + std::string("port ") +
                     std::string(default_port))
      ->expected(0, 1)
      ->type_name("[HOST:PORT]");
  app.add_flag("--local", r.local, "both: two processes on this machine");
  app.add_option("--test", r.tests, "what to measure, see below")->type_name("T,...");
  app.add_option("--set", r.set, "a usual set of tests: lat, tpt, bi or basic, see below")
      ->type_name("S");
  app.add_option("--transport", r.transports, "auto, shm, tcp or verbs")->type_name("K,...");
  app.add_option("--size", r.sizes, "bytes per message, e.g. 64K, or 256..100M")
      ->type_name("N,...");
  app.add_option("--wait", r.waits, "polling, event, adaptive or adaptive:US; a server has its own")
      ->type_name("W,...");
  app.add_option("--flows", r.flows, "connections, which all do the same")->type_name("F,...");
  app.add_option("--outstanding", r.outstanding,
                 "requests in flight on each; 1 for -lat, else 32; in the open loop, at most")
      ->type_name("N,...");
  app.add_option("--messages", r.messages, "of a request, posted together")->type_name("N");
  app.add_option("--load", r.loads, "-lat, open loop: requests per second, or a share: 50%")
      ->type_name("HZ,...");
  app.add_option("--arrival", r.arrival, "... at random times (poisson) or evenly (constant)")
      ->type_name("A");
  app.add_option("--think-us", r.thinks, "-lat: pause between round trips, microseconds")
      ->type_name("T,...");
  app.add_flag("--random-think", r.random_think, "... on the average, exponentially distributed");
  for (const char* list : {"--test", "--transport", "--size", "--wait", "--think-us", "--flows",
                           "--outstanding", "--load"}) {
    app.get_option(list)->delimiter(',')->allow_extra_args(false);  // HOST:PORT may follow
  }
}

void declare_how(CLI::App& app, raw& r) {
  app.add_option("--iterations", r.iterations, "messages, or round trips; else --duration")
      ->type_name("N");
  app.add_option("--warmup", r.warmup, "of them before measuring; else a tenth, or 0.1 s")
      ->type_name("N");
  app.add_option("--duration", r.duration, "seconds; 1 unless told otherwise")->type_name("S");
  app.add_option("--inline", r.inline_bytes, "bytes that a post may carry itself")->type_name("N");
  app.add_option("--depth", r.depth, "entries of the send and receive queues")->type_name("N");
  app.add_option("--seed", r.seed, "of random times; 1 unless told otherwise")->type_name("N");
  app.add_option("--stall", r.stall, "the server does nothing for so long, once: what shows it?")
      ->type_name("MS");
  app.add_option("--watchdog", r.watchdog, "give up where nothing moves for so long")
      ->type_name("S");
  app.add_option("--cpu", r.cpus, "pin the server to A and the client to B")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--json", r.json, "write the figures as JSON; - is standard output")
      ->type_name("FILE|-");
  app.add_flag("--check", r.check, "look at every byte that arrives; that takes time, too");
  app.add_flag("--flip", r.flip, "one bit of one message is wrong: does --check see it?");
  app.add_flag("--once", r.once, "--listen: end after one client");
  app.add_flag("-v,--verbose", r.verbose, "say which transport was chosen and why, and more");
  app.add_flag("--version", r.version, "print the version");
}

}  // namespace

parsed parse_options(int argc, char** argv) {
  CLI::App app("Measures messages, remote memory and atomics between two cordma programs.",
               "cordma-perf");
  raw r;
  declare_what(app, r);
  declare_how(app, r);
  app.footer(footer());
  r.listen = ":" + std::string(default_port);
  parsed result;
  try {
    app.parse(argc, argv);
    if (r.version) return {{}, 0, "cordma-perf " CORDMA_VERSION "\n"};
    apply_set(r, app);
    result.chosen = interpret(r, app);
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
