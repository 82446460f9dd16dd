// Both ends of a stream between the two sides of a stage.
#pragma once

#include <support/stage.hpp>

#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <utility>

namespace cordma::test {

struct stream_pair {
  Stream client;
  Stream server;
};

inline task<> open_stream(Context context, Endpoint e, stream_options o, Stream* place) {
  *place = co_await Stream::open(context, std::move(e), o);
}

inline task<stream_pair> open_streams(stage& s, stream_options client = {},
                                      stream_options server = {}) {
  wire w = co_await connect(s);
  stream_pair p;
  task_context& me = co_await this_task();
  scope both(me);
  both.spawn(open_stream(s.client_context(), std::move(w.client), client, &p.client));
  both.spawn(open_stream(s.server_context(), std::move(w.server), server, &p.server));
  co_await both.join();
  co_return p;
}

}  // namespace cordma::test
