// cordma-perf: measures messages, remote memory and atomics over each transport.
#include "../support/environment.hpp"
#include "../support/standard_output.hpp"
#include "conditions.hpp"
#include "options.hpp"
#include "outcome.hpp"
#include "processes.hpp"
#include "session.hpp"
#include "watcher.hpp"

#include <cordma/runtime/channel.hpp>
#include <cordma/runtime/dump_handler.hpp>
#include <cordma/runtime/scope.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace perf {
namespace {

cordma::context_options only(const plan& p) {
  cordma::context_options o;
  if (p.transport) o.transports = {*p.transport};
  return o;
}

// Serves one client. Sends `true` if it succeeded; a fault is printed on stderr.
cordma::task<void> serve_one(serving& all, cordma::ConnectionRequest request,
                             cordma::channel<bool>& ended) {
  const std::string peer = request.peer_address();
  std::string trouble;
  try {
    co_await serve(all, std::move(request));
  } catch (const cordma::error& e) {
    trouble = e.what();
  }
  if (!trouble.empty()) {
    std::fprintf(stderr, "cordma-perf: client %s: %s\n", peer.c_str(), trouble.c_str());
  }
  bool well = trouble.empty();
  static_cast<void>(ended.try_send(well));
}

cordma::task<void> let_in(serving& all, cordma::Listener& listener, cordma::scope& clients,
                          cordma::channel<bool>& ended) {
  for (;;) {
    cordma::ConnectionRequest request = co_await listener.next();
    clients.spawn(serve_one(all, std::move(request), ended));
  }
}

// Accepts all clients, and measures with one at a time.
cordma::task<void> serve_clients(serving& all, cordma::Listener& listener, bool once) {
  cordma::channel<bool> ended(1);
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope clients(me);
  clients.spawn(let_in(all, listener, clients, ended));
  bool well = true;
  if (once) {
    well = co_await ended.recv();
  } else {
    co_await clients.join();
  }
  if (!well) cordma::throw_error(cordma::errc::io_failed);
}

int run_server(const options& o, const plan& p, bool once,
               const server_process::tell_address& listening) {
  try {
    const std::string trouble = pin_to(o.server_cpu);
    if (!trouble.empty()) throw std::runtime_error(trouble);
    cordma::Context context(only(p));
    if (o.what != role::both) support::say_what_is_odd("cordma-perf", context);
    cordma::Worker worker(context, p.wait.reactor());
    cordma::listen_options where;
    where.transport = p.transport;
    const bool beside = o.what == role::both && p.transport.has_value();
    const std::string at = beside ? context.own_host(*p.transport) + ":0" : o.address;
    cordma::Listener listener = worker.listen(at, where).value();
    support::say_what_is_missing("cordma-perf", listener);
    listening(listener.bound().text());
    serving all{.context = context, .worker = worker, .waits = p.wait.text()};
    worker.run(serve_clients(all, listener, once));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-perf: server: %s\n", e.what());
    return exit_failed;
  }
}

outcome run_client(const std::string& address, const plan& p) {
  cordma::Context context(only(p));
  support::say_what_is_odd("cordma-perf", context);
  cordma::Worker worker(context, p.client_wait().reactor());
  watcher watch(::isatty(STDERR_FILENO) != 0 ? watcher::mode::on_terminal : watcher::mode::silent);
  return worker.run(measure(context, worker, address, p, watch));
}

// Starts a new server for every run, so that it uses the same waiting mode as the client.
outcome run_both(const plan& p, const options& o) {
  server_process server([&](const server_process::tell_address& listening) {
    return run_server(o, p, true, listening);
  });
  if (server.address().empty()) throw std::runtime_error("the server ended before it listened");
  outcome result = run_client(server.address(), p);
  if (result.broken_off) return result;  // the result of the server no longer matters
  const int code = server.wait();
  if (code != 0) result.complaints.push_back("the server ended with " + std::to_string(code));
  const bool polls = p.client_wait().mode == cordma::wait_mode::polling;
  if (polls && o.client_cpu && o.client_cpu == o.server_cpu) {
    result.notes.push_back("both sides are pinned to CPU " + std::to_string(*o.client_cpu) +
                           ", and a side that polls keeps the other from it");
  }
  return result;
}

// Results go to standard output unless the JSON goes there.
class reporter {
 public:
  reporter(const options& o, conditions under)
      : options_(o), under_(std::move(under)), out_(o.json == "-" ? stderr : stdout) {}

  void show(outcome o) {
    if (options_.json != "-" || options_.verbose) {
      if (!std::exchange(headed_, true)) std::fputs(table_heading().c_str(), out_);
      std::fputs(table_row(o).c_str(), out_);
    }
    if (options_.verbose) std::fputs(details(o).c_str(), out_);
    for (const std::string& c : o.complaints) {
      std::fprintf(stderr, "cordma-perf: not valid: %s\n", c.c_str());
    }
    for (const std::string& n : o.notes) {
      std::fprintf(stderr, "cordma-perf: note: %s\n", n.c_str());
    }
    std::fflush(out_);
    results_.push_back({std::make_unique<outcome>(std::move(o)), {}});
  }
  void show_failure(const plan& p, const std::string& why) {
    std::fprintf(stderr, "cordma-perf: %s: %s\n", p.facts().name.c_str(), why.c_str());
    results_.push_back({nullptr, {p, why}});
  }
  // Checked before a long measurement. Prints an error and returns false if the file cannot be
  // written.
  [[nodiscard]] bool can_write_json() const {
    if (options_.json.empty() || options_.json == "-") return true;
    if (std::ofstream(options_.json, std::ios::app)) return true;
    say_that_json_cannot_be_written(options_.json);
    return false;
  }
  // Saves all results so far if a file is requested, by replacing it completely. Prints an error
  // and returns false if it cannot be written.
  [[nodiscard]] bool save_json() const {
    return options_.json.empty() || options_.json == "-" || replace_file(json());
  }
  // Prints all results if standard output is requested. finish_output() reports errors.
  void print_json() const {
    if (options_.json == "-") std::fputs(json().c_str(), stdout);
  }

 private:
  [[nodiscard]] std::string json() const {
    return to_json(results_, under_, options_.plans.size() > 1);
  }
  [[nodiscard]] bool replace_file(const std::string& text) const {
    struct stat is{};
    const bool plain_file = ::stat(options_.json.c_str(), &is) != 0 || S_ISREG(is.st_mode);
    const std::string first = plain_file ? options_.json + ".part" : options_.json;
    if (std::ofstream file(first); !(file << text << std::flush)) {
      say_that_json_cannot_be_written(first);
      return false;
    }
    if (!plain_file || std::rename(first.c_str(), options_.json.c_str()) == 0) return true;
    say_that_json_cannot_be_written(options_.json);
    return false;
  }
  static void say_that_json_cannot_be_written(const std::string& name) {
    std::fprintf(stderr, "cordma-perf: cannot write %s: %s\n", name.c_str(), std::strerror(errno));
  }

  const options& options_;
  const conditions under_;
  std::FILE* out_;
  bool headed_ = false;
  std::vector<run_result> results_;
};

// The exit code if it is not 0, and whether another run follows.
struct verdict {
  int code = 0;
  bool goes_on = true;
};
verdict run_plan(const plan& p, const options& o, reporter& report) {
  try {
    outcome result = o.what == role::both ? run_both(p, o) : run_client(o.address, p);
    const bool by_hand = result.by_hand;
    const bool valid = result.valid();
    report.show(std::move(result));
    if (by_hand) return {exit_interrupted, false};
    return {valid ? 0 : exit_failed, true};
  } catch (const nothing_measured& e) {
    report.show_failure(p, e.what());
    return e.by_hand ? verdict{exit_interrupted, false} : verdict{exit_failed, true};
  } catch (const std::exception& e) {
    report.show_failure(p, e.what());
    return {exit_failed, true};
  }
}

int run_plans(const options& o) {
  conditions under = take_conditions(o);
  const std::string trouble = pin_to(o.client_cpu);
  if (!trouble.empty()) {
    std::fprintf(stderr, "cordma-perf: %s\n", trouble.c_str());
    return exit_failed;
  }
  reporter report(o, std::move(under));
  if (!report.can_write_json()) return exit_failed;
  watcher::block_interrupts();
  int code = 0;
  for (const plan& p : o.plans) {
    const verdict v = run_plan(p, o, report);
    if (v.code != 0) code = v.code;
    if (!report.save_json()) return exit_failed;
    if (!v.goes_on) break;
  }
  report.print_json();
  return code;
}

int run(const options& o) {
  if (o.what != role::server) return run_plans(o);
  return run_server(o, o.plans.front(), o.once, [](const std::string& address) {
    std::printf("listening on %s\n", address.c_str());
    std::fflush(stdout);
  });
}

}  // namespace
}  // namespace perf

int main(int argc, char** argv) {
  cordma::install_dump_handler(SIGUSR1).value();  // prints where it waits, on standard error
  const perf::parsed command = perf::parse_options(argc, argv);
  if (command.exit_code) {
    std::fputs(command.text.c_str(), *command.exit_code == 0 ? stdout : stderr);
    return support::finish_output("cordma-perf", *command.exit_code);
  }
  return support::finish_output("cordma-perf", perf::run(command.chosen));
}
