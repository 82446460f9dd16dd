#include "client.hpp"

#include "../protocol/auth.hpp"

#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>
#include <cordma/runtime/units.hpp>

#include <utility>
#include <vector>

namespace copy {

using cordma::task;

namespace {

// Returns the path with the trailing '/' of the user.
std::string as_given(const place& p) { return p.path + (p.ends_with_slash ? "/" : ""); }

std::vector<source> sources_of(const request& r) {
  std::vector<source> sources;
  for (const place& p : r.sources) {
    sources.push_back(source_of(as_given(p)));
    sources.back().is_stream = p.is_standard_stream();
  }
  if (!r.options.listed) return sources;
  if (r.listed.empty()) {
    sources.front().listed = std::string(1, '.');  // GCC 12 warns about the literal "."
    return sources;
  }
  std::vector<source> listed(r.listed.size(), sources.front());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    listed[i].called = listed[i].path + r.listed[i];
    listed[i].listed = r.listed[i];
  }
  return listed;
}

// Returns the names that the entries of a pull begin with. Empty if the contents of a directory are
// copied: every name is valid then.
std::vector<std::string> names_of(const std::vector<place>& sources) {
  std::vector<std::string> names;
  for (const place& p : sources) {
    const source s = source_of(as_given(p));
    if (s.contents || s.path.empty()) return {};
    names.push_back(s.path.substr(s.path.rfind('/') + 1));
  }
  return names;
}

bool has_stream(const request& r) noexcept {
  return r.sources.front().is_standard_stream() || r.target.is_standard_stream();
}

bool is_limited(const transfer_options& o) noexcept {
  return o.delete_others && o.most_deleted != transfer_options().most_deleted;
}

}  // namespace

client::client(cordma::Context& context, cordma::Worker& worker, const request& r,
               const tls_context* tls, observer& seen)
    : context_(context),
      worker_(worker),
      request_(r),
      tls_(tls),
      seen_(seen),
      policy_(r.reconnect) {}

void client::use_own(std::string address, std::string token) {
  own_address_ = std::move(address);
  own_token_ = std::move(token);
}

bool client::may_reconnect() const noexcept {
  return own_address_.empty() && request_.reconnect > cordma::duration::zero() &&
         !has_stream(request_);
}

task<outcome> client::run() {
  for (;;) {
    std::optional<outcome> done;
    cordma::duration pause{};
    try {
      outcome o = co_await session();
      done = std::move(o);
    } catch (const cordma::error& e) {
      pause = pause_after(e);
    }
    if (done) {
      if (!request_.options.dry_run) done->done = ledger_.total(done->done);
      co_return std::move(*done);
    }
    co_await cordma::sleep_for(pause);
  }
}

// Returns the pause before the next attempt. Throws if there is none.
cordma::duration client::pause_after(const cordma::error& e) {
  if (e.condition() == cordma::errc::canceled || stage_ == stage::first_connect) throw e;
  const bool is_final = !may_reconnect() || why_final(e) != nullptr;
  if (is_final || !is_transient(e.why(), stage_)) give_up(e);
  ledger_.end_connection();
  stage_ = stage::reconnect;
  const cordma::time_point now = worker_.loop().now();
  const reconnect_policy::verdict v = policy_.failed(now, ledger_.durable());
  if (v.is_new) first_ = e;
  if (!v.goes_on) give_up(e);
  if (v.is_new) seen_.lost(e.what());
  return v.pause;
}

// Returns the reason why a transfer with these options cannot be resumed after a transient error;
// null if it can.
const char* client::why_final(const cordma::error& e) const noexcept {
  if (!own_address_.empty() || request_.reconnect <= cordma::duration::zero()) return nullptr;
  if (!is_transient(e.why(), stage::transfer)) return nullptr;
  if (has_stream(request_)) {
    return "no reconnect: standard input and output cannot be resumed";
  }
  if (is_limited(request_.options) && ledger_.may_be_deleting()) {
    return "no reconnect: how much was deleted is not known, and --max-delete might not "
           "hold";
  }
  return nullptr;
}

// Throws the final error: `last`, or the first cause and the number of attempts since then.
void client::give_up(const cordma::error& last) const {
  if (const char* const why = why_final(last); why != nullptr) {
    throw lost_connection(last.why(), std::string(last.what()) + "; " + why);
  }
  const bool is_final = !is_transient(last.why(), stage_);
  if (!first_ || !may_reconnect() || (is_final && stage_ != stage::reconnect)) throw last;
  const std::string first = first_->what();
  if (is_final) {
    throw lost_connection(last.why(),
                          std::string(last.what()) + "; the connection was lost before: " + first);
  }
  throw lost_connection(
      first_->why(), first + "; no progress for " + cordma::format_duration(request_.reconnect) +
                         ", and " + std::to_string(policy_.attempts()) +
                         " attempts to reconnect, the last of which failed with: " + last.what());
}

hello client::what_to_ask() const {
  hello h;
  h.options = request_.options;
  h.options.acknowledge = may_reconnect() && !is_pull();
  h.rules = request_.rules;
  h.lanes = request_.lanes;
  h.random = random_nonce();
  if (may_reconnect()) h.transfer = transfer_;
  if (is_pull()) {
    h.way = direction::pull;
    h.module = request_.sources.front().module;
    for (const place& p : request_.sources) h.paths.push_back(as_given(p));
    h.paths.insert(h.paths.end(), request_.listed.begin(), request_.listed.end());
  } else {
    h.way = direction::push;
    h.module = request_.target.module;
    h.paths = {as_given(request_.target)};
  }
  return h;
}

task<outcome> client::session() {
  const bool is_own = !own_address_.empty();
  const place& there = is_pull() ? request_.sources.front() : request_.target;
  std::string address = is_own ? own_address_ : there.address();
  std::string token = is_own ? own_token_ : request_.token;
  hello asked = what_to_ask();
  const transfer_options options = asked.options;
  const cordma::duration longest = policy_.time_to_connect(worker_.loop().now());
  task<connection> connecting = connect(context_, worker_, std::move(address), std::move(asked),
                                        std::move(token), request_.transport, tls_);
  connection c = co_await cordma::with_timeout(longest, std::move(connecting));
  begin_connection(c);
  if (is_pull()) {
    outcome o = co_await pull(&c, options);
    co_return o;
  }
  outcome o = co_await push(&c.ways, options);
  co_return o;
}

// Each session lists the sources again.
void client::begin_connection(const connection& c) {
  stage_ = stage::transfer;
  progress& p = seen_.counted;
  p.all_found = false;
  for (auto* const n : {&p.files_found, &p.bytes_found, &p.files_done, &p.bytes_done}) *n = 0;
  seen_.connected(c);
}

// Sends local files.
task<outcome> client::push(lanes* ways, transfer_options options) {
  std::vector<source> sources = sources_of(request_);
  ledger* const noted = may_reconnect() ? &ledger_ : nullptr;
  outcome o = co_await send_all(context_, worker_, *ways, std::move(sources), request_.rules,
                                options, seen_.counted, seen_.tell, request_.flip_every, noted);
  co_return o;
}

// Receives into a local target.
task<outcome> client::pull(connection* c, transfer_options options) {
  const bool output = request_.target.is_standard_stream();
  destination where = output
                          ? to_output()
                          : choose(request_.target.path,
                                   request_.options.directory && !c->single_file, c->single_file);
  where.asked = named_sources{names_of(request_.sources), request_.listed};
  ledger* const noted = may_reconnect() ? &ledger_ : nullptr;
  outcome o = co_await receive_all(context_, worker_, c->ways, std::move(where), request_.rules,
                                   options, seen_.counted, seen_.tell, noted);
  co_return o;
}

}  // namespace copy
