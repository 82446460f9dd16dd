// bench-thresholds: finds the length from which a rendezvous message is better than an eager one:
// message_options::eager_bytes of a transport. Two processes on this machine and, for each length,
// two connections: one sends every message of this length eagerly, the other announces every
// message; in turn.
#include "common.hpp"

#include <cordma/cordma.hpp>
#include <cordma/net/messages.hpp>
#include <cordma/runtime/sleep.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace cordma;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t head = 16;  // bytes of a frame before its message
// Bounds of message_options::eager_bytes.
constexpr std::size_t least_eager = 512;
constexpr std::size_t most_eager = 1024 * 1024;
constexpr std::size_t in_flight = 16;
// Actions of the other side on a message, by its tag.
constexpr std::uint64_t echo = 1;
constexpr std::uint64_t swallow = 2;
constexpr std::uint64_t last = 3;  // as swallow, and answers with an empty message
constexpr std::uint64_t stop = 4;

struct settings {
  std::string transport = "shm";
  std::string wait = "polling";
  // The last size fills the longest frame.
  std::vector<std::size_t> sizes{512,   1024,  2048,  4096,   6144,   8192,   12288,  16384,  24576,
                                 32768, 49152, 65536, 131072, 196608, 262144, 524288, 1048560};
  int rounds = 7;
  int messages = 2000;
  bool again = false;
};

// One side of both connections, for one length.
struct member {
  member(Context& context, Worker& worker, const settings& s, std::size_t bytes)
      : at_once(worker, {.eager_bytes = static_cast<std::uint32_t>(bytes + head)}),
        announced(worker, {.eager_bytes = least_eager}),
        anew(!s.again),
        out(context.allocate(in_flight * bytes, access::local_write | access::remote_read).value()),
        in(context.allocate(bytes).value()) {}

  [[nodiscard]] std::array<Messages*, 2> both() { return {&at_once, &announced}; }
  // Written again, unless the same bytes are to be sent again, which stay in the caches of both
  // sides.
  [[nodiscard]] Slice message(int number) {
    const std::size_t length = in.size();
    const std::size_t place = static_cast<std::size_t>(number) % in_flight;
    if (anew) std::memset(out.data() + place * length, number, length);
    return out.all().part(place * length, length);
  }

  Messages at_once;
  Messages announced;
  bool anew;
  MemoryRegion out;
  MemoryRegion in;
  std::array<Endpoint, 2> endpoints;
};

task<> answer(member* m, Messages* over) {
  for (int i = 0;; ++i) {
    const TagReceived got = co_await over->tag_recv(0, m->in, 0);
    if (got.tag == stop) co_return;
    if (got.tag == swallow) continue;
    const Slice back = got.tag == echo ? m->message(i) : Slice();
    co_await got.from->tag_send(got.tag, back);
  }
}

task<> serve(Worker* worker, member* m, Listener* listener) {
  for (std::size_t i = 0; i < 2; ++i) {
    ConnectionRequest request = co_await listener->next();
    connect_options o;
    o.messages = m->both()[i];
    Endpoint e = co_await request.accept(o);
    m->endpoints[i] = std::move(e);
  }
  scope both(worker->loop());
  for (Messages* over : m->both()) both.spawn(answer(m, over));
  co_await both.join();
}

task<> connect(Worker* worker, member* m, std::string to) {
  for (std::size_t i = 0; i < 2; ++i) {
    connect_options o;
    o.messages = m->both()[i];
    Endpoint e = co_await worker->connect(to, o);
    m->endpoints[i] = std::move(e);
  }
}

task<> ping_pong(member* m, std::size_t over, int count) {
  Endpoint& e = m->endpoints[over];
  for (int i = 0; i < count; ++i) {
    tag_recv_operation back = e.tag_recv(echo, m->in).start();
    const Slice there = m->message(i);
    co_await e.tag_send(echo, there);
    co_await back;
  }
}

task<> flood(member* m, std::size_t over, int count) {
  Endpoint& e = m->endpoints[over];
  tag_recv_operation heard = e.tag_recv(last, m->in).start();
  std::deque<message_send_operation> sends;
  for (int i = 0; i < count; ++i) {
    if (sends.size() == in_flight) {
      message_send_operation& first = sends.front();
      co_await first;
      sends.pop_front();
    }
    sends.push_back(e.tag_send(i + 1 < count ? swallow : last, m->message(i)));
    sends.back().start();
  }
  for (message_send_operation& s : sends) co_await s;
  co_await heard;
}

// The other side may end before it has acknowledged the last of these.
task<> say_stop(member* m) {
  for (Endpoint& e : m->endpoints) {
    const result<void> said = co_await e.tag_send(stop, Slice()).result();
    static_cast<void>(said.ok());
  }
}

// The requested number for short messages; for longer ones, at most the bytes of that number of 64
// KiB messages.
int messages_of(const settings& s, std::size_t bytes) {
  const std::size_t parts = std::max<std::size_t>(bytes / (64 * 1024), 1);
  return std::max(s.messages / static_cast<int>(parts), 1);
}

struct figures {
  std::array<double, 2> microseconds{};  // per message: eager, announced
  double ratio = 0;                      // announced to eager, in the same round
};

template <class Play>
figures compare(Worker& worker, member& m, const settings& s, int per_message, Play play) {
  const int count = messages_of(s, m.in.size());
  std::array<std::vector<double>, 2> taken;
  std::vector<double> ratios;
  for (int round = 0; round <= s.rounds; ++round) {
    for (std::size_t over = 0; over < 2; ++over) {
      const auto begun = clock_type::now();
      worker.run(play(&m, over, count));
      const std::chrono::duration<double, std::micro> took = clock_type::now() - begun;
      taken[over].push_back(took.count() / count / per_message);
    }
    if (round == 0) {  // the end of the warm-up
      for (auto& t : taken) t.clear();
    } else {
      ratios.push_back(taken[1].back() / taken[0].back());
    }
  }
  return {{bench::median(taken[0]), bench::median(taken[1])}, bench::median(ratios)};
}

// The first of the sizes from which on announcing is never slower.
nlohmann::json crossing(const nlohmann::json& rows, const char* what) {
  nlohmann::json from = nullptr;
  for (const nlohmann::json& row : rows) {
    if (row[what]["ratio"].get<double>() > 1) {
      from = nullptr;
    } else if (from.is_null()) {
      from = row["bytes"];
    }
  }
  return from;
}

nlohmann::json measure(Context& context, Worker& worker, const settings& s, const std::string& to) {
  nlohmann::json rows = nlohmann::json::array();
  const auto row = [](const figures& f) {
    return nlohmann::json{
        {"at_once_us", f.microseconds[0]}, {"announced_us", f.microseconds[1]}, {"ratio", f.ratio}};
  };
  for (const std::size_t bytes : s.sizes) {
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%zu bytes  ", bytes);
    member m(context, worker, s, bytes);
    worker.run(connect(&worker, &m, to));
    rows.push_back({{"bytes", bytes},
                    {"one_way", row(compare(worker, m, s, 2, ping_pong))},
                    {"in_flight", row(compare(worker, m, s, 1, flood))}});
    worker.run(say_stop(&m));
  }
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r              \r");
  return {{"transport", s.transport},
          {"wait", s.wait},
          {"messages", s.again ? "sent again" : "written anew"},
          {"rows", rows},
          {"announce_from",
           {{"one_way", crossing(rows, "one_way")}, {"in_flight", crossing(rows, "in_flight")}}}};
}

void print(const nlohmann::json& all) {
  std::printf("over %s, %s, %s: microseconds per message\n",
              all["transport"].get<std::string>().c_str(), all["wait"].get<std::string>().c_str(),
              all["messages"].get<std::string>().c_str());
  std::printf("%8s  %30s  %30s\n", "bytes", "one way: at once, announced",
              "16 in flight: likewise");
  for (const nlohmann::json& row : all["rows"]) {
    std::printf("%8zu", row["bytes"].get<std::size_t>());
    for (const char* what : {"one_way", "in_flight"}) {
      std::printf("  %10.3f %10.3f  %7.2f", row[what]["at_once_us"].get<double>(),
                  row[what]["announced_us"].get<double>(), row[what]["ratio"].get<double>());
    }
    std::printf("\n");
  }
  std::printf("announcing is not the slower one from: %s one way, %s with 16 in flight\n",
              all["announce_from"]["one_way"].dump().c_str(),
              all["announce_from"]["in_flight"].dump().c_str());
}

// The other process: writes its address to the pipe, and ends after a stop message.
[[noreturn]] void run_server(const settings& s, int tell) {
  Context context(bench::only(s.transport));
  Worker worker(context, bench::waiting(s.wait));
  Listener listener =
      worker.listen(context.own_host(parse_transport(s.transport).value()) + ":0").value();
  const std::string bound = listener.bound().text();
  if (write(tell, bound.data(), bound.size()) < 0) std::_Exit(1);
  close(tell);
  for (const std::size_t bytes : s.sizes) {
    member m(context, worker, s, bytes);
    worker.run(serve(&worker, &m, &listener));
  }
  std::_Exit(0);
}

std::string told_by(int from) {
  std::string text(256, '\0');
  const ssize_t n = read(from, text.data(), text.size());
  if (n <= 0) throw_error({errc::unreachable, "the other process ended early"});
  text.resize(static_cast<std::size_t>(n));
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  std::string json;
  CLI::App app(
      "From which length on a message is better announced and read than sent at once and copied:\n"
      "what message_options::eager_bytes should be on a transport of this machine.");
  app.add_option("--transport", s.transport, "shm, tcp or verbs");
  app.add_option("--wait", s.wait, "polling, event or adaptive")
      ->check(CLI::IsMember({"polling", "event", "adaptive"}));
  app.add_option("--sizes", s.sizes, "bytes of a message; ascending: 512 to 1 MiB less 16")
      ->delimiter(',')
      ->check(CLI::Range(least_eager, most_eager - head));
  app.add_option("--rounds", s.rounds, "of each, in turn")->check(CLI::PositiveNumber);
  app.add_option("--messages", s.messages, "in each; of 128 KiB half as many, and so on")
      ->check(CLI::PositiveNumber);
  app.add_flag("--again", s.again, "send the same bytes again; else every message is written anew");
  app.add_option("--json", json, "write the figures there; - is standard output");
  CLI11_PARSE(app, argc, argv);
  try {
    std::array<int, 2> address{};
    if (pipe(address.data()) != 0) throw_error(errc::operating_system);
    const pid_t server = fork();
    if (server == 0) run_server(s, address[1]);
    close(address[1]);
    Context context(bench::only(s.transport));
    Worker worker(context, bench::waiting(s.wait));
    const nlohmann::json all = measure(context, worker, s, told_by(address[0]));
    waitpid(server, nullptr, 0);
    if (json == "-") {
      std::cout << all.dump(2) << '\n';
    } else {
      print(all);
      if (!json.empty()) std::ofstream(json) << all.dump(2) << '\n';
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench-thresholds: %s\n", e.what());
    return 1;
  }
  return 0;
}
