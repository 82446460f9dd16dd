// A plugin: a shared object with the libraries inside, as language bindings and servers load them.
#include <cordma/cordma.hpp>
#include <cordma/runtime/when_all.hpp>

#include <chrono>
#include <string>

// 0 if a connection came up and went.
extern "C" int plugin_run() {
  using namespace cordma;
  try {
    Context context;
    Worker worker(context);
    Listener listener = worker.listen("127.0.0.1:0").value();
    Endpoint accepted;
    Endpoint made;
    worker.run(when_all(
        [](Listener* l, Endpoint* into) -> task<> {
          ConnectionRequest request = co_await l->next();
          *into = co_await request.accept();
        }(&listener, &accepted),
        [](Worker* w, std::string to, Endpoint* into) -> task<> {
          *into = co_await w->connect(to);
        }(&worker, listener.bound().text(), &made)));
    return 0;
  } catch (const error&) {
    return 1;
  }
}
