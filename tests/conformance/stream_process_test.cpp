// The close of a stream to a separate peer process that is stopped, and then continues or is
// killed.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cordma/net/stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

constexpr std::size_t bytes = 1000;

task<int> read_all(host& h, wire_to_peer& parent) {
  Listener listener = h.worker.listen(own_host() + ":0").value();
  parent.tell(std::to_string(listener.bound().port));
  ConnectionRequest request = co_await listener.next();
  Endpoint made = co_await request.accept();
  Stream stream = co_await Stream::open(h.context, std::move(made));
  parent.tell("open");
  static_cast<void>(parent.hear());
  std::vector<std::byte> in(bytes);
  co_await stream.read(in);
  if (!filled(in, 9)) co_return 2;
  const std::size_t end = co_await stream.read_some(in);
  if (end != 0) co_return 3;
  co_await stream.close();
  co_return 0;
}

int peer_life(wire_to_peer& parent) {
  host h;
  return h.worker.run(read_all(h, parent));
}

task<> close_it(Stream* of, bool* done, errc* code) {
  try {
    co_await of->close();
  } catch (const error& e) {
    *code = e.condition();
  }
  *done = true;
}

task<> close_while_it_is_stopped(host& h, child_process& peer, bool goes_on) {
  const std::string port = peer.wire().hear();
  Endpoint made = co_await h.worker.connect(own_host() + ":" + port);
  Stream stream = co_await Stream::open(h.context, std::move(made));
  while (!peer.wire().hear_now()) co_await yield();
  peer.stop_it();
  std::vector<std::byte> out(bytes);
  fill(out, 9);
  co_await stream.write(out);
  bool done = false;
  errc code = errc::ok;
  task_context& me = co_await this_task();
  scope beside(me);
  beside.spawn(close_it(&stream, &done, &code));
  for (int i = 0; i < 100; ++i) co_await yield();
  CHECK_FALSE(done);
  if (goes_on) {
    peer.wire().tell("read");
    peer.continue_it();
  } else {
    peer.kill();
  }
  co_await beside.join();
  CHECK((code == errc::ok) == goes_on);
}

}  // namespace

// An RDMA device receives and acknowledges the bytes, whatever its process does.
TEST_CASE("N3: bytes on their way to a stopped process are not there: closing waits for it" *
          not_on({transport::kind::sim, transport::kind::verbs},
                 "the simulator is one process, and a device takes bytes for a stopped one")) {
  for (const bool goes_on : {true, false}) {
    CAPTURE(goes_on);
    child_process peer(peer_life);
    host h;
    h.worker.run(close_while_it_is_stopped(h, peer, goes_on));
    if (goes_on) CHECK(peer.join() == 0);
  }
}
