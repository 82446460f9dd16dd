// A plugin: a shared object that contains the libraries, as language bindings and servers load
// them.
#include <cordma/cordma.hpp>
#include <cordma/runtime/when_all.hpp>

#include <chrono>
#include <string>

namespace {

using namespace cordma;

task<> accept_one(Listener* from, Endpoint* into) {
  ConnectionRequest request = co_await from->next();
  *into = co_await request.accept();
}

task<> connect_one(Worker* worker, std::string to, Endpoint* into) {
  *into = co_await worker->connect(to);
}

}  // namespace

// Returns 0 if a connection was established and closed.
extern "C" int plugin_run() {
  try {
    Context context;
    Worker worker(context);
    Listener listener = worker.listen("127.0.0.1:0").value();
    Endpoint accepted;
    Endpoint made;
    worker.run(when_all(accept_one(&listener, &accepted),
                        connect_one(&worker, listener.bound().text(), &made)));
    return 0;
  } catch (const error&) {
    return 1;
  }
}
