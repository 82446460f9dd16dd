// Several Contexts on one loop: a program that separates devices or tenants still runs on one
// thread.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cordma/runtime/when_all.hpp>

#include <cstdio>
#include <memory>

namespace {

constexpr std::size_t contexts = 4;
constexpr std::size_t operations = 16;  // in total

// Memory belongs to its Context, and so do the Worker's endpoints. The reactor is shared.
struct part {
  part(const cordma::context_options& how, cordma::reactor& loop)
      : context(how),
        worker(context, loop),
        connection(sample::connect_to_itself(worker)),
        work(context, operations / contexts) {}

  cordma::Context context;
  cordma::Worker worker;
  sample::loopback connection;
  sample::blocks work;
  std::size_t done = 0;
};

cordma::task<void> write(part* p) {
  for (std::size_t i = 0; i < p->work.count(); ++i) {
    co_await p->connection.near.write(p->work.target(i), p->work.source(i));
    ++p->done;
  }
  co_await p->connection.near.flush();
}

void run_all(sample::session& s) {
  cordma::reactor loop(s.given.reactor);
  std::vector<std::unique_ptr<part>> parts;
  std::vector<cordma::task<void>> writes;
  for (std::size_t i = 0; i < contexts; ++i) {
    parts.push_back(std::make_unique<part>(s.given.context, loop));
    writes.push_back(write(parts.back().get()));
  }
  cordma::run(loop, cordma::when_all(std::move(writes)));

  std::size_t all = 0;
  for (const std::unique_ptr<part>& p : parts) {
    p->work.check_first(p->work.count());
    std::printf("a context: %zu writes are done\n", p->done);
    all += p->done;
  }
  std::printf("%zu writes on %zu contexts, one thread and one loop\n", all, contexts);
  if (all != operations) sample::fail("expected 16");
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run({.name = "progress_multi_context",
                      .says = "Does 16 writes on four Contexts, whose Workers share one reactor."},
                     argc, argv, run_all);
}
