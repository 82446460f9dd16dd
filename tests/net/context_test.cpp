// Configuration of a Context, addresses, and calls from the wrong thread.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/fd_count.hpp>
#include <support/stage.hpp>

#include <cordma/net/transport/transport.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

// Sets an environment variable during its lifetime.
class environment {
 public:
  environment(const char* name, const char* value) : name_(name) {
    const char* const old = std::getenv(name);
    if (old != nullptr) old_ = old;
    ::setenv(name, value, 1);
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;
  ~environment() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

errc code_of_context(const context_options& o, std::string& why) {
  try {
    const Context c(o);
  } catch (const error& e) {
    why = e.what();
    return e.condition();
  }
  return errc::ok;
}

}  // namespace

TEST_CASE("I4: addresses are read as they are written") {
  struct row {
    const char* text;
    const char* host;
    int port;
  };
  for (const row& r :
       {row{"host:1", "host", 1}, row{":7471", "", 7471}, row{"10.0.0.1:0", "10.0.0.1", 0},
        row{"[::1]:65535", "::1", 65535}, row{"[fe80::1%eth0]:5", "fe80::1%eth0", 5}}) {
    CAPTURE(r.text);
    const transport::address a = parse_address(r.text).value();
    CHECK(a.host == r.host);
    CHECK(a.port == r.port);
    CHECK(parse_address(a.text()).value().host == a.host);
  }
  for (const char* bad : {"", ":", "host", "host:", "host:x", "host:65536", "host:-1", "host:1 ",
                          "host: 1", "host:99999999999999999999", "[::1]", "[::1", "1:2:3", "::1:5",
                          "[]:5", "[::1:5", "::1]:5", "[[::1]]:5", "[::1]x:5"}) {
    CAPTURE(bad);
    const result<transport::address> r = parse_address(bad);
    REQUIRE(r.code() == errc::invalid_value);
    CHECK(r.why().message().find("host:port") != std::string::npos);
  }
  CHECK(parse_address("::1:5").why().message().find("go into brackets") != std::string::npos);
}

TEST_CASE("B1: CORDMA_TRANSPORT chooses, and what it cannot mean is said") {
  std::string why;
  {
    const environment e("CORDMA_TRANSPORT", "tcp");
    const Context c;
    CHECK(c.transports().size() == 1);
    CHECK(c.find(transport::kind::tcp) != nullptr);
    CHECK(c.find(transport::kind::shm) == nullptr);
  }
  {
    const environment e("CORDMA_TRANSPORT", "tcp,shm");
    const Context c;
    REQUIRE(c.transports().size() == 2);
    CHECK(c.transports()[0].transport == transport::kind::tcp);
  }
  {
    const environment e("CORDMA_TRANSPORT", "token-ring");
    CHECK(code_of_context({}, why) == errc::invalid_value);
    CHECK(why.find("CORDMA_TRANSPORT") != std::string::npos);
    CHECK(why.find("token-ring") != std::string::npos);
  }
  for (const char* mixed : {"auto,tcp", "tcp,auto", "shm, auto ,tcp"}) {
    CAPTURE(std::string(mixed));
    const environment e("CORDMA_TRANSPORT", mixed);
    CHECK(code_of_context({}, why) == errc::invalid_value);
    CHECK(why.find("CORDMA_TRANSPORT") != std::string::npos);
    CHECK(why.find("use auto alone, or leave it out") != std::string::npos);
  }
  {
    const environment e("CORDMA_TRANSPORT", "verbs");
    const environment none("CORDMA_VERBS_DEVICE", "no_such_device");
    CHECK(code_of_context({}, why) == errc::not_supported);
  }
  {
    // Code overrides the environment; an invalid value is an error all the same.
    context_options o;
    o.transports = {transport::kind::tcp};
    {
      const environment e("CORDMA_TRANSPORT", "shm");
      const Context c(o);
      REQUIRE(c.transports().size() == 1);
      CHECK(c.transports()[0].transport == transport::kind::tcp);
    }
    const environment e("CORDMA_TRANSPORT", "token-ring");
    CHECK(code_of_context(o, why) == errc::invalid_value);
  }
}

TEST_CASE("I1: verbs settings: what means nothing is refused by name, the rest is listed") {
  std::string why;
  for (const auto& [name, value] : {std::pair{"CORDMA_VERBS_GID_INDEX", "first"},
                                    {"CORDMA_VERBS_GID_INDEX", "-2"},
                                    {"CORDMA_VERBS_PKEY", "0x12345"},
                                    {"CORDMA_VERBS_PKEY", "0x"},
                                    {"CORDMA_VERBS_SERVICE_LEVEL", "16"},
                                    {"CORDMA_VERBS_TIMEOUT", "32"},
                                    {"CORDMA_VERBS_RETRY_COUNT", "8"},
                                    {"CORDMA_VERBS_GID_INDEX", "256"},
                                    {"CORDMA_VERBS_CQ_LIMIT", "255"},
                                    {"CORDMA_VERBS_RAILS", "0"},
                                    {"CORDMA_VERBS_RAILS", "9"},
                                    {"CORDMA_VERBS_CALLS", "best"}}) {
    CAPTURE(std::string(name));
    const environment e(name, value);
    CHECK(code_of_context({}, why) == errc::invalid_value);
    CHECK(why.find(value) != std::string::npos);
  }
  const environment by_environment("CORDMA_VERBS_PKEY", "0x8001");
  context_options o;
  o.verbs.gid_index = 3;
  o.verbs.mtu = 1024;
  o.verbs.calls = transport::verbs_calls::plain;
  o.verbs.rails = 4;
  const Context c(o);
  const auto value_of = [&c](std::string_view key) {
    for (const config_entry& e : c.configuration()) {
      if (e.key == key) return e.value;
    }
    return std::string("not listed");
  };
  CHECK(value_of("verbs.pkey") == "0x8001");
  CHECK(value_of("verbs.gid_index") == "3");
  CHECK(value_of("verbs.mtu") == "1k");
  CHECK(value_of("verbs.calls") == "plain");
  CHECK(value_of("verbs.rails") == "4");
  CHECK(value_of("verbs.retry_count") == "7");
}

TEST_CASE("I4: what code assigns wins over the environment, also where it is the default") {
  const environment transports("CORDMA_TRANSPORT", "shm,tcp");
  const environment ring("CORDMA_SHM_RING_BYTES", "1m");
  const environment eager("CORDMA_SHM_EAGER_BYTES", "0");
  const environment backlog("CORDMA_TCP_BACKLOG", "7");
  const environment gid("CORDMA_VERBS_GID_INDEX", "3");
  const environment pkey("CORDMA_VERBS_PKEY", "0x8001");
  const environment device("CORDMA_VERBS_DEVICE", "mlx5_0");
  const environment calls("CORDMA_VERBS_CALLS", "plain");
  const environment rails("CORDMA_VERBS_RAILS", "2");
  const environment ordering("CORDMA_VERBS_RELAXED_ORDERING", "true");
  const context_options initial;
  context_options o;
  o.shm = {.ring_bytes = initial.shm.ring_bytes.get()};
  o.tcp.backlog = initial.tcp.backlog.get();
  o.verbs.gid_index = -1;
  o.verbs.pkey = 0xffff;
  o.verbs.device = "";
  o.verbs.calls = transport::verbs_calls::automatic;
  o.verbs.rails = 1;
  o.verbs.relaxed_ordering = false;
  const Context c(o);
  const std::vector<config_entry>& all = c.configuration();
  for (const char* key : {"shm.ring_bytes", "tcp.backlog", "verbs.gid_index", "verbs.pkey",
                          "verbs.device", "verbs.calls", "verbs.rails", "verbs.relaxed_ordering"}) {
    CAPTURE(std::string(key));
    const auto at = std::ranges::find(all, key, &config_entry::key);
    REQUIRE(at != all.end());
    CHECK(at->source == config_source::code);
    if (at->key == "verbs.pkey") continue;  // 65535 is 0xffff
    CHECK(at->value == at->default_value);
  }
  const auto open = std::ranges::find(all, "shm.eager_bytes", &config_entry::key);
  CHECK(open->source == config_source::environment);
  CHECK(open->value == "0");
}

TEST_CASE("M7: what a transport cannot leave out of a listener is said, not passed over") {
  context_options o;
  o.transports = {transport::kind::tcp, transport::kind::shm};
  Context context(o);
  Worker worker(context);
  const result<Listener> refused = worker.listen("[::]:0", {.transport = {}, .ipv6_only = true});
  CHECK(refused.code() == errc::not_supported);
  CHECK(refused.why().message().find("set listen_options::transport") != std::string::npos);
}

TEST_CASE("B1: what was left out by default is listed with its reason") {
  const environment e("CORDMA_TRANSPORT", "auto");
  const Context c;
  bool verbs_listed = false;
  for (const auto& [kind, reason] : c.missing()) {
    if (kind == transport::kind::verbs) verbs_listed = true;
    CHECK_FALSE(reason.message().empty());
  }
  CHECK(verbs_listed == (c.find(transport::kind::verbs) == nullptr));
}

TEST_CASE(
    "B1: a transport whose settings somebody made and that cannot be had with them is an error") {
  std::string why;
  const environment any("CORDMA_TRANSPORT", "auto");
  {
    const environment e("CORDMA_SHM_DIRECTORY", "/nonexistent/x");
    CHECK(code_of_context({}, why) == errc::not_found);
    CHECK(why.find("shm.directory = /nonexistent/x (environment CORDMA_SHM_DIRECTORY)") !=
          std::string::npos);
    const environment without("CORDMA_TRANSPORT", "tcp");
    CHECK(code_of_context({}, why) == errc::ok);  // shm is not requested
  }
  context_options o;
  o.shm.directory = "/dev/null";
  for (const char* wanted : {"auto", "shm", "tcp,shm"}) {
    const environment e("CORDMA_TRANSPORT", wanted);
    CHECK(code_of_context(o, why) == errc::invalid_value);
    CHECK(why.find("shm.directory = /dev/null (code)") != std::string::npos);
    CHECK(why.find("CORDMA_SHM_DIRECTORY") != std::string::npos);  // the remedy
  }
}

TEST_CASE("B1: transports are named one by one, with commas between") {
  using kinds = std::vector<transport::kind>;
  CHECK(parse_transports("").value().empty());
  CHECK(parse_transports("verbs").value() == kinds{transport::kind::verbs});
  CHECK(parse_transports("tcp,shm,verbs").value() ==
        kinds{transport::kind::tcp, transport::kind::shm, transport::kind::verbs});
  const result<kinds> wrong = parse_transports("shm,tpc");
  REQUIRE(wrong.code() == errc::invalid_value);
  CHECK(wrong.why().message().find("\"tpc\"") != std::string::npos);
}

TEST_CASE("B1: a transport that this user may not use is left out, and a warning says why" *
          test::applies(::geteuid() == 0, "another user's folder needs root to be made")) {
  char folder[] = "/tmp/cordma-of-another-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  REQUIRE(::chown(folder, 1, 1) == 0);
  context_options o;
  o.shm.directory = std::string(folder);
  std::string why;
  {
    const environment any("CORDMA_TRANSPORT", "auto");
    const Context context(o);
    CHECK(context.find(transport::kind::shm) == nullptr);
    CHECK(context.find(transport::kind::tcp) != nullptr);
    // Others may come from the environment of the test.
    const std::vector<std::string>& all = context.configuration_warnings();
    REQUIRE_FALSE(all.empty());
    const std::string& said = all.back();
    CHECK(said.starts_with("shm with shm.directory = " + std::string(folder) +
                           " (code) is left out: "));
    CHECK(said.find("belongs to another user") != std::string::npos);
  }
  const environment by_name("CORDMA_TRANSPORT", "shm");
  CHECK(code_of_context(o, why) == errc::not_permitted);
  CHECK(::rmdir(folder) == 0);
}

TEST_CASE(
    "B1: a transport that could not be had is named in the reason, and where it is required") {
  const environment any("CORDMA_TRANSPORT", "auto");
  std::optional<Context> context;
  {
    const no_descriptors now;  // shm takes one for its Context, tcp none
    context.emplace();
  }
  REQUIRE(context->find(transport::kind::shm) == nullptr);
  Context whole;
  Worker of_whole(whole);
  of_whole.run([](Worker* on) -> task<> {
    Listener listener = on->listen("127.0.0.1:0").value();
    wire w = co_await connect(*on, listener, "127.0.0.1:" + std::to_string(listener.bound().port));
    // A missing device is no reason for a warning.
    CHECK(w.client.transport_reason().find("left out") == std::string::npos);
  }(&of_whole));
  Worker worker(*context);
  worker.run([](Worker* on) -> task<> {
    constexpr const char* told = "shm is left out: ";
    constexpr auto shm = transport::kind::shm;
    Listener listener = on->listen("127.0.0.1:0").value();
    const std::string to = "127.0.0.1:" + std::to_string(listener.bound().port);
    wire w = co_await connect(*on, listener, to);
    CHECK(w.client.transport() == transport::kind::tcp);
    CHECK(w.client.transport_reason().starts_with(told));
    connect_options only;
    only.transport = shm;
    connect_operation required = on->connect(to, only);
    const result<Endpoint> refused = co_await required.result();
    CHECK(refused.code() == errc::unreachable);
    CHECK(refused.why().message().find(told) != std::string::npos);
    CHECK(on->listen("127.0.0.1:0", {.transport = shm}).why().message().starts_with(told));
    CHECK(on->prepare({}, shm).why().message().starts_with(told));
    CHECK(on->datagram({}, shm).why().message().starts_with(told));
  }(&worker));
}

TEST_CASE("B1: what has no setting is not chosen by name, and not offered either") {
  std::string why;
  for (const std::string named : {"sim", "test"}) {
    CAPTURE(named);
    {
      const environment e("CORDMA_TRANSPORT", named.c_str());
      CHECK(code_of_context({}, why) == errc::invalid_value);
      CHECK(why.ends_with("auto, shm, tcp, verbs"));
    }
    const unique_fd file(::memfd_create("settings", MFD_CLOEXEC));
    const std::string text = "{\"transport\": \"" + named + "\"}";
    REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    const environment e("CORDMA_CONFIG", path.c_str());
    CHECK(code_of_context({}, why) == errc::invalid_value);
    CHECK(why.ends_with("auto, shm, tcp, verbs"));
  }
  CHECK(parse_transport("test").code() == errc::invalid_value);
  for (const transport::kind k : {transport::kind::sim, transport::kind::test}) {
    context_options o;
    o.transports = {k};
    CHECK(code_of_context(o, why) == errc::not_supported);
    CHECK(why.find(std::string(transport::name(k)) + " is not chosen by name") !=
          std::string::npos);
    CHECK(why.find("context_options::domains") != std::string::npos);
  }
  CHECK(parse_transport("ship").why().message().ends_with("use shm, tcp or verbs"));
}

TEST_CASE("B1: a domain that is null is an error of the Context") {
  std::string why;
  context_options o;
  o.domains = {nullptr};
  CHECK(code_of_context(o, why) == errc::invalid_value);
  CHECK(why.find("context_options::domains") != std::string::npos);
}

TEST_CASE("B1: two domains of a kind are an error of the Context") {
  std::string why;
  context_options o;
  o.domains = {transport::make_tcp({}).value(), transport::make_tcp({}).value()};
  CHECK(code_of_context(o, why) == errc::invalid_value);
  CHECK(why.find("two of tcp") != std::string::npos);
}

TEST_CASE("K3: a request outlives its Worker, and answers on its thread only") {
  context_options o;
  o.transports = {transport::kind::tcp};
  Context context(o);
  Worker client(context, reactor_options{.mode = wait_mode::polling});
  std::optional<Worker> server;
  server.emplace(context, client.loop());
  std::optional<ConnectionRequest> asked;
  client.run([](Worker* from, Worker* to, std::optional<ConnectionRequest>* request) -> task<> {
    Listener listener = to->listen("127.0.0.1:0").value();
    connect_operation connecting = from->connect(listener.bound().text()).start();
    *request = co_await listener.next();
    std::thread([request] { CHECK((*request)->reject().code() == errc::no_lock); }).join();
    connecting.cancel();
    static_cast<void>(co_await connecting.result());
  }(&client, &*server, &asked));
  server.reset();
  CHECK(asked->transport() == transport::kind::tcp);
  CHECK(asked->reject().code() == errc::shutdown);
}

TEST_CASE("K2: eight threads with a Worker each share one Context") {
  context_options o;
  o.transports = {transport::kind::shm, transport::kind::tcp};
  Context context(o);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&context] {
      Worker mine(context, reactor_options{.mode = wait_mode::event});
      mine.run([](Context* c, Worker* on) -> task<> {
        Listener listener = on->listen("127.0.0.1:0").value();
        const std::string to = "127.0.0.1:" + std::to_string(listener.bound().port);
        wire w = co_await connect(*on, listener, to);
        for (int round = 0; round < 100; ++round) {
          MemoryRegion out = c->allocate(1000).value();
          MemoryRegion in = c->allocate(1000).value();
          fill(out.bytes(), static_cast<std::uint64_t>(round));
          recv_operation receiving = w.server.recv(in).start();
          co_await w.client.send(out);
          co_await receiving;
          CHECK(filled(in.bytes(), static_cast<std::uint64_t>(round)));
        }
      }(&context, &mine));
    });
  }
  for (std::thread& t : threads) t.join();
}
