// cordma-demo: copies a directory tree from another process's memory.
#include "../support/command_line.hpp"
#include "../support/environment.hpp"
#include "../support/standard_output.hpp"
#include "transfer.hpp"

#include <cordma/runtime/scope.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>

#include <unistd.h>

namespace demo {
namespace {

struct options {
  std::string tree;
  std::string listen = "127.0.0.1:0";
  int clients = 0;
  std::string address;
  std::string into;
  std::string compare;
  std::string transport = "auto";
  std::string wait = "adaptive";
};

cordma::context_options only(const options& o) {
  cordma::context_options c;
  if (o.transport != "auto") c.transports = {cordma::parse_transport(o.transport).value()};
  return c;
}

cordma::reactor_options waiting(const options& o) {
  cordma::reactor_options r;
  r.mode = cordma::parse_wait_mode(o.wait).value();
  return r;
}

// The failure of a client does not affect the others.
cordma::task<void> serve_one(cordma::Context context, cordma::ConnectionRequest request,
                             std::filesystem::path root) {
  const std::string peer = request.peer_address();
  try {
    co_await serve_tree(context, std::move(request), std::move(root));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cordma-demo: client %s: %s\n", peer.c_str(), e.what());
  }
}

cordma::task<void> serve_all(cordma::Context context, cordma::Listener& listener,
                             std::filesystem::path root, int clients) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope connections(me);
  for (int i = 0; clients == 0 || i < clients; ++i) {
    cordma::ConnectionRequest request = co_await listener.next();
    connections.spawn(serve_one(context, std::move(request), root));
  }
  co_await connections.join();
}

int serve(const options& o) {
  const scanned tree = scan(o.tree);  // reports errors now instead of to the first client
  for (const omission& left : tree.left_out) {
    std::fprintf(stderr, "cordma-demo: left out: %s: %s\n", left.path.c_str(), left.why.c_str());
  }
  cordma::Context context(only(o));
  support::say_what_is_odd("cordma-demo", context);
  cordma::Worker worker(context, waiting(o));
  cordma::Listener listener = worker.listen(o.listen).value();
  support::say_what_is_missing("cordma-demo", listener);
  std::printf("listening on %s\n", listener.bound().text().c_str());
  std::fflush(stdout);
  worker.run(serve_all(context, listener, o.tree, o.clients));
  return 0;
}

std::size_t count(const pulled& p, entry_kind kind) {
  return static_cast<std::size_t>(std::count_if(p.entries.begin(), p.entries.end(),
                                                [kind](const entry& e) { return e.kind == kind; }));
}

// True if no differences were found.
bool verify(const options& o, const pulled& p) {
  if (o.compare.empty()) return true;
  constexpr std::size_t enough = 10;
  std::vector<std::string> found = differences(o.compare, o.into, p.entries, enough);
  if (found.size() < enough) {
    std::ranges::move(strangers(o.compare, p.entries, p.left_out, enough - found.size()),
                      std::back_inserter(found));
  }
  for (const std::string& d : found) std::fprintf(stderr, "cordma-demo: differs: %s\n", d.c_str());
  if (found.empty()) {
    std::printf("  verified: all %zu entries are identical to those in %s, byte by byte\n",
                p.entries.size(), o.compare.c_str());
  }
  return found.empty();
}

int pull(const options& o) {
  cordma::Context context(only(o));
  support::say_what_is_odd("cordma-demo", context);
  cordma::Worker worker(context, waiting(o));
  cordma::connect_options how;
  const auto show =
      ::isatty(STDERR_FILENO) != 0 ? show_progress::on_terminal : show_progress::silent;
  const pulled p = worker.run(pull_tree(context, worker, o.address, how, o.into, show));
  std::printf("  over %s (%s)\n", p.transport.c_str(), p.reason.c_str());
  std::printf(
      "  pulled %zu files, %zu directories, %zu links: %.1f MB in %.2f s, %.0f MB/s, by %llu "
      "one-sided reads\n",
      count(p, entry_kind::file), count(p, entry_kind::directory), count(p, entry_kind::link),
      static_cast<double>(p.bytes) / 1e6, p.seconds, static_cast<double>(p.bytes) / 1e6 / p.seconds,
      static_cast<unsigned long long>(p.reads));
  std::printf("  %.2f s of that went into writing files\n", p.writing_s);
  if (!p.left_out.empty()) {
    std::printf("  the server left %zu out, the first of them %s: %s\n", p.left_out.size(),
                p.left_out.front().path.c_str(), p.left_out.front().why.c_str());
  }
  if (p.changed != 0) {
    std::fprintf(stderr, "cordma-demo: %u files changed while they were read\n", p.changed);
  }
  return verify(o, p) && p.changed == 0 ? 0 : 1;
}

void declare(CLI::App& app, options& o) {
  CLI::App* const server = app.add_subcommand("serve", "offer a directory tree");
  server->add_option("--tree", o.tree, "the directory")->required()->check(CLI::ExistingDirectory);
  server->add_option("--listen", o.listen, "HOST:PORT; port 0: any, and it is printed")
      ->check(support::check_address);
  server->add_option("--clients", o.clients, "end after so many; 0: never")
      ->check(CLI::NonNegativeNumber);
  CLI::App* const client = app.add_subcommand("pull", "copy it by one-sided reads");
  client->add_option("address", o.address, "HOST:PORT of the server")
      ->required()
      ->check(support::check_address);
  client->add_option("--into", o.into, "an empty directory, or one to be made")->required();
  client->add_option("--compare", o.compare, "then compare with this directory, byte by byte")
      ->check(CLI::ExistingDirectory);
  for (CLI::App* both : {server, client}) {
    both->add_option("--transport", o.transport, "how to reach the other side")
        ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}));
    both->add_option("--wait", o.wait, "for what comes")
        ->check(CLI::IsMember({"polling", "event", "adaptive"}));
  }
  app.require_subcommand(1);
  app.footer(
      "Example\n  cordma-demo serve --tree /usr/include --listen 127.0.0.1:18702 &\n"
      "  cordma-demo pull 127.0.0.1:18702 --into copy --compare /usr/include");
}

int run(int argc, char** argv) {
  CLI::App app("Pulls a directory tree out of another process's memory, with cordma.",
               "cordma-demo");
  options o;
  declare(app, o);
  if (const std::optional<int> ended = support::parse(app, argc, argv)) return *ended;
  const int code = app.got_subcommand("serve") ? serve(o) : pull(o);
  return support::finish_output("cordma-demo", code);
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) try {
  return demo::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "cordma-demo: %s\n", e.what());
  return 1;
}
