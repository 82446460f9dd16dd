// Pools: a host that sends to more peers than it has connections.
#include "program.hpp"

namespace cordma::schedule {

using namespace std::chrono_literals;

namespace {

task<> accept_all(world* w, pool_at* p, std::size_t which) {
  host_at& at = *p->flows[which].to;
  while (!w->over && at.messages) {
    result<ConnectionRequest> request = co_await p->listeners[which].next().result();
    if (!request || !at.messages) co_return;
    co_await accept_one(w, &at, std::move(*request), &p->accepted);
  }
}

task<> say_some(world* w, pool_at* p, EndpointPool::Loan loan, std::size_t which,
                std::uint64_t count) {
  flow& f = p->flows[which];
  const MemoryRegion room = memory(*w, *p->at, count * largest, access::remote_read);
  std::deque<pending_send> pending;
  {
    const EndpointPool::Loan mine(std::move(loan));
    if (p->pool->size() > p->most) w->wrong("a pool of more connections than it may have");
    for (std::uint64_t i = 0; i < count; ++i) {
      const Slice bytes = room.all().part(i * largest, std::min(random_length(*w), largest));
      start_message(*w, f, *mine, bytes, kinds::any_receive, pending);
      ++w->sum->pooled;
      if (w->chance.below(4) == 0) co_await sleep_for(tick * w->chance.below(100));
    }
    // otherwise it may be evicted while they are in flight
    const bool keeps = w->chance.below(2) == 0;
    if (keeps) co_await sleep_for(tick * w->chance.below(500));
  }
  while (!pending.empty()) {
    const result<void> end = co_await pending.front().op.result();
    settle(*w, f, pending.front(), end);
    pending.pop_front();
  }
}

// The loan is returned before the pool is destroyed.
task<> send_by_loan(world* w, pool_at* p, std::size_t which) {
  std::optional<EndpointPool::Loan> loan = p->pool->try_borrow(p->addresses[which]);
  if (!loan) {
    task<EndpointPool::Loan> borrowing = p->pool->borrow(p->addresses[which]);
    EndpointPool::Loan made = co_await std::move(borrowing);
    loan.emplace(std::move(made));
  }
  ++w->sum->borrowed;
  const std::uint64_t count = 1 + w->chance.below(4);
  task<> saying = say_some(w, p, std::move(*loan), which, count);
  loan.reset();
  co_await std::move(saying);
}

task<> send_to_some(world* w, pool_at* p, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count && p->at->alive && !w->over; ++i) {
    const std::size_t which = w->chance.below(p->flows.size());
    try {
      task<> sending = send_by_loan(w, p, which);
      if (w->chance.below(8) == 0) {
        const duration time = tick * w->chance.below(500);
        co_await stopped_after(w, p->number, time, std::move(sending));
      } else {
        co_await std::move(sending);
      }
    } catch (const error& e) {
      if (e.condition() == errc::canceled) ++w->sum->borrows_withdrawn;
    }
    if (w->chance.below(2) == 0) co_await sleep_for(tick * w->chance.below(500));
  }
}

// All hosts are well again, so each peer can be borrowed.
task<> send_to_each(world* w, pool_at* p) {
  for (std::size_t i = 0; i < p->flows.size(); ++i) {
    const host_at& to = *p->flows[i].to;
    std::string end;
    try {
      co_await send_by_loan(w, p, i);
    } catch (const error& e) {
      end = e.what();
    }
    const bool there = to.alive && to.sound && !to.stopped && p->at->sound && !w->crowded;
    if (!end.empty() && there && !w->over) w->wrong("a pool finds nobody: " + end);
  }
}

}  // namespace

void make_pool(world& w) {
  test::dice& d = w.chance;
  pool_at& p = w.pools.emplace_back();
  p.number = w.pools.size() - 1;
  p.at = &w.hosts[d.below(w.hosts.size())];
  p.at->needed = true;
  const std::size_t peers = std::min<std::size_t>(2 + d.below(8), w.hosts.size() * 2);
  for (std::size_t i = 0; i < peers; ++i) {
    host_at& to = w.hosts[d.below(w.hosts.size())];
    number(w, p.flows.emplace_back(), *p.at, to);
    p.listeners.push_back(to.worker->listen(to.name + ":0").value());
    p.addresses.push_back(p.listeners.back().bound().text());
  }
  p.most = static_cast<std::uint32_t>(1 + d.below(peers - 1));
  const endpoint_pool_options o{.most = p.most,
                                .connection = options_of(w, p.at->messages.get()),
                                .close_timeout = 5 * patience};
  p.pool.emplace(*p.at->worker, o);
  ++w.sum->pools;
}

task<> use_pool(world* w, pool_at* p) {
  for (std::size_t i = 0; i < p->flows.size(); ++i) w->receivers->spawn(accept_all(w, p, i));
  task_context& me = co_await this_task();
  scope senders(me);
  const std::uint64_t several = 1 + w->chance.below(4);
  for (std::uint64_t i = 0; i < several; ++i) {
    senders.spawn(send_to_some(w, p, w->chance.below(20)));
  }
  co_await senders.join();
  while (!w->calm) co_await sleep_for(1ms);
  if (p->at->alive) co_await send_to_each(w, p);
  co_await p->pool->close();
  if (p->pool->size() != 0) w->wrong("a closed pool that has connections");
  w->sum->evictions += p->pool->counters().evictions;
}

}  // namespace cordma::schedule
