// cordma-cp: copies files and trees.
#include "../support/environment.hpp"
#include "../support/open_files.hpp"
#include "../support/signals_of_errors.hpp"
#include "../support/standard_descriptors.hpp"
#include "../support/standard_output.hpp"
#include "local_server.hpp"
#include "options.hpp"
#include "report.hpp"
#include "work.hpp"

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

// As the user has put it, for whoever decides what is meant by a '/'.
std::string as_given(const place& p) { return p.path + (p.ends_with_slash ? "/" : ""); }

hello asked_for(const request& r) {
  hello h;
  h.options = r.options;
  h.rules = r.rules;
  h.lanes = r.lanes;
  h.random = random_nonce();
  return h;
}

std::vector<source> sources_of(const request& r) {
  std::vector<source> sources;
  for (const place& p : r.sources) {
    sources.push_back(source_of(as_given(p)));
    sources.back().is_stream = p.is_standard_stream();
  }
  if (!r.options.listed) return sources;
  if (r.listed.empty()) {
    sources.front().listed = std::string(1, '.');  // GCC 12 warns of the plain text
    return sources;
  }
  std::vector<source> listed(r.listed.size(), sources.front());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    listed[i].called = listed[i].path + r.listed[i];
    listed[i].listed = r.listed[i];
  }
  return listed;
}

// The files are here.
cordma::task<outcome> push(cordma::Context& context, cordma::Worker& worker, const request& r,
                           hello asked, std::string address, std::string token,
                           const tls_context* tls, report& shown) {
  asked.way = direction::push;
  connection c = co_await connect(context, worker, std::move(address), std::move(asked),
                                  std::move(token), r.transport, tls);
  shown.connected(c);
  std::vector<source> sources = sources_of(r);
  outcome o = co_await send_all(context, worker, c.ways, std::move(sources), r.rules, r.options,
                                shown.counted(), shown.sink(), r.flip_every);
  co_return o;
}

// What is asked for has one of these names; none where all that is in something may have any.
std::vector<std::string> names_of(const std::vector<place>& sources) {
  std::vector<std::string> names;
  for (const place& p : sources) {
    const source s = source_of(as_given(p));
    if (s.contents || s.path.empty()) return {};
    names.push_back(s.path.substr(s.path.rfind('/') + 1));
  }
  return names;
}

// The files are to be here.
cordma::task<outcome> pull(cordma::Context& context, cordma::Worker& worker, const request& r,
                           hello asked, const tls_context* tls, report& shown) {
  asked.way = direction::pull;
  asked.module = r.sources.front().module;
  for (const place& p : r.sources) asked.paths.push_back(as_given(p));
  asked.paths.insert(asked.paths.end(), r.listed.begin(), r.listed.end());
  std::string address = r.sources.front().address();
  std::string token = r.token;
  connection c = co_await connect(context, worker, std::move(address), std::move(asked),
                                  std::move(token), r.transport, tls);
  shown.connected(c);
  const bool output = r.target.is_standard_stream();
  destination where =
      output ? to_output()
             : choose(r.target.path, r.options.directory && !c.single_file, c.single_file);
  where.asked = named_sources{names_of(r.sources), r.listed};
  outcome o = co_await receive_all(context, worker, c.ways, std::move(where), r.rules, r.options,
                                   shown.counted(), shown.sink());
  co_return o;
}

// Both sides are here: what either says of the end of the other is worth nothing without that one's reason.
outcome copy_here(cordma::Context& context, const cordma::reactor_options& waiting,
                  cordma::Worker& worker, const request& r, hello asked, report& shown) {
  local_server other(context, waiting);
  asked.paths = {as_given(r.target)};
  try {
    return worker.run(shown.until_interrupted(push(
        context, worker, r, std::move(asked), other.address(), other.token(), nullptr, shown)));
  } catch (const cordma::error& e) {
    if (e.condition() == cordma::errc::canceled) throw;
    if (e.condition() == cordma::errc::rejected) throw;  // it says why
    const std::string& why = other.end();
    if (why.empty()) throw;
    throw cordma::error({e.condition(), std::string(e.what()) + "; the writing side: " + why});
  }
}

int run(int argc, char** argv) {
  support::hold_standard_descriptors();
  support::ignore_signals_of_errors();
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
  hello asked = asked_for(r);
  try {
    if (!r.sources.front().here()) {
      shown.conclude(worker.run(
          shown.until_interrupted(pull(context, worker, r, std::move(asked), tls, shown))));
    } else if (!r.target.here()) {
      asked.module = r.target.module;
      asked.paths = {as_given(r.target)};
      shown.conclude(worker.run(shown.until_interrupted(
          push(context, worker, r, std::move(asked), r.target.address(), r.token, tls, shown))));
    } else {
      shown.conclude(copy_here(context, waiting, worker, r, std::move(asked), shown));
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
