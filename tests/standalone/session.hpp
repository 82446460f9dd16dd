// A complete session on a stage, for tests in which a resource is missing, and its possible
// results.
#pragma once

#include <support/stage.hpp>

#include <cordma/runtime/sleep.hpp>

#include <array>
#include <stdexcept>
#include <string>

namespace cordma::test {

// Bytes: a message that is copied, and one that is fetched if the transport can fetch.
inline constexpr std::array<std::size_t, 2> session_sizes{8, 20'000};

// Like connect(), but ends when one side ends, so that it does not wait for a lost request. For
// transports in real time. Waits without allocating, so that all allocations belong to the library.
inline task<wire> connect_in_time(stage& on, connect_options to = {}, connect_options from = {}) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener), to).start();
  next_operation coming = listener.next().start();
  while (!coming.done() && !connecting.done()) co_await yield();
  if (!coming.done()) {
    Endpoint client = co_await connecting;
    throw std::logic_error("connected without a request");
  }
  ConnectionRequest request = co_await coming;
  Endpoint server = co_await request.accept(from);
  Endpoint client = co_await connecting;
  co_return wire(std::move(client), std::move(server));
}

inline task<> use(stage& on, wire* w) {
  MemoryRegion out = client_memory(on, session_sizes.back());
  MemoryRegion in = server_memory(on, session_sizes.back());
  const RemoteMemory remote = exported(in);
  for (const std::size_t size : session_sizes) {
    fill(out.bytes().first(size), size);
    recv_operation receiving = w->server.recv(in.all().first(size)).start();
    co_await w->client.send(out.all().first(size));
    co_await receiving;
    if (!filled(in.bytes().first(size), size)) throw std::logic_error("wrong bytes");
    co_await w->client.write(remote.slice(0, size).value(), out.all().first(size));
    co_await w->client.read(remote.slice(0, size).value(), out.all().first(size));
  }
  co_await w->client.fetch_add(remote.slice(0, 8).value(), 1);
  co_await w->client.flush();
}

inline task<> session(stage& on) {
  wire w = co_await connect_in_time(on);
  co_await use(on, &w);
  co_await w.client.close();
}

struct outcome {
  bool came = false;  // the injected failure occurred
  bool failed = false;
  bool memory = false;  // it was reported as missing memory
  bool loss = false;    // ... or as a lost connection
  std::string why;
};

// True if the peer of the failing side may report this: its connection was lost, or its message was
// refused.
inline bool is_loss(errc code) {
  return code == errc::connection_reset || code == errc::connection_aborted ||
         code == errc::not_connected || code == errc::rejected || code == errc::io_failed;
}

}  // namespace cordma::test
