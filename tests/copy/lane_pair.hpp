// Both ends of a lane, with TLS or without.
#pragma once

#include "certificates.hpp"

#include "../../apps/cp/protocol/greeting.hpp"
#include "../../apps/cp/protocol/lane.hpp"

#include <support/stage.hpp>

#include <cordma/runtime/scope.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace copy::test {

enum class security { plain, tls };

struct lane_pair {
  std::unique_ptr<lane> client;
  std::unique_ptr<lane> server;
};

struct pair_options {
  security with = security::tls;
  const char* shows = "server";
  const char* trusts = "ca";
  const char* host = "localhost";
};
static_assert(std::is_trivially_destructible_v<pair_options>);

inline cordma::task<> open_end(cordma::Context context, cordma::Endpoint e,
                               std::unique_ptr<lane>* place) {
  *place = co_await open_lane(context, std::move(e));
}

inline cordma::task<> secure_server(lane* way, const tls_context* with) {
  co_await way->secure(std::make_unique<tls_channel>(*with));
}

inline cordma::task<> secure_client(lane* way, const tls_context* with, std::string host) {
  co_await way->secure(std::make_unique<tls_channel>(*with, std::move(host)));
}

// Throws the error of the end that failed first.
inline cordma::task<lane_pair> open_pair(cordma::test::stage& s, pair_options o = {}) {
  cordma::test::wire w = co_await cordma::test::connect(s);
  lane_pair p;
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope both(me);
  both.spawn(open_end(s.client_context(), std::move(w.client), &p.client));
  both.spawn(open_end(s.server_context(), std::move(w.server), &p.server));
  co_await both.join();
  if (o.with == security::plain) co_return p;
  const certificates& c = certificates::shared();
  const tls_context of_server = tls_context::server(c.of(o.shows), c.key_of(o.shows));
  const tls_context of_client = tls_context::client(c.of(o.trusts));
  both.spawn(secure_server(p.server.get(), &of_server));
  both.spawn(secure_client(p.client.get(), &of_client, o.host));
  co_await both.join();
  co_return p;
}

}  // namespace copy::test
