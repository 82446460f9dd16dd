// A program that only reacts: a change of state starts its work, and the end of the work closes the
// connection.
#include "skeleton/loopback.hpp"
#include "skeleton/sample.hpp"

#include <cordma/runtime/scope.hpp>

#include <cstdio>

namespace {

constexpr std::size_t operations = 16;

struct service {
  explicit service(sample::session& s)
      : near(s.worker.prepare().value()),
        far(s.worker.prepare().value()),
        work(s.context, operations) {}

  cordma::Endpoint near;
  cordma::Endpoint far;
  sample::blocks work;
  std::size_t done = 0;
};

// The last write to complete closes the connection.
cordma::task<void> write(service* all, std::size_t i) {
  co_await all->near.write(all->work.target(i), all->work.source(i));
  if (++all->done < operations) co_return;
  co_await all->near.flush();
  co_await all->near.close();
}

cordma::task<void> react(cordma::scope& reactions, service* all) {
  cordma::endpoint_state now = all->near.state();
  for (;;) {
    std::printf("%s\n", cordma::name(now).data());
    if (now == cordma::endpoint_state::closed) co_return;
    if (now == cordma::endpoint_state::connected) {
      for (std::size_t i = 0; i < operations; ++i) reactions.spawn(write(all, i));
    }
    now = co_await all->near.state_changed();
  }
}

cordma::task<void> serve(sample::session& s) {
  service all(s);
  // Starts the connection. From here on everything happens in response to events.
  sample::connect(all.near, all.far);
  co_await cordma::in_scope(react, &all);

  if (all.done < operations) cordma::throw_error(*all.near.first_cause());
  all.work.check_first(operations);
  std::printf("%zu writes are done\n", all.done);
}

}  // namespace

int main(int argc, char** argv) {
  return sample::run(
      {.name = "progress_reactive",
       .says = "Does 16 writes once it finds itself connected, closes once the last is\n"
               "done, and ends once it finds itself closed."},
      argc, argv, serve);
}
