// Sessions: calls to either of two hosts. The hosts redirect to each other, by connections and by
// responses.
#include "program.hpp"

namespace cordma::schedule {

using namespace std::chrono_literals;

namespace {

task<> accept_all(world* w, session_at* s, std::size_t which) {
  host_at& at = *s->servers[which];
  while (!w->over) {
    result<ConnectionRequest> request = co_await s->listeners[which].next().result();
    if (!request || !at.messages) co_return;
    if (!w->calm && w->chance.below(8) == 0) {
      static_cast<void>(redirect(*request, s->addresses[1 - which]));
      continue;
    }
    co_await accept_one(w, &at, std::move(*request), &s->accepted);
  }
}

task<> converse(session_at* s, const asked_request* a, const lent_memory* lent,
                session_call_options o, std::size_t* bytes) {
  const std::uint16_t method = method_of(*a);
  if (a->how == manner::notify) {
    co_await s->session->notify(method, lent->request, o);
  } else if (a->how == manner::notify_acked) {
    co_await s->session->notify_acked(method, lent->request, o);
  } else {
    const Response got = co_await s->session->call(method, lent->request, lent->room, o);
    *bytes = got.bytes;
  }
}

// Returns the result of the call.
task<errc> ask(world* w, session_at* s, asked_request a) {
  if (a.how == manner::try_call) a.how = manner::call;
  asked_request& it = note(*w, std::move(a));
  const lent_memory lent = write_request(*w, *s->client_at, it);
  session_call_options o;
  if (it.timed) o.timeout = tick * (1 + w->chance.below(20'000));
  o.idempotent = it.repeatable;
  std::size_t bytes = 0;
  errc code = errc::ok;
  try {
    task<> talk = converse(s, &it, &lent, o, &bytes);
    if (it.withdrawn) {
      const duration time = tick * w->chance.below(5000);
      co_await stopped_after(w, it.number, time, std::move(talk));
    } else {
      co_await std::move(talk);
    }
  } catch (const error& e) {
    code = e.condition();
  }
  if (!w->over) settle_request(*w, it, code, bytes, lent);
  co_return code;
}

task<> ask_often(world* w, session_at* s) {
  const std::uint64_t count = w->chance.below(20);
  // With no server left each attempt takes the maximum time, and all of them too long.
  const auto there = [](const host_at* h) { return h->alive && !h->stopped; };
  const auto some_live = [s, there] {
    return s->client_at->alive && (there(s->servers[0]) || there(s->servers[1]));
  };
  for (std::uint64_t i = 0; i < count && some_live() && !w->over; ++i) {
    asked_request a = random_request(*w);
    a.elsewhere = s->addresses[w->chance.below(2)];
    a.repeatable = w->chance.below(2) == 0;
    a.withdrawn = w->chance.below(8) == 0;
    const errc end = co_await ask(w, s, std::move(a));
    static_cast<void>(end);
    co_await sleep_for(tick * w->chance.below(2000));
  }
}

}  // namespace

void make_session(world& w) {
  test::dice& d = w.chance;
  session_at& s = w.sessions.emplace_back();
  s.number = w.sessions.size() - 1;
  s.client_at = &w.hosts[d.below(w.hosts.size())];
  s.client_at->needed = true;
  for (std::size_t i = 0; i < s.servers.size(); ++i) {
    s.servers[i] = &w.hosts[d.below(w.hosts.size())];
    s.listeners[i] = s.servers[i]->worker->listen(s.servers[i]->name + ":0").value();
    s.addresses[i] = s.listeners[i].bound().text();
  }
  session_options o;
  o.endpoint = options_of(w, nullptr).endpoint;
  o.first_pause = 1ms;
  o.longest_pause = 20ms;
  o.seed = w.seed;
  host_at& from = *s.client_at;
  s.session.emplace(*from.worker, *from.messages, *from.requests,
                    std::vector<std::string>{s.addresses[0], s.addresses[1]}, o);
  ++w.sum->sessions;
}

task<> use_session(world* w, session_at* s) {
  for (std::size_t i = 0; i < s->servers.size(); ++i) w->receivers->spawn(accept_all(w, s, i));
  task_context& me = co_await this_task();
  scope callers(me);
  const std::uint64_t several = 1 + w->chance.below(3);
  for (std::uint64_t i = 0; i < several; ++i) callers.spawn(ask_often(w, s));
  co_await callers.join();
  while (!w->calm) co_await sleep_for(1ms);
  const auto serves = [](const host_at* h) { return h->alive && h->sound && !h->stopped; };
  const std::array<bool, 2> served{serves(s->servers[0]), serves(s->servers[1])};
  asked_request last;
  last.bytes = last.wanted = last.room = 4000;
  last.repeatable = true;
  if (!serves(s->client_at)) co_return;
  const errc end = co_await ask(w, s, std::move(last));
  // A server that was alive all the time: a host may be stopped during the call.
  const bool somebody =
      (served[0] && serves(s->servers[0])) || (served[1] && serves(s->servers[1]));
  if (somebody && !w->crowded && end != errc::ok)
    w->wrong("a session finds nobody: " + std::string(name(end)));
  w->sum->asked_again += s->session->counters().retries;
  co_await s->session->close();
}

}  // namespace cordma::schedule
