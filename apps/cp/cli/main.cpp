// cordma-cp: copies files and trees.
#include "../../support/environment.hpp"
#include "../../support/open_files.hpp"
#include "../../support/signals_of_errors.hpp"
#include "../../support/standard_descriptors.hpp"
#include "../../support/standard_output.hpp"
#include "../transfer/client.hpp"
#include "../transfer/local_server.hpp"
#include "options.hpp"
#include "report.hpp"

#include <cordma/runtime/dump_handler.hpp>

#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>

namespace copy {
namespace {

cordma::context_options only(const request& r) {
  cordma::context_options c;
  if (r.transport) c.transports = {*r.transport};
  return c;
}

// Both sides are in this process: if one reports only the end of the other, the other's reason is
// added.
outcome copy_here(cordma::Context& context, const cordma::reactor_options& waiting,
                  cordma::Worker& worker, client& ours, report& shown) {
  local_server other(context, waiting);
  ours.use_own(other.address(), other.token());
  try {
    return worker.run(shown.until_interrupted(ours.run()));
  } catch (const cordma::error& e) {
    if (e.condition() == cordma::errc::canceled) throw;
    if (e.condition() == cordma::errc::rejected) throw;  // the text contains the reason
    const std::string& why = other.end();
    if (why.empty()) throw;
    throw cordma::error({e.condition(), std::string(e.what()) + "; the writing side: " + why});
  }
}

int run(int argc, char** argv) {
  support::hold_standard_descriptors();
  support::ignore_signals_of_errors();
  cordma::install_dump_handler(SIGUSR1).value();  // reports of all reactors, on standard error
  report::block_interrupts();
  request r;
  if (const std::optional<int> ended = parse(argc, argv, r)) {
    return support::finish_output("cordma-cp", *ended);
  }
  std::optional<tls_context> trust;
  try {
    if (r.tls) trust.emplace(tls_context::client(r.trusted));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "cordma-cp: --tls-ca: %s\n", e.what());
    return static_cast<int>(exit_code::usage);
  }
  const tls_context* const tls = trust ? &*trust : nullptr;
  support::raise_open_file_limit();
  cordma::Context context(only(r));
  support::say_what_is_odd("cordma-cp", context);
  cordma::reactor_options waiting;
  waiting.mode = r.wait;
  cordma::Worker worker(context, waiting);
  report shown(r);
  observer seen{shown.counted(), shown.sink(),
                [&shown](const connection& c) { shown.connected(c); },
                [&shown](const std::string& why) { shown.lost(why); }};
  client ours(context, worker, r, tls, seen);
  try {
    if (r.is_local()) {
      shown.conclude(copy_here(context, waiting, worker, ours, shown));
    } else {
      shown.conclude(worker.run(shown.until_interrupted(ours.run())));
    }
  } catch (const std::exception& e) {
    shown.broke_off(e);
  }
  return support::finish_output("cordma-cp", shown.exit_with());
}

}  // namespace
}  // namespace copy

int main(int argc, char** argv) try {
  return copy::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "cordma-cp: %s\n", e.what());
  return 11;
}
