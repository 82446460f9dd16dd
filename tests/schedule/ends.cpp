// Programs that end a connection, their Messages or their Worker during the traffic.
#include "program.hpp"

namespace cordma::schedule {

namespace {

task<> close_gracefully(world* w, link* l, Endpoint* mine) {
  const bool was_connected = mine->state() == endpoint_state::connected;
  ++w->sum->closed;
  co_await mine->close();
  if (mine->state() != endpoint_state::closed) w->wrong("closed, and it is not");
  const failure* const why = mine->first_cause();
  if (why == nullptr) co_return w->wrong("an end without a cause");
  l->gracefully = was_connected && why->code() == errc::not_connected;
}

// Clears the end of the link on one side, and no other link's.
void forget(link& l, bool client) {
  flow& out = l.flows[client ? 0 : 1];
  flow& in = l.flows[client ? 1 : 0];
  out.out = in.in = nullptr;
}

}  // namespace

bool ended_from(const flow& f) {
  const farewell how = f.of->ended;
  const bool from_client = &f == &f.of->flows[0];
  return (how == farewell::close || how == farewell::abort) && f.of->by_client == from_client;
}

bool closed_well(const link& l) {
  if (!l.gracefully || !l.connected || !l.client || !l.server) return false;
  for (const host_at* h : {l.client_at, l.server_at}) {
    if (!h->alive || !h->sound || h->stopped) return false;
  }
  const Endpoint& other = l.by_client ? l.server : l.client;
  const failure* const why = other.first_cause();
  return why != nullptr && why->code() == errc::not_connected;
}

task<> end_link(world* w, link* l) {
  const std::uint64_t most = w->chance.below(2) == 0 ? 1000 : 15'000;
  co_await sleep_for(tick * w->chance.below(most));
  const bool client = w->chance.below(2) == 0;
  Endpoint& mine = client ? l->client : l->server;
  if (w->over || !mine || mine.state() == endpoint_state::closed) co_return;
  l->by_client = client;
  switch (w->chance.below(4)) {
    case 0:
      l->ended = farewell::abort;
      ++w->sum->aborted;
      co_return mine.abort();
    case 1:
      l->ended = farewell::destroy;
      ++w->sum->destroyed;
      forget(*l, client);
      mine = Endpoint();
      co_return;
    default: l->ended = farewell::close; co_await close_gracefully(w, l, &mine);
  }
}

task<> stop_host(world* w, host_at* at) {
  co_await sleep_for(tick * w->chance.below(15'000));
  while (at->holds != 0 && !w->over) co_await sleep_for(tick * 10);
  if (w->over) co_return;
  ++w->sum->stopped;
  at->stopped = true;
  at->requests.reset();
  at->messages.reset();
  if (w->chance.below(2) == 0) co_return;
  ++w->sum->workers_gone;
  at->worker.reset();
}

}  // namespace cordma::schedule
