// A program that hangs: two coroutines wait for events that never happen. For the section "Find out
// what hangs" in README.md.
//
//   example-hangs                 hangs until it is killed; kill -USR1 prints where it waits
//   example-hangs --tasks 10000   with 10000 more waiting coroutines
#include <cordma/cordma.hpp>
#include <cordma/runtime/dump_handler.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/when_all.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

// No code sets this event.
cordma::task<void> wait_for_event(cordma::event* never_set) { co_await never_set->wait(); }

cordma::task<void> prepare(cordma::event* never_set) { co_await wait_for_event(never_set); }

// The peer sends nothing.
cordma::task<void> wait_for_message(cordma::Endpoint* peer, cordma::Slice into) {
  co_await peer->recv(into);
}

cordma::task<void> wait_alike(cordma::event* never_set, int tasks) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  for (int i = 0; i < tasks; ++i) all.spawn(wait_for_event(never_set));
  co_await all.join();
}

cordma::task<void> hang(cordma::Context* context, cordma::Worker* worker,
                        cordma::Listener* listener, int tasks) {
  cordma::Endpoint here = worker->endpoint(listener->bound().text()).value();
  cordma::ConnectionRequest request = co_await listener->next();
  cordma::Endpoint there = co_await request.accept();
  cordma::MemoryRegion memory = context->allocate(4096).value();
  cordma::event never_set;
  std::puts("hanging");
  std::fflush(stdout);
  co_await cordma::when_all(prepare(&never_set), wait_for_message(&there, memory.all()),
                            wait_alike(&never_set, tasks));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  int tasks = 0;
  if (words.size() == 2 && words[0] == "--tasks") {
    tasks = std::atoi(words[1].c_str());
  } else if (!words.empty()) {
    std::puts("example-hangs [--tasks N]; kill -USR1 prints where it waits");
    return words[0] == "--help" ? 0 : 2;
  }
  cordma::install_dump_handler(SIGUSR1).value();
  cordma::Context context;
  cordma::Worker worker(context);
  cordma::Listener listener = worker.listen("127.0.0.1:0").value();
  worker.run(hang(&context, &worker, &listener, tasks));
} catch (const std::exception& e) {
  std::fprintf(stderr, "example-hangs: %s\n", e.what());
  return 1;
}
