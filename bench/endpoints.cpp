// bench-endpoints: the cost of many idle connections for a Worker with Messages, beside one
// connection. Two pairs of processes on this machine, one with a single connection and one with N:
// memory, one-way time of a tagged message of 8 bytes on one of them, in turn, and processor time
// while all of them are silent.
#include "common.hpp"

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/runtime/sleep.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace cordma;
using clock_type = std::chrono::steady_clock;

constexpr std::uint64_t ping = 1;
constexpr std::uint64_t stop = 2;

struct settings {
  std::size_t endpoints = 10'000;
  std::string transport = "tcp";
  std::string wait = "event";
  std::uint32_t depth = 128;
  int rounds = 5;
  int round_trips = 10'000;
  double idle_seconds = 5;
};

// A process at the other end of two pipes, which carry lines.
struct peer_process {
  pid_t pid = -1;
  FILE* to = nullptr;
  FILE* from = nullptr;

  void say(const std::string& line) const {
    std::fprintf(to, "%s\n", line.c_str());
    std::fflush(to);
  }
  std::string hear() const {
    std::array<char, 256> line{};
    if (std::fgets(line.data(), line.size(), from) == nullptr) {
      std::fprintf(stderr, "bench-endpoints: a process ended early\n");
      std::exit(1);
    }
    std::string text(line.data());
    text.pop_back();
    return text;
  }
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Figures of this process: pages in memory, including the used part of registered memory; bytes
// allocated from the heap; and all registered memory, with its reserved pages even if they were
// never used.
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  statm >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::uint64_t registered_bytes() {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("cordma-") == std::string::npos) continue;
    std::size_t dash = 0;
    const std::uint64_t from = std::stoull(line, &dash, 16);
    sum += std::stoull(line.substr(dash + 1), nullptr, 16) - from;
  }
  return sum;
}

struct member {
  explicit member(const settings& s)
      : context(bench::only(s.transport)), worker(context, bench::waiting(s.wait)) {}

  [[nodiscard]] connect_options joined(const settings& s) {
    connect_options o;
    o.messages = &messages;
    o.endpoint.send_depth = o.endpoint.recv_depth = s.depth;
    // A process that waits for a command does not answer its peer.
    o.endpoint.peer_timeout = std::chrono::minutes(10);
    return o;
  }

  Context context;
  Worker worker;
  Messages messages{worker};
  MemoryRegion word = context.allocate(8).value();
  std::vector<Endpoint> endpoints;
};

// The last message may not have been sent yet, and the last received one may not be acknowledged.
task<> settle() { co_await sleep_for(std::chrono::milliseconds(20)); }

// Runs until a stop message arrives.
task<> answer(member* m) {
  for (;;) {
    const TagReceived got = co_await m->messages.tag_recv(0, m->word.all(), 0);
    if (got.tag == stop) break;
    co_await got.from->tag_send(ping, m->word.all());
  }
  co_await settle();
}

// Runs until the peer has connected all of them: it may not have received the last accept yet.
task<> accept_all(member* m, const settings* s, Listener* listener) {
  m->endpoints.reserve(s->endpoints);
  for (std::size_t i = 0; i < s->endpoints; ++i) {
    ConnectionRequest request = co_await listener->next();
    Endpoint e = co_await request.accept(m->joined(*s));
    m->endpoints.push_back(std::move(e));
  }
  co_await answer(m);
}

task<> connect_all(member* m, const settings* s, std::string address) {
  m->endpoints.reserve(s->endpoints);
  for (std::size_t i = 0; i < s->endpoints; ++i) {
    Endpoint e = co_await m->worker.connect(address, m->joined(*s));
    m->endpoints.push_back(std::move(e));
  }
  co_await m->endpoints.back().tag_send(stop, m->word.all());
  co_await settle();
}

task<> play(member* m, int round_trips, std::vector<double>* one_way_us) {
  Endpoint& over = m->endpoints[m->endpoints.size() / 2];
  for (int i = 0; i < round_trips; ++i) {
    const auto begun = clock_type::now();
    co_await over.tag_send(ping, m->word.all());
    co_await m->messages.tag_recv(ping, m->word.all());
    const std::chrono::duration<double, std::micro> took = clock_type::now() - begun;
    one_way_us->push_back(took.count() / 2);
  }
  co_await over.tag_send(stop, m->word.all());
  co_await settle();
}

task<> rest(double seconds) {
  co_await sleep_for(std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds)));
}

// Processor time of an idle Worker, in percent of one core.
double idle(member& m, double seconds) {
  m.worker.run(rest(0.2));
  const double before = processor_seconds();
  const auto begun = clock_type::now();
  m.worker.run(rest(seconds));
  const std::chrono::duration<double> passed = clock_type::now() - begun;
  return 100 * (processor_seconds() - before) / passed.count();
}

// Each command is one line; one line answers it.
[[noreturn]] void serve(const settings& s, const peer_process& master) {
  member m(s);
  Listener listener = m.worker.listen("127.0.0.1:0").value();
  master.say(listener.bound().text());
  m.worker.run(accept_all(&m, &s, &listener));
  master.say("accepted");
  for (;;) {
    const std::string command = master.hear();
    if (command == "answer") {
      m.worker.run(answer(&m));
      master.say("answered");
    } else if (command == "idle") {
      master.say(std::to_string(idle(m, s.idle_seconds)));
    } else {
      std::_Exit(0);
    }
  }
}

[[noreturn]] void call(const settings& s, const peer_process& master) {
  member m(s);
  const std::string address = master.hear();
  m.endpoints.reserve(s.endpoints);
  const std::uint64_t resident = resident_bytes();
  const std::uint64_t heap = heap_bytes();
  const std::uint64_t registered = registered_bytes();
  m.worker.run(connect_all(&m, &s, address));
  const auto each = [&s](std::uint64_t bytes) {
    return std::to_string(static_cast<double>(bytes) / static_cast<double>(s.endpoints));
  };
  master.say(each(resident_bytes() - resident));
  master.say(each(heap_bytes() - heap));
  master.say(each(registered_bytes() - registered));
  for (;;) {
    const std::string command = master.hear();
    if (command == "play") {
      std::vector<double> one_way_us;
      one_way_us.reserve(static_cast<std::size_t>(s.round_trips));
      m.worker.run(play(&m, s.round_trips, &one_way_us));
      std::ranges::sort(one_way_us);
      master.say(std::to_string(one_way_us[one_way_us.size() / 2]));
    } else if (command == "idle") {
      master.say(std::to_string(idle(m, s.idle_seconds)));
    } else {
      std::_Exit(0);
    }
  }
}

template <class Role>
peer_process start(const settings& s, Role role) {
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  if (pipe(down.data()) != 0 || pipe(up.data()) != 0) throw_error(errc::operating_system);
  const pid_t pid = fork();
  if (pid == 0) {
    role(s, {0, fdopen(up[1], "w"), fdopen(down[0], "r")});
  }
  close(down[0]);
  close(up[1]);
  return {pid, fdopen(down[1], "w"), fdopen(up[0], "r")};
}

struct pair {
  explicit pair(const settings& s)
      : server(start(s, [](const settings& o, const peer_process& m) { serve(o, m); })),
        client(start(s, [](const settings& o, const peer_process& m) { call(o, m); })) {
    client.say(server.hear());
    server.hear();
    resident = std::stod(client.hear());
    heap = std::stod(client.hear());
    registered = std::stod(client.hear());
  }
  ~pair() {
    for (const peer_process* p : {&client, &server}) {
      p->say("end");
      waitpid(p->pid, nullptr, 0);
    }
  }
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;

  double one_way_us() {
    server.say("answer");
    client.say("play");
    const double median = std::stod(client.hear());
    server.hear();
    return median;
  }
  // The busier of the two sides.
  double idle_percent() {
    server.say("idle");
    client.say("idle");
    const double there = std::stod(client.hear());
    return std::max(there, std::stod(server.hear()));
  }

  peer_process server;
  peer_process client;
  double resident = 0;  // bytes per connection, of the client
  double heap = 0;
  double registered = 0;
};

nlohmann::json measure(const settings& s) {
  settings alone = s;
  alone.endpoints = 1;
  pair one(alone);
  pair many(s);
  std::vector<double> with_one;
  std::vector<double> with_many;
  std::vector<double> ratios;
  for (int i = 0; i < s.rounds; ++i) {
    with_one.push_back(one.one_way_us());
    with_many.push_back(many.one_way_us());
    ratios.push_back(with_many.back() / with_one.back());
  }
  return {{"endpoints", s.endpoints},
          {"transport", s.transport},
          {"wait", s.wait},
          {"depth", s.depth},
          {"resident_bytes_per_endpoint", many.resident},
          {"heap_bytes_per_endpoint", many.heap},
          {"registered_bytes_per_endpoint", many.registered},
          {"one_way_us", {{"one", bench::median(with_one)}, {"many", bench::median(with_many)}}},
          {"ratio",
           {{"median", bench::median(ratios)},
            {"least", *std::ranges::min_element(ratios)},
            {"most", *std::ranges::max_element(ratios)}}},
          {"idle_percent", s.idle_seconds > 0 ? many.idle_percent() : 0}};
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  std::string json;
  CLI::App app(
      "What many idle connections with tagged messages cost one Worker, beside one.\n"
      "Each side of N connections needs N descriptors: ulimit -n.");
  app.add_option("--endpoints", s.endpoints, "connections")->check(CLI::Range(1, 1'000'000));
  app.add_option("--transport", s.transport, "shm, tcp or verbs");
  app.add_option("--wait", s.wait, "polling, event or adaptive")
      ->check(CLI::IsMember({"polling", "event", "adaptive"}));
  app.add_option("--depth", s.depth, "send_depth of each connection");
  app.add_option("--rounds", s.rounds, "of each pair, in turn")->check(CLI::PositiveNumber);
  app.add_option("--round-trips", s.round_trips, "in each")->check(CLI::PositiveNumber);
  app.add_option("--idle", s.idle_seconds, "seconds of silence that are measured; 0: none");
  app.add_option("--json", json, "write the figures there; - is standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    const nlohmann::json figures = measure(s);
    if (json == "-") {
      std::cout << figures.dump(2) << '\n';
    } else {
      std::printf("%zu connections over %s, %s, depth %u\n", s.endpoints, s.transport.c_str(),
                  s.wait.c_str(), s.depth);
      std::printf(
          "  memory of each     %8.0f bytes resident, %.0f of them heap; registered: %.0f\n",
          figures["resident_bytes_per_endpoint"].get<double>(),
          figures["heap_bytes_per_endpoint"].get<double>(),
          figures["registered_bytes_per_endpoint"].get<double>());
      std::printf("  8 B, one way       %8.3f us with one, %.3f us with all: %.2f (%.2f-%.2f)\n",
                  figures["one_way_us"]["one"].get<double>(),
                  figures["one_way_us"]["many"].get<double>(),
                  figures["ratio"]["median"].get<double>(), figures["ratio"]["least"].get<double>(),
                  figures["ratio"]["most"].get<double>());
      std::printf("  idle               %8.3f %% of a core, the busier side\n",
                  figures["idle_percent"].get<double>());
      if (!json.empty()) std::ofstream(json) << figures.dump(2) << '\n';
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench-endpoints: %s\n", e.what());
    return 1;
  }
  return 0;
}
