// Every call in every state of its object, against one table. lint.lifecycle compares the table
// with the headers: a new call in a header fails until it has a row here.
#include <doctest/doctest.h>
#include <support/stage.hpp>
#include <support/stream_pair.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>

using namespace cordma;
using namespace cordma::test;

namespace {

enum class state {
  fresh,       // created, and not usable yet: without its peer's descriptor, empty
  open,        // in use
  closing,     // close() has begun
  closed,      // closed by this side; answered, deregistered, or all on loan
  ended,       // ended by the peer
  orphan,      // its Worker was destroyed
  on_its_way,  // a connection was requested, and the request is not answered yet
};
constexpr std::array<std::string_view, 7> state_names{"fresh", "open",   "closing",   "closed",
                                                      "ended", "orphan", "on its way"};

// One object of each class. The setup of the tested class puts its object into the state `in`.
struct ground {
  stage& on;
  state in;
  MemoryRegion local = client_memory(on, 64);
  MemoryRegion target = server_memory(on, 64);
  RemoteMemory remote = exported(target);
  RemoteSlice word = remote.slice(0, 8).value();
  BufferPool pool{on.client_context(), 64, 8};
  Endpoint e = {};
  Endpoint peer = {};
  std::optional<recv_operation> receiving = {};
  std::optional<state_operation> closing = {};
  Listener listener = {};
  ConnectionRequest request = {};
  std::optional<connect_operation> connecting = {};
  MemoryRegion region = {};
  std::optional<BufferPool> scarce = {};
  std::vector<Buffer> taken = {};
  DatagramEndpoint port = {};
  datagram_peer self = {};
  std::optional<SharedReceive> shared = {};
  std::optional<SyncEvent> event = {};
  MemoryWindow window = {};
  std::unique_ptr<Messages> messages = {};
  std::unique_ptr<Messages> peer_messages = {};
  std::unique_ptr<Requests> requests = {};
  std::unique_ptr<Requests> peer_requests = {};
  Stream stream = {};
  Stream peer_stream = {};
};

using setup = task<bool> (*)(ground&);  // false: this transport has no such object

task<bool> endpoint_in(ground& g) {
  if (g.in == state::fresh) {
    g.e = g.on.client().prepare().value();
    co_return true;
  }
  if (g.in == state::on_its_way) {
    g.listener = g.on.server().listen(g.on.server_address()).value();
    g.e = g.on.client().endpoint(g.on.reach(g.listener)).value();
    g.request = co_await g.listener.next();  // it arrived, and is not answered
    co_return true;
  }
  wire w = co_await connect(g.on);
  g.e = std::move(w.client);
  g.peer = std::move(w.server);
  g.receiving.emplace(g.peer.recv(g.target).start());
  if (g.in == state::closing) g.closing.emplace(g.e.close().start());
  if (g.in == state::closed) co_await g.e.close();
  if (g.in == state::ended) {
    g.peer = Endpoint();
    while (g.e.state() != endpoint_state::closed) co_await g.e.state_changed();
  }
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

// With a memory window of the peer, for the client to invalidate.
task<bool> windowed_in(ground& g) {
  if (!g.on.caps().supports(transport::service::rc, transport::opcode::bind)) co_return false;
  co_await endpoint_in(g);
  if (g.in != state::open) co_return true;
  MemoryRegion region = server_memory(g.on, 64, every_right | access::mw_bind);
  g.window = co_await g.peer.bind(region, 0, 8, access::remote_read);
  co_return true;
}

task<bool> window_in(ground& g) {
  if (!g.on.caps().supports(transport::service::rc, transport::opcode::bind)) co_return false;
  if (g.in == state::fresh) co_return true;
  wire w = co_await connect(g.on);
  g.e = std::move(w.client);
  MemoryRegion region = client_memory(g.on, 64, every_right | access::mw_bind);
  g.window = co_await g.e.bind(region, 0, 8, access::remote_read);
  if (g.in == state::closed) g.window.release().value();
  if (g.in == state::ended) co_await g.e.close();
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

RemoteSlice to_invalidate(const ground& g) {
  if (!g.window) return g.remote;
  return RemoteMemory::import(g.window.export_blob().value()).value();
}

task<bool> listener_in(ground& g) {
  g.listener = g.on.server().listen(g.on.server_address()).value();
  if (g.in == state::closed) g.listener.close();
  if (g.in == state::orphan) g.on.drop_server();
  co_return true;
}

task<bool> request_in(ground& g) {
  g.listener = g.on.server().listen(g.on.server_address()).value();
  g.connecting.emplace(g.on.client().connect(g.on.reach(g.listener)).start());
  g.request = co_await g.listener.next();
  if (g.in == state::closed) g.request.reject().value();
  if (g.in == state::orphan) g.on.drop_server();
  co_return true;
}

task<bool> region_in(ground& g) {
  if (g.in != state::fresh) g.region = client_memory(g.on, 64);
  if (g.in == state::closed) g.region.deregister().value();
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

task<bool> pool_in(ground& g) {
  g.scarce.emplace(g.on.client_context(), 64, 1);
  if (g.in == state::closed) g.taken.push_back(g.scarce->take().value());
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

task<bool> port_in(ground& g) {
  result<DatagramEndpoint> made = g.on.client().datagram();
  CHECK(made.code() == (g.on.caps().max_datagram != 0 ? errc::ok : errc::not_supported));
  if (!made) co_return false;
  g.port = std::move(*made);
  g.self = g.port.self().value();
  if (g.in == state::closing) g.closing.emplace(g.port.close().start());
  if (g.in == state::closed) co_await g.port.close();
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

task<bool> shared_in(ground& g) {
  const state wanted = std::exchange(g.in, state::open);
  co_await endpoint_in(g);
  g.in = wanted;
  g.shared.emplace(g.on.client(), g.pool, 1);
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

// Connects for messages, and enters the requested state.
task<> converse(ground& g) {
  if (g.in == state::fresh) {
    g.e = g.on.client().prepare({}, {}, g.messages.get()).value();
    co_return;
  }
  g.listener = g.on.server().listen(g.on.server_address()).value();
  connect_options to;
  to.messages = g.messages.get();
  if (g.in == state::on_its_way) {
    g.e = g.on.client().endpoint(g.on.reach(g.listener), to).value();
    g.request = co_await g.listener.next();
    co_return;
  }
  connect_options from;
  from.messages = g.peer_messages.get();
  wire w = co_await connect(g.on.client(), g.listener, g.on.reach(g.listener), to, from);
  g.e = std::move(w.client);
  g.peer = std::move(w.server);
  const MemoryRegion long_one = client_memory(g.on, 200'000);
  // no receive matches it; a close would wait for that
  std::optional<message_send_operation> announced;
  if (g.in != state::closing) announced.emplace(g.e.tag_send(1, long_one).start());
  if (g.in == state::closing) g.closing.emplace(g.e.close().start());
  if (g.in == state::closed) g.e.abort();
  if (g.in == state::ended) {
    g.peer = Endpoint();
    while (g.e.state() != endpoint_state::closed) co_await g.e.state_changed();
  }
  if (g.in == state::orphan) g.on.drop_client();
}

task<bool> messaging_in(ground& g) {
  g.messages = std::make_unique<Messages>(g.on.client());
  g.peer_messages = std::make_unique<Messages>(g.on.server());
  co_await converse(g);
  co_return true;
}

task<> drop(ActiveMessage) { co_return; }

task<> answer(Request r) {
  if (r.wants_response()) co_await r.respond();
}

task<bool> requesting_in(ground& g) {
  g.messages = std::make_unique<Messages>(g.on.client());
  g.peer_messages = std::make_unique<Messages>(g.on.server());
  g.requests = std::make_unique<Requests>(*g.messages);
  g.peer_requests = std::make_unique<Requests>(*g.peer_messages);
  g.peer_requests->serve(1, answer);
  co_await converse(g);
  co_return true;
}

// A stream with sixteen bytes to read.
task<bool> stream_in(ground& g) {
  stream_pair opened = co_await open_streams(g.on);
  g.stream = std::move(opened.client);
  g.peer_stream = std::move(opened.server);
  co_await g.peer_stream.write(g.target.bytes().first(16));
  while (g.stream.peek().size() != 16) co_await moment(g.on);
  if (g.in == state::closing) g.stream.shutdown_send().value();
  if (g.in == state::closed) co_await g.stream.close();
  if (g.in == state::ended) {
    g.peer_stream = Stream();
    while (g.stream.endpoint().state() != endpoint_state::closed) {
      co_await g.stream.endpoint().state_changed();
    }
    while (g.stream.endpoint().inflight() != 0) co_await moment(g.on);
    co_await moment(g.on);  // its last receive has reported the end
  }
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

task<bool> drained_in(ground& g) {
  co_await stream_in(g);
  g.stream.consume(g.stream.peek().size());
  co_return true;
}

task<> open_without_room(ground& g) {
  stream_options o;
  o.window_bytes = 0;
  g.stream = co_await Stream::open(g.on.client_context(), std::move(g.e), o);
}

task<bool> event_in(ground& g) {
  sync_event_options o;
  o.publisher = sync_location::cpu;
  o.subscriber = sync_location::remote;
  g.event.emplace(g.on.client_context(), o);
  if (g.in != state::fresh) g.event->start(g.on.client()).value();
  if (g.in == state::closed) g.event->stop().value();
  if (g.in == state::orphan) g.on.drop_client();
  co_return true;
}

task<bool> worker_in(ground& g) {
  if (g.in == state::orphan) g.on.drop_contexts();
  co_return true;
}

result<void> run_inside(Worker& w) {
  try {
    w.run([]() -> task<> { co_return; }());
  } catch (const error& e) {
    return e.why();
  }
  return {};
}

result<void> datagram_as_said(ground& g) {
  const errc code = g.on.client().datagram().code();
  const bool has = g.on.caps().max_datagram != 0;
  return code == (has ? errc::ok : errc::not_supported) ? errc::ok : code;
}

// Calls that need a device and its library fail with not_supported without one.
result<void> as_said(const ground& g, errc code) {
  const bool has = g.on.over() == transport::kind::verbs;
  return code == (has ? errc::ok : errc::not_supported) ? errc::ok : code;
}

// Nothing was read yet; transports other than shm have no views.
result<void> view_as_said(const ground& g) {
  const errc code = g.e.view(g.remote).code();
  const errc expected = g.on.over() == transport::kind::shm ? errc::bad_state : errc::not_supported;
  return code == expected ? errc::ok : code;
}

// rdma_cm looks up ports; this port does not have the key that it needs.
result<void> port_as_said(const ground& g, errc code, errc found) {
  const errc expected = g.on.over() == transport::kind::verbs ? found : errc::not_supported;
  return code == expected ? errc::ok : code;
}

result<void> resolve_as_said(ground& g) {
  resolve_operation op = g.port.resolve(own_host() + ":9").start();
  return port_as_said(g, op.done() ? op.take_result().code() : errc::ok, errc::ok);
}

// No event is passed: an adopting call detects that.
result<void> adopt_as_said(ground& g) {
  const errc code = g.on.client().adopt(nullptr).code();
  return as_said(g, code == errc::invalid_value ? errc::ok : code);
}

result<void> device_event_as_said(ground& g) {
  device_event_operation op = g.on.client().next_device_event().start();
  return as_said(g, op.done() ? op.take_result().code() : errc::ok);
}

result<void> on_device_as_said(ground& g) {
  BufferPool pool(g.on.client_context(), 64, 4);
  return as_said(g, SharedReceive::on_device(g.on.client(), pool, {.depth = 4}).code());
}

// "waits": the operation is not done while no object acts.
task<std::string> outcome(ground& g, std::string_view expected, operation_base& op) {
  if (expected == "waits") {
    for (int i = 0; i < 20; ++i) co_await moment(g.on);
  } else {
    while (!op.done()) co_await moment(g.on);
  }
  co_return op.done() ? "" : "waits";
}

task<std::string> outcome(task<> of) {
  std::string code = "ok";
  try {
    co_await std::move(of);
  } catch (const error& e) {
    code = name(e.why().code());
  }
  co_return code;
}

template <class Call>
task<std::string> attempt(ground& g, std::string_view expected) {
  using returned = decltype(Call()(g));
  if constexpr (std::is_void_v<returned>) {
    Call()(g);
    co_return "ok";
  } else if constexpr (std::is_base_of_v<operation_base, returned>) {
    returned op = Call()(g);
    op.start();
    std::string waited = co_await outcome(g, expected, op);
    if (waited.empty()) waited = name(op.take_result().code());
    co_return waited;
  } else if constexpr (std::is_same_v<returned, task<>>) {
    co_return co_await outcome(Call()(g));
  } else if constexpr (requires(returned r) { r.code(); }) {
    co_return std::string(name(Call()(g).code()));
  } else {
    static_cast<void>(Call()(g));
    co_return "ok";
  }
}

struct row {
  std::string_view method;
  setup prepare;
  task<std::string> (*attempt)(ground&, std::string_view expected);
  // fresh, open, closing, closed, ended, orphan, on its way; "": no such state exists.
  std::array<std::string_view, 7> expected;
};

template <class Call>
constexpr row cell(std::string_view method, setup prepare, Call,
                   std::array<std::string_view, 7> expected) {
  return {method, prepare, &attempt<Call>, expected};
}

using g_ = ground;
constexpr auto all_zero_descriptor = [] { return std::array<std::byte, 16>{}; }();
constexpr std::string_view ok = "ok", waits = "waits", gone = "not_connected", cut = "flushed",
                           down = "shutdown", bad = "bad_state", none = "",
                           aborted = "connection_aborted", invalid = "invalid_value",
                           missing = "not_found", empty = "no_memory", unable = "not_supported",
                           later = "again", reset = "connection_reset";

const std::array table{
    // clang-format off
    //                                                                                                          fresh  open   closing closed ended  orphan on its way
    cell("Endpoint.send", endpoint_in, [](g_& g) { return g.e.send(g.local); },                                 {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.send", endpoint_in, [](g_& g) { return g.e.send(g.pool.take().value(), 8); },                {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.send_imm", endpoint_in, [](g_& g) { return g.e.send_imm(g.local, 1); },                      {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.send_inline", endpoint_in, [](g_& g) { return g.e.send_inline(g.local.bytes().first(8)); },  {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.recv", endpoint_in, [](g_& g) { return g.e.recv(g.local); },                                 {waits, waits, gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.recv", endpoint_in, [](g_& g) { return g.e.recv(g.pool); },                                  {waits, waits, gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.publish_receives", endpoint_in, [](g_& g) { return g.e.publish_receives(g.local); },         {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.write", endpoint_in, [](g_& g) { return g.e.write(g.remote, g.local); },                     {waits, ok,    gone,  gone,  cut,   down,  gone}),
    cell("Endpoint.write_imm", endpoint_in, [](g_& g) { return g.e.write_imm(g.remote, g.local, 1); },          {waits, ok,    gone,  gone,  cut,   down,  gone}),
    cell("Endpoint.read", endpoint_in, [](g_& g) { return g.e.read(g.remote, g.local); },                       {waits, ok,    gone,  gone,  cut,   down,  gone}),
    cell("Endpoint.view", endpoint_in, [](g_& g) { return view_as_said(g); },                                   {ok,    ok,    ok,    ok,    ok,   gone,  gone}),
    cell("Endpoint.fetch_add", endpoint_in, [](g_& g) { return g.e.fetch_add(g.word, 1); },                     {waits, ok,    gone,  gone,  cut,   down,  gone}),
    cell("Endpoint.compare_swap", endpoint_in, [](g_& g) { return g.e.compare_swap(g.word, 0, 1); },            {waits, ok,    gone,  gone,  cut,   down,  gone}),
    cell("Endpoint.bind", windowed_in, [](g_& g) { return g.e.bind(client_memory(g.on, 8, every_right | access::mw_bind), 0, 8, access::remote_read); }, {waits, ok, gone, gone, cut, down, gone}),
    cell("Endpoint.send_invalidate", windowed_in, [](g_& g) { return g.e.send_invalidate(g.local, to_invalidate(g)); }, {waits, ok, gone, gone, cut, down, gone}),
    cell("Endpoint.fence", endpoint_in, [](g_& g) { g.e.fence(); },                                             {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.flush", endpoint_in, [](g_& g) { return g.e.flush(); },                                      {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.batch", endpoint_in, [](g_& g) { const Endpoint::Batch b = g.e.batch(); },                   {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.descriptor", endpoint_in, [](g_& g) { return g.e.descriptor(); },                            {ok,    bad,   bad,   bad,   bad,   bad,   bad}),
    cell("Endpoint.connect", endpoint_in, [](g_& g) { return g.e.connect(all_zero_descriptor); },               {aborted, bad, bad,   bad,   bad,   bad,   bad}),
    cell("Endpoint.close", endpoint_in, [](g_& g) { return g.e.close(); },                                      {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.abort", endpoint_in, [](g_& g) { g.e.abort(); },                                             {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.state_changed", endpoint_in, [](g_& g) { return g.e.state_changed(); },                      {waits, waits, ok,    ok,    ok,   ok,    waits}),
    cell("Endpoint.local_address", endpoint_in, [](g_& g) { return g.e.local_address(); },                      {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.peer_address", endpoint_in, [](g_& g) { return g.e.peer_address(); },                        {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.properties", endpoint_in, [](g_& g) { return g.e.properties(); },                            {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.debug_state", endpoint_in, [](g_& g) { return as_said(g, g.e.debug_state().code()); },       {ok,    ok,    ok,    ok,    ok,   gone,  gone}),
    cell("Endpoint.tag_send", messaging_in, [](g_& g) { return g.e.tag_send(2, g.local); },                     {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.tag_send", endpoint_in, [](g_& g) { return g.e.tag_send(2, g.local); },                      {unable, unable, unable, unable, unable, down, unable}),
    cell("Endpoint.tag_recv", messaging_in, [](g_& g) { return g.e.tag_recv(2, g.local); },                     {waits, waits, cut,   gone,  cut,   down,  waits}),
    cell("Endpoint.am_send", messaging_in, [](g_& g) { return g.e.am_send(2, g.local.bytes(), g.local); },      {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Endpoint.tag_probe", messaging_in, [](g_& g) { static_cast<void>(g.e.tag_probe(2)); },                {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Endpoint.tag_claim", messaging_in, [](g_& g) { static_cast<void>(g.e.tag_claim(2)); },                {ok,    ok,    ok,    ok,    ok,   ok,    ok}),
    cell("Messages.tag_recv", messaging_in, [](g_& g) { return g.messages->tag_recv(2, g.local); },             {waits, waits, waits, waits, waits, down,  waits}),
    cell("Messages.tag_probe", messaging_in, [](g_& g) { return g.messages->tag_probe(2); },                    {ok,    ok,    ok,    ok,    ok,    ok,    ok}),
    cell("Messages.tag_claim", messaging_in, [](g_& g) { return g.messages->tag_claim(2); },                    {ok,    ok,    ok,    ok,    ok,    ok,    ok}),
    cell("Messages.on", messaging_in, [](g_& g) { g.messages->on(1, drop); },                                   {ok,    ok,    ok,    ok,    ok,    ok,    ok}),
    cell("Requests.serve", requesting_in, [](g_& g) { g.requests->serve(1, answer); },                          {ok,    ok,    ok,    ok,    ok,    ok,    ok}),
    cell("Requests.call", requesting_in, [](g_& g) { return g.requests->call(g.e, 1, g.local, g.local); },      {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Requests.try_call", requesting_in, [](g_& g) { return g.requests->try_call(g.e, 1, g.local); },       {later, later, gone,  gone,  cut,   down,  later}),
    cell("Requests.notify", requesting_in, [](g_& g) { return g.requests->notify(g.e, 1, g.local); },           {waits, ok,    gone,  gone,  cut,   down,  waits}),
    cell("Requests.notify_acked", requesting_in, [](g_& g) { return g.requests->notify_acked(g.e, 1, g.local); }, {waits, ok,   gone,  gone,  cut,   down,  waits}),
    cell("Stream.open", endpoint_in, [](g_& g) { return open_without_room(g); },                                {invalid, invalid, invalid, invalid, invalid, invalid, invalid}),
    cell("Stream.read_some", stream_in, [](g_& g) { return g.stream.read_some(g.local.bytes()); },              {none,  ok,    ok,    ok,    ok,    down}),
    cell("Stream.read_some", drained_in, [](g_& g) { return g.stream.read_some(g.local.bytes()); },             {none,  waits, waits, gone,  reset, down}),
    cell("Stream.read", stream_in, [](g_& g) { return g.stream.read(g.local.bytes().first(8)); },               {none,  ok,    ok,    ok,    ok,    down}),
    cell("Stream.consume", stream_in, [](g_& g) { g.stream.consume(8); },                                       {none,  ok,    ok,    ok,    ok,    ok}),
    cell("Stream.write_some", stream_in, [](g_& g) { return g.stream.write_some(g.local.bytes()); },            {none,  ok,    gone,  gone,  reset, down}),
    cell("Stream.write",      stream_in, [](g_& g) { return g.stream.write(g.local.all()); },                   {none,  ok,    gone,  gone,  reset, down}),
    cell("Stream.write", stream_in, [](g_& g) { return g.stream.write(g.local.bytes()); },                      {none,  ok,    gone,  gone,  reset, down}),
    cell("Stream.map", stream_in, [](g_& g) { return g.stream.map(g.local); },                                  {none,  ok,    gone,  gone,  reset, down}),
    cell("Stream.write_at", stream_in, [](g_& g) { return g.stream.write_at(0, 0, g.local.all()); },            {none,  missing, gone, gone, reset, down}),
    cell("Stream.shutdown_send", stream_in, [](g_& g) { return g.stream.shutdown_send(); },                     {none,  ok,    ok,    ok,    reset, down}),
    cell("Stream.close", stream_in, [](g_& g) { return g.stream.close(); },                                     {none,  ok,    ok,    ok,    reset, down}),
    cell("Stream.endpoint", stream_in, [](g_& g) { return g.stream.endpoint().state(); },                       {none,  ok,    ok,    ok,    ok,    ok}),
    cell("Listener.next", listener_in, [](g_& g) { return g.listener.next(); },                                 {none,  waits, none,  down,  none,  down}),
    cell("Listener.bound_all", listener_in, [](g_& g) { static_cast<void>(g.listener.bound_all()); },           {none,  ok,    none,  ok,    none,  ok}),
    cell("Listener.close", listener_in, [](g_& g) { g.listener.close(); },                                      {none,  ok,    none,  ok,    none,  ok}),
    cell("ConnectionRequest.accept", request_in, [](g_& g) { return g.request.accept(); },                      {none,  ok,    none,  bad,   none,  down}),
    cell("ConnectionRequest.hand_over", request_in, [](g_& g) { return g.request.hand_over(g.on.client()); },   {none,  invalid, none, bad,  none,  down}),
    cell("ConnectionRequest.reject", request_in, [](g_& g) { return g.request.reject(); },                      {none,  ok,    none,  bad,   none,  down}),
    cell("MemoryRegion.slice", region_in, [](g_& g) { return g.region.slice(8, 8); },                           {invalid, ok,  none,  invalid, none, ok}),
    cell("MemoryRegion.export_blob", region_in, [](g_& g) { return g.region.export_blob(); },                   {bad,   ok,    none,  bad,   none,  ok}),
    cell("MemoryRegion.deregister", region_in, [](g_& g) { return g.region.deregister(); },                     {ok,    ok,    none,  ok,    none,  ok}),
    cell("MemoryRegion.native_mr", region_in, [](g_& g) { return g.region ? as_said(g, g.region.native_mr().code()) : g.region.native_mr().code(); }, {bad,   ok,    none,  bad,   none,  ok}),
    cell("MemoryWindow.export_blob", window_in, [](g_& g) { return g.window.export_blob(); },                   {bad,   ok,    none,  bad,   bad,   bad}),
    cell("MemoryWindow.release", window_in, [](g_& g) { return g.window.release(); },                           {ok,    ok,    none,  ok,    ok,    ok}),
    cell("BufferPool.take", pool_in, [](g_& g) { return g.scarce->take(); },                                    {none,  ok,    none,  empty, none,  ok}),
    cell("BufferPool.get", pool_in, [](g_& g) { return g.scarce->get(); },                                      {none,  ok,    none,  waits, none,  ok}),
    cell("BufferPool.available", pool_in, [](g_& g) { return g.scarce->available(); },                          {none,  ok,    none,  ok,    none,  ok}),
    cell("DatagramEndpoint.self", port_in, [](g_& g) { return g.port.self(); },                                 {none,  ok,    ok,    bad,   none,  bad}),
    cell("DatagramEndpoint.send_to", port_in, [](g_& g) { return g.port.send_to(g.self, g.local); },            {none,  ok,    gone,  gone,  none,  down}),
    cell("DatagramEndpoint.send_imm_to", port_in, [](g_& g) { return g.port.send_imm_to(g.self, g.local, 1); }, {none,  ok,    gone,  gone,  none,  down}),
    cell("DatagramEndpoint.recv_from", port_in, [](g_& g) { return g.port.recv_from(g.local); },                {none,  waits, gone,  gone,  none,  down}),
    cell("DatagramEndpoint.group", port_in, [](g_& g) { return g.port.group({"all", 0}); },                     {none,  ok,    ok,    bad,   none,  bad}),
    cell("DatagramEndpoint.join", port_in, [](g_& g) { return g.port.join({"all", 0}); },                       {none,  ok,    ok,    bad,   none,  bad}),
    cell("DatagramEndpoint.leave", port_in, [](g_& g) { return g.port.leave({"all", 0}); },                     {none,  missing, missing, bad, none, bad}),
    cell("DatagramEndpoint.bind", port_in, [](g_& g) { return port_as_said(g, g.port.bind(own_host() + ":0").code(), errc::invalid_value); }, {none,  ok,    ok,    bad,   none,  bad}),
    cell("DatagramEndpoint.resolve", port_in, [](g_& g) { return resolve_as_said(g); },                         {none,  ok,    gone,  gone,  none,  down}),
    cell("DatagramEndpoint.close", port_in, [](g_& g) { return g.port.close(); },                               {none,  ok,    ok,    ok,    none,  ok}),
    cell("SharedReceive.attach", shared_in, [](g_& g) { return g.shared->attach(g.e); },                        {none,  ok,    none,  none,  none,  invalid}),
    cell("SharedReceive.next", shared_in, [](g_& g) { return g.shared->next(); },                               {none,  waits, none,  none,  none,  waits}),
    cell("SharedReceive.low_watermark", shared_in, [](g_& g) { return g.shared->low_watermark(); },             {none,  unable, none, none,  none,  unable}),
    cell("SharedReceive.on_device", worker_in, [](g_& g) { return on_device_as_said(g); },                      {none,  ok,    none,  none,  none,  none}),
    cell("SyncEvent.start", event_in, [](g_& g) { return g.event->start(g.on.client()); },                     {ok,    bad,   none,  bad,   none,  none}),
    cell("SyncEvent.start_blocking", event_in, [](g_& g) { return g.event->start_blocking(); },                {ok,    bad,   none,  bad,   none,  bad}),
    cell("SyncEvent.stop", event_in, [](g_& g) { return g.event->stop(); },                                    {bad,   ok,    none,  ok,    none,  ok}),
    cell("SyncEvent.export_remote", event_in, [](g_& g) { return g.event->export_remote(); },                  {bad,   ok,    none,  bad,   none,  ok}),
    cell("SyncEvent.set", event_in, [](g_& g) { return g.event->set(0); },                                     {bad,   ok,    none,  bad,   none,  ok}),
    cell("SyncEvent.add", event_in, [](g_& g) { return g.event->add(1); },                                     {bad,   ok,    none,  bad,   none,  ok}),
    cell("SyncEvent.get", event_in, [](g_& g) { return g.event->get(); },                                      {bad,   ok,    none,  bad,   none,  ok}),
    cell("SyncEvent.wait", event_in, [](g_& g) { return g.event->wait({}); },                                  {bad,   waits, none,  bad,   none,  waits}),
    cell("SyncEvent.wait_gt", event_in, [](g_& g) { return g.event->wait_gt(0); },                             {bad,   waits, none,  bad,   none,  waits}),
    cell("SyncEvent.wait_eq", event_in, [](g_& g) { return g.event->wait_eq(1); },                             {bad,   waits, none,  bad,   none,  waits}),
    cell("SyncEvent.wait_ne", event_in, [](g_& g) { return g.event->wait_ne(0); },                             {bad,   waits, none,  bad,   none,  waits}),
    cell("SyncEvent.listen", event_in, [](g_& g) { static_cast<void>(g.event->listen(g.e)); },                 {ok,    ok,    none,  ok,    none,  ok}),
    cell("SyncEvent.look", event_in, [](g_& g) { g.event->look(); },                                           {ok,    ok,    none,  ok,    none,  ok}),
    cell("SyncEvent.waiting", event_in, [](g_& g) { return g.event->waiting(); },                              {ok,    ok,    none,  ok,    none,  ok}),
    cell("SyncEvent.blocking_set", event_in, [](g_& g) { return g.event->blocking_set(1); },                   {bad,   bad,   none,  bad,   none,  bad}),
    cell("SyncEvent.blocking_add", event_in, [](g_& g) { return g.event->blocking_add(1); },                   {bad,   bad,   none,  bad,   none,  bad}),
    cell("SyncEvent.blocking_get", event_in, [](g_& g) { return g.event->blocking_get(); },                    {bad,   bad,   none,  bad,   none,  bad}),
    cell("SyncEvent.blocking_wait", event_in, [](g_& g) { return g.event->blocking_wait({}, sync_wait::spin); }, {bad,   bad,   none,  bad,   none,  bad}),
    cell("Worker.loop", worker_in, [](g_& g) { return &g.on.client().loop(); },                                 {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.run", worker_in, [](g_& g) { return run_inside(g.on.client()); },                              {none,  bad,   none,  none,  none,  bad}),
    cell("Worker.poll", worker_in, [](g_& g) { return g.on.client().poll(); },                                  {none,  bad,   none,  none,  none,  bad}),
    cell("Worker.connect", worker_in, [](g_& g) { return g.on.client().connect("nonsense"); },                  {none,  invalid, none, none, none,  invalid}),
    cell("Worker.listen", worker_in, [](g_& g) { return g.on.server().listen(g.on.server_address()); },         {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.endpoint", worker_in, [](g_& g) { return g.on.client().endpoint("nonsense"); },                {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.prepare", worker_in, [](g_& g) { return g.on.client().prepare(); },                            {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.datagram", worker_in, [](g_& g) { return datagram_as_said(g); },                               {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.flush", worker_in, [](g_& g) { return g.on.client().flush(); },                    {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.copy", worker_in, [](g_& g) { return g.on.client().copy(g.local.all().first(8), g.local.all().part(8, 8)); }, {none, ok, none, none, none, ok}),
    cell("Worker.limit_endpoints", worker_in, [](g_& g) { g.on.client().limit_endpoints(1); },                  {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.adopt", worker_in, [](g_& g) { return adopt_as_said(g); },                                     {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.wake_for", worker_in, [](g_& g) { return as_said(g, g.on.client().wake_for(wake_reason::solicited).code()); }, {none, ok, none,  none,  none,  ok}),
    cell("Worker.next_device_event", worker_in, [](g_& g) { return device_event_as_said(g); },                  {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.post", worker_in, [](g_& g) { g.on.client().post([] {}); },                                    {none,  ok,    none,  none,  none,  ok}),
    cell("Worker.wake", worker_in, [](g_& g) { g.on.client().wake(); },                                         {none,  ok,    none,  none,  none,  ok}),
    cell("Context.allocate", worker_in, [](g_& g) { return g.on.client_context().allocate(8); },                {none,  ok,    none,  none,  none,  none}),
    cell("Context.register_memory", worker_in, [](g_& g) { return g.on.client_context().register_memory(g.local.bytes(), access::local_write); }, {none, ok, none, none, none, none}),
    cell("Context.transports", worker_in, [](g_& g) { return g.on.client_context().transports(); },             {none,  ok,    none,  none,  none,  none}),
    cell("Context.own_host", worker_in, [](g_& g) { return g.on.client_context().own_host(g.on.over()); },      {none,  ok,    none,  none,  none,  none}),
    cell("Context.require", worker_in, [](g_& g) { return as_said(g, g.on.client_context().require("solicited events").code()); }, {none, ok, none,  none,  none,  none}),
    cell("Context.native_pd", worker_in, [](g_& g) { return as_said(g, g.on.client_context().native_pd().code()); }, {none, ok, none,  none,  none,  none}),
    cell("Context.missing", worker_in, [](g_& g) { return g.on.client_context().missing(); },                   {none,  ok,    none,  none,  none,  none}),
    // clang-format on
};

}  // namespace

TEST_CASE("G1: every call of every class in every state does what the table says") {
  std::size_t cells = 0;
  for (const row& r : table) {
    for (std::size_t i = 0; i < r.expected.size(); ++i) {
      if (r.expected[i].empty()) continue;
      CAPTURE(r.method);
      CAPTURE(state_names[i]);
      stage s;
      s.play(
          [](stage& on, const row* cell, std::size_t in) -> task<> {
            ground g{.on = on, .in = static_cast<state>(in)};
            const bool there = co_await cell->prepare(g);
            if (!there) co_return;
            const std::string happened = co_await cell->attempt(g, cell->expected[in]);
            CHECK(happened == cell->expected[in]);
          },
          &r, i);
      ++cells;
    }
  }
  CHECK(cells > 220);
}
