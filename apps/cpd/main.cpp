// cordma-cpd: serves modules to cordma-cp.
#include "../cp/protocol/version.hpp"
#include "../cp/transfer/work.hpp"
#include "../support/command_line.hpp"
#include "../support/environment.hpp"
#include "../support/open_files.hpp"
#include "../support/printable.hpp"
#include "../support/signals_of_errors.hpp"
#include "../support/standard_descriptors.hpp"
#include "modules.hpp"

#include <cordma/runtime/dump_handler.hpp>
#include <cordma/runtime/stop.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include <pthread.h>

namespace copy {
namespace {

struct options {
  std::string config;
  std::string listen;
  std::vector<std::string> readable;
  std::vector<std::string> writable;
  std::string token_file;
  std::string transport = "auto";
  std::string wait = "adaptive";
  int clients = 0;
  bool verbose = false;
};

void declare(CLI::App& app, options& o) {
  app.add_option("--config", o.config, "modules and where to listen, as JSON")->type_name("FILE");
  app.add_option("--listen", o.listen,
                 "HOST:PORT, 127.0.0.1:7473 unless told otherwise; port 0: any, and it is printed")
      ->check(support::check_address);
  app.add_option("--module", o.readable, "a module that can be read")->type_name("NAME=PATH");
  app.add_option("--module-rw", o.writable, "a module that can be written to as well")
      ->type_name("NAME=PATH");
  app.add_option("--token-file", o.token_file,
                 "the token of all modules that are given here, in its first line")
      ->type_name("FILE");
  app.add_option("--transport", o.transport, "on which to be reached")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}));
  app.add_option("--wait", o.wait, "for what comes: polling, event or adaptive")
      ->check(CLI::IsMember({"polling", "event", "adaptive"}));
  app.add_option("--clients", o.clients, "end after so many; 0: never")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("-v,--verbose", o.verbose, "say who is served what");
  app.set_version_flag("--version", version_text("cordma-cpd"), "print the version");
  app.footer(
      "Without a token whoever reaches it may read, and write where that is allowed: listen on "
      "other\n"
      "addresses than this host's own only with one.\n\n"
      "Examples\n"
      "  cordma-cpd --module docs=/usr/share/doc\n"
      "  cordma-cpd --config /etc/cordma-cpd.json --listen 0.0.0.0:7473\n"
      "with\n"
      "  {\"modules\": [{\"name\": \"backup\", \"path\": \"/srv/backup\", \"read_only\": false,\n"
      "                \"hosts\": [\"10.0.0.0/8\"], \"token_file\": \"/etc/cordma-token\"}],\n"
      "   \"tls\": {\"certificate\": \"/etc/ssl/backup.pem\", \"key\": \"/etc/ssl/backup.key\",\n"
      "           \"required\": true}}\n\n"
      "TLS is over tcp, for clients with --tls; where it is required nobody is served without. The "
      "files are\n"
      "PEM: the certificate with those between it and a root behind it; a key that others may not "
      "read.");
}

std::string token_of(const std::string& file) {
  if (file.empty()) return {};
  std::FILE* const in = std::fopen(file.c_str(), "re");
  if (in == nullptr) {
    throw std::invalid_argument("--token-file: " + file + ": " + std::strerror(errno));
  }
  char line[1024];
  const bool read = std::fgets(line, sizeof line, in) != nullptr;
  std::fclose(in);
  std::string token(read ? line : "");
  if (token.ends_with('\n')) token.pop_back();
  // An empty token would give access to every client.
  if (token.empty())
    throw std::invalid_argument("--token-file: " + file + " has no token in its first line");
  return token;
}

daemon_configuration configuration_of(const options& o) {
  daemon_configuration c;
  if (!o.config.empty()) c = read_configuration(o.config);
  if (!o.listen.empty()) c.listen = o.listen;
  const std::string token = token_of(o.token_file);
  const auto add = [&](const std::string& m, bool read_only) {
    c.modules.push_back(module_of(m, read_only, token));
    c.modules.back().token_file = o.token_file;
  };
  for (const std::string& m : o.readable) add(m, true);
  for (const std::string& m : o.writable) add(m, false);
  if (c.modules.empty())
    throw std::invalid_argument("nothing to serve: --module NAME=PATH, or --config");
  if (c.tls && o.transport != "auto" && o.transport != "tcp") {
    throw std::invalid_argument("--transport " + o.transport + ": \"tls\" is for tcp");
  }
  for (std::size_t i = 0; i < c.modules.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (c.modules[i].what.name == c.modules[k].what.name) {
        throw std::invalid_argument("two modules are called \"" + c.modules[i].what.name + "\"");
      }
    }
  }
  return c;
}

const module* find(const daemon_configuration& c, const std::string& name,
                   const std::string& peer) {
  for (const served_module& m : c.modules) {
    if (m.what.name != name) continue;
    const bool from_here =
        m.hosts.empty() ||
        std::ranges::any_of(m.hosts, [&peer](const network& n) { return n.contains(peer); });
    return from_here ? &m.what : nullptr;
  }
  return nullptr;
}

cordma::task<void> serve_all(cordma::Context& context, cordma::Worker& worker,
                             cordma::Listener& listener, const daemon_configuration& c,
                             const options& o) {
  server::handlers h;
  h.find = [&c](const std::string& name, const std::string& peer) { return find(c, name, peer); };
  h.look = examine_request;
  h.carry = [&context, &worker, &o](client_request r, lanes& ways) {
    if (o.verbose) {
      const bool push = r.asked.way == direction::push;
      std::fprintf(stderr, "cordma-cpd: %s %s %s/%s\n", r.peer.c_str(), push ? "writes" : "reads",
                   support::printable(r.asked.module).c_str(),
                   support::printable(r.asked.paths.front()).c_str());
    }
    return carry_out_request(context, worker, std::move(r), ways);
  };
  h.log = [](const std::string& peer, const std::string& what) {
    std::fprintf(stderr, "cordma-cpd: client %s: %s\n", peer.c_str(),
                 support::printable(what).c_str());
  };
  server s(context, std::move(h), {c.tls ? &*c.tls : nullptr, c.tls_required});
  co_await s.serve(listener, o.clients);
}

// SIGINT and SIGTERM end the server; incomplete files can be resumed later.
class end_by_signal {
 public:
  end_by_signal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGUSR2);  // for the destructor
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this] {
      int signal = 0;
      ::sigwait(&set_, &signal);
      stop_.request_stop();
    });
  }
  end_by_signal(const end_by_signal&) = delete;
  end_by_signal& operator=(const end_by_signal&) = delete;
  ~end_by_signal() {
    ::pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }
  [[nodiscard]] std::stop_token token() const noexcept { return stop_.get_token(); }

 private:
  sigset_t set_{};
  std::stop_source stop_;
  std::thread thread_;
};

int run(int argc, char** argv) {
  support::hold_standard_descriptors();
  support::ignore_signals_of_errors();
  cordma::install_dump_handler(SIGUSR1).value();  // reports of all reactors, on standard error
  CLI::App app("Serves directories to cordma-cp, by RDMA, shared memory or TCP.", "cordma-cpd");
  options o;
  declare(app, o);
  if (const std::optional<int> ended = support::parse(app, argc, argv)) return *ended == 0 ? 0 : 1;
  daemon_configuration c;
  try {
    c = configuration_of(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-cpd: %s\n", e.what());
    return 1;
  }
  const std::string doubt = c.tls ? c.tls->doubt() : "";
  if (!doubt.empty()) {
    std::fprintf(stderr, "cordma-cpd: tls: %s: clients will not trust it\n", doubt.c_str());
  }
  for (const std::string& d : doubts_of(c)) {
    std::fprintf(stderr, "cordma-cpd: WARNING: %s\n", support::printable(d).c_str());
  }
  support::raise_open_file_limit();
  end_by_signal ended;
  cordma::context_options which;
  if (o.transport != "auto") which.transports = {cordma::parse_transport(o.transport).value()};
  cordma::Context context(which);
  support::say_what_is_odd("cordma-cpd", context);
  cordma::reactor_options waiting;
  waiting.mode = cordma::parse_wait_mode(o.wait).value();
  cordma::Worker worker(context, waiting);
  cordma::Listener listener = worker.listen(c.listen).value();
  support::say_what_is_missing("cordma-cpd", listener);
  std::printf("listening on %s\n", listener.bound().text().c_str());
  std::fflush(stdout);
  try {
    worker.run(cordma::with_stop(ended.token(), serve_all(context, worker, listener, c, o)));
  } catch (const cordma::error& e) {
    if (e.condition() != cordma::errc::canceled) throw;
  }
  return 0;
}

}  // namespace
}  // namespace copy

int main(int argc, char** argv) try {
  return copy::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "cordma-cpd: %s\n", e.what());
  return 1;
}
