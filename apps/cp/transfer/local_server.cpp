#include "local_server.hpp"

#include "work.hpp"

#include <cordma/runtime/stop.hpp>

#include <future>

namespace copy {
namespace {

cordma::task<void> serve_one(cordma::Context& context, cordma::Worker& worker,
                             cordma::Listener& listener, const module& everything,
                             std::string& why) {
  server::handlers h;
  h.find = [&](const std::string& name, const std::string&) {
    return name.empty() ? &everything : nullptr;
  };
  h.look = examine_request;
  h.carry = [&](client_request r, lanes& ways) {
    return carry_out_request(context, worker, std::move(r), ways);
  };
  h.log = [&why](const std::string&, const std::string& what) { why = what; };
  server s(context, std::move(h));
  co_await s.serve(listener, 1);
}

}  // namespace

local_server::local_server(cordma::Context& context, const cordma::reactor_options& waiting) {
  const nonce secret = random_nonce();
  token_.assign(reinterpret_cast<const char*>(secret.data()), secret.size());
  std::promise<std::string> listening;
  std::future<std::string> where = listening.get_future();
  thread_ = std::thread([this, &context, waiting, &listening, token = token_,
                         stop = stop_.get_token()]() mutable {
    std::promise<std::string> told = std::move(listening);
    try {
      cordma::Worker worker(context, waiting);
      const std::string at = context.own_host(context.transports().front().transport) + ":0";
      cordma::Listener listener = worker.listen(at).value();
      module everything;
      everything.token = token;
      everything.read_only = false;
      told.set_value(listener.bound().text());
      worker.run(cordma::with_stop(stop, serve_one(context, worker, listener, everything, why_)));
    } catch (const cordma::error& e) {
      if (e.condition() != cordma::errc::canceled) {
        try {
          told.set_exception(std::current_exception());
        } catch (const std::future_error&) {}  // its client sees the end of the connection
      }
    }
  });
  try {
    address_ = where.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

const std::string& local_server::end() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
  return why_;
}

local_server::~local_server() { [[maybe_unused]] const std::string& why = end(); }

}  // namespace copy
