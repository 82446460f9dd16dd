// Every error code of cordma: a program that produces it, or the reason why nothing can. One table,
// walked completely.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/timeout.hpp>
#include <thread>

using namespace cordma;
using namespace cordma::test;
using transport::kind;
using transport::wc_status;

namespace {

task<errc> first_cause(Endpoint& e) {
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
  co_return e.first_cause()->first_cause().code();
}

task<errc> produce_ok(stage& on) {
  wire w = co_await connect(on);
  const result<void> r = co_await w.client.flush().result();
  co_return r.code();
}

task<errc> receive_into_fixed_memory(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion fixed = client_memory(on, 8, access::local_read);
  const result<Received> r = co_await w.client.recv(fixed).result();
  co_return r.code();
}

task<errc> listen_where_somebody_does(stage& on) {
  Listener first = on.server().listen(on.server_address()).value();
  co_return on.server().listen(on.server_address(first.bound().port)).code();
}

task<errc> name_a_transport_that_is_not_there(stage& on) {
  const kind absent = on.over() == kind::verbs ? kind::shm : kind::verbs;
  co_return on.client().prepare({}, absent).code();
}

task<errc> send_foreign_memory(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion foreign = server_memory(on, 8);
  const result<void> r = co_await w.client.send(foreign).result();
  co_return r.code();
}

task<errc> empty_a_pool(stage& on) {
  BufferPool pool(on.client_context(), 8, 1);
  const Buffer taken = pool.take().value();
  co_return pool.take().code();
}

task<errc> wait_no_longer(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  errc code = errc::ok;
  try {
    co_await with_timeout(std::chrono::microseconds(1), listener.next());
  } catch (const error& e) {
    code = e.condition();
  }
  co_return code;
}

task<errc> close_a_listener(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  next_operation waiting = listener.next().start();
  listener.close();
  const result<ConnectionRequest> r = co_await waiting.result();
  co_return r.code();
}

task<errc> lose_the_peer(stage& on) {
  wire w = co_await connect(on);
  w.server = Endpoint();
  const errc code = co_await first_cause(w.client);
  co_return code;
}

task<errc> connect_by_a_cut_descriptor(stage& on) {
  Endpoint mine = on.client().prepare().value();
  Endpoint theirs = on.server().prepare().value();
  const std::vector<std::byte> whole = theirs.descriptor().value();
  co_return mine.connect(std::span<const std::byte>(whole).first(whole.size() / 2)).code();
}

task<errc> send_after_closing(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, 8);
  co_await w.client.close();
  const result<void> r = co_await w.client.send(out).result();
  co_return r.code();
}

task<errc> call_from_another_thread(stage& on) {
  errc code = errc::ok;
  std::thread([&] { code = on.client().listen(on.server_address()).code(); }).join();
  co_return code;
}

errc make_context_with_config(const char* path) {
  ::setenv("CORDMA_CONFIG", path, 1);
  errc code = errc::ok;
  try {
    const Context context;
  } catch (const error& e) {
    code = e.condition();
  }
  ::unsetenv("CORDMA_CONFIG");
  return code;
}

task<errc> name_a_file_that_is_not_there(stage&) {
  co_return make_context_with_config("/nowhere/cordma.json");
}

task<errc> read_by_a_long_name(stage&) {
  const std::string too_long(5000, 'x');
  co_return read_exchanged(too_long).code();
}

task<errc> answer_twice(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener)).start();
  ConnectionRequest request = co_await listener.next();
  Endpoint accepted = co_await request.accept();
  co_await connecting;
  co_return request.reject().code();
}

task<errc> import_another_version(stage& on) {
  std::vector<std::byte> blob = client_memory(on, 8).export_blob().value();
  blob[4] = std::byte{99};  // after the four bytes of the magic
  co_return RemoteMemory::import(blob).code();
}

task<errc> pass_the_limit_of_endpoints(stage& on) {
  on.client().limit_endpoints(1);
  wire w = co_await connect(on);
  Listener listener = on.server().listen(on.server_address()).value();
  const result<Endpoint> r = co_await on.client().connect(on.reach(listener)).result();
  co_return r.code();
}

task<errc> cancel_what_waits(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  next_operation waiting = listener.next().start();
  waiting.cancel();
  const result<ConnectionRequest> r = co_await waiting.result();
  co_return r.code();
}

task<errc> close_under_a_receive(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion in = client_memory(on, 8);
  recv_operation receiving = w.client.recv(in).start();
  co_await w.client.close();
  const result<Received> r = co_await receiving.result();
  co_return r.code();
}

task<errc> be_rejected(stage& on) {
  Listener listener = on.server().listen(on.server_address()).value();
  connect_operation connecting = on.client().connect(on.reach(listener)).start();
  ConnectionRequest request = co_await listener.next();
  CHECK(request.reject().ok());
  const result<Endpoint> r = co_await connecting.result();
  co_return r.code();
}

task<errc> connect_to_nobody(stage& on) {
  std::string where;
  {
    const Listener gone = on.server().listen(on.server_address()).value();
    where = on.reach(gone);
  }
  const result<Endpoint> r = co_await on.client().connect(where).result();
  co_return r.code();
}

task<errc> receive_too_short(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, 64);
  MemoryRegion in = server_memory(on, 8);
  recv_operation receiving = w.server.recv(in).start();
  send_operation sending = w.client.send(out).start();
  const result<Received> r = co_await receiving.result();
  static_cast<void>(co_await sending.result());
  co_return r.code();
}

task<errc> read_what_is_not_granted(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion mine = client_memory(on, 8);
  MemoryRegion theirs = server_memory(on, 8, access::remote_write);
  const result<void> r = co_await w.client.read(exported(theirs), mine).result();
  co_return r.code();
}

task<errc> send_where_nobody_receives(stage& on) {
  endpoint_options impatient;
  impatient.rnr_retry = 0;
  wire w = co_await connect(on, impatient);
  MemoryRegion out = client_memory(on, 8);
  send_operation sending = w.client.send(out).start();
  const errc code = co_await first_cause(w.client);
  static_cast<void>(co_await sending.result());
  co_return code;
}

// Simulates a device that fails a request with this status.
template <wc_status status>
task<errc> fail_as_a_device_would(stage& on) {
  wire w = co_await connect(on);
  MemoryRegion out = client_memory(on, 8);
  on.net().fail_request("client", 1, status);
  const result<void> r = co_await w.client.send(out).result();
  co_return r.code();
}

using cm_event = transport::cm_event::type;
struct end_of_event {
  errc client = errc::ok;
  errc server = errc::ok;
};

// The results of both programs when a connection meets each event. A new event does not compile
// until it is added here. disconnected: gracefully, or not (`torn`).
task<end_of_event> meet(stage& on, cm_event what, bool torn) {
  end_of_event told;
  switch (what) {
    case cm_event::none:
    case cm_event::connect_request:
    case cm_event::device:          // concerns no connection
    case cm_event::listener_ended:  // concerns no connection
    case cm_event::resolved:        // concerns a datagram port, which has no connection
    // of a shared receive queue, and the last message of a connection from it
    case cm_event::receives_low:
    case cm_event::last_receive:
    case cm_event::established: told.client = co_await produce_ok(on); break;
    case cm_event::rejected: told.client = co_await be_rejected(on); break;
    case cm_event::failed: told.client = co_await connect_to_nobody(on); break;
    case cm_event::disconnected: {
      wire w = co_await connect(on);
      if (torn) {
        w.client.abort();
      } else {
        co_await w.client.close();
      }
      told.client = co_await first_cause(w.client);
      told.server = co_await first_cause(w.server);
      break;
    }
  }
  co_return told;
}

struct row {
  errc code;
  task<errc> (*produce)(stage&);  // null: nothing can produce it
  const char* why;                // why nothing, or only the kind `only`, can produce it
  std::optional<kind> only = {};
};

constexpr const char* device = "a device's status: the simulator alone has one that fails so";

constexpr std::array<row, errc_count> rows{{
    {errc::ok, produce_ok, ""},
    {errc::unknown, nullptr, "stands for numbers that are no code: logs of a later release"},
    {errc::not_permitted, receive_into_fixed_memory, ""},
    {errc::in_use, listen_where_somebody_does, ""},
    {errc::not_supported, name_a_transport_that_is_not_there, ""},
    {errc::again, nullptr, "EAGAIN is awaited inside, nobody gets to see it"},
    {errc::invalid_value, send_foreign_memory, ""},
    {errc::no_memory, empty_a_pool, ""},
    {errc::initialization, nullptr, "constructors say what exactly failed; for drivers to come"},
    {errc::timed_out, wait_no_longer, ""},
    {errc::shutdown, close_a_listener, ""},
    {errc::connection_reset, lose_the_peer, ""},
    {errc::connection_aborted, connect_by_a_cut_descriptor, ""},
    {errc::connection_in_progress, nullptr, "EINPROGRESS is awaited inside, nobody gets to see it"},
    {errc::not_connected, send_after_closing, ""},
    {errc::no_lock, call_from_another_thread, ""},
    {errc::not_found, name_a_file_that_is_not_there, ""},
    {errc::io_failed, fail_as_a_device_would<wc_status::general_err>, device, kind::sim},
    {errc::bad_state, answer_twice, ""},
    {errc::unsupported_version, import_another_version, ""},
    {errc::operating_system, read_by_a_long_name, ""},
    {errc::driver, fail_as_a_device_would<wc_status::fatal_err>, device, kind::sim},
    {errc::unexpected, fail_as_a_device_would<wc_status::bad_resp_err>, device, kind::sim},
    {errc::in_progress, fail_as_a_device_would<wc_status::tm_rndv_incomplete>, device, kind::sim},
    {errc::full, pass_the_limit_of_endpoints, ""},
    {errc::already_exists, nullptr, "EEXIST: files are made where one may be there already"},
    {errc::canceled, cancel_what_waits, ""},
    {errc::flushed, close_under_a_receive, ""},
    {errc::rejected, be_rejected, ""},
    {errc::unreachable, connect_to_nobody, ""},
    {errc::truncated, receive_too_short, ""},
    {errc::remote_access, read_what_is_not_granted, ""},
    {errc::remote_not_ready, send_where_nobody_receives, ""},
}};

}  // namespace

TEST_CASE("A1: every error code is produced by a program, or it is said why none can") {
  int unreachable = 0;
  for (int i = 0; i < errc_count; ++i) {
    const row& r = rows[static_cast<std::size_t>(i)];
    REQUIRE(static_cast<int>(r.code) == i);
    CAPTURE(name(r.code));
    CHECK((r.produce != nullptr && !r.only) == (*r.why == '\0'));
    if (r.produce == nullptr) ++unreachable;
    if (r.produce == nullptr || (r.only && *r.only != transport_under_test())) continue;
    stage s;
    CHECK(name(s.play(r.produce)) == name(r.code));
  }
  CHECK(unreachable == 5);
}

TEST_CASE("A1: each event of a connection has one code on each side") {
  struct met {
    cm_event what;
    bool torn;
    end_of_event told;
  };
  for (const met& m : {met{cm_event::none, false, {}}, met{cm_event::connect_request, false, {}},
                       met{cm_event::established, false, {}},
                       met{cm_event::rejected, false, {.client = errc::rejected}},
                       met{cm_event::failed, false, {.client = errc::unreachable}},
                       met{cm_event::disconnected,
                           false,
                           {.client = errc::not_connected, .server = errc::not_connected}},
                       met{cm_event::disconnected,
                           true,
                           {.client = errc::not_connected, .server = errc::connection_reset}}}) {
    CAPTURE(static_cast<int>(m.what));
    CAPTURE(m.torn);
    stage s;
    const end_of_event told = s.play(meet, m.what, m.torn);
    CHECK(name(told.client) == name(m.told.client));
    CHECK(name(told.server) == name(m.told.server));
  }
}

TEST_CASE("A1: whatever status a device reports, its code and the original arrive") {
  for (std::size_t i = 1; i < transport::wc_status_count; ++i) {
    const auto status = static_cast<wc_status>(i);
    if (status == wc_status::wr_flush_err) continue;  // never a first cause
    CAPTURE(transport::name(status));
    stage s({}, kind::sim);
    s.play(
        [](stage& on, wc_status wanted) -> task<> {
          wire w = co_await connect(on);
          MemoryRegion out = client_memory(on, 8);
          on.net().fail_request("client", 1, wanted);
          send_operation failing = w.client.send(out).start();
          send_operation behind = w.client.send(out).start();
          const result<void> r = co_await failing.result();
          REQUIRE_FALSE(r.ok());
          CHECK(name(r.code()) == name(transport::to_errc(wanted)));
          CHECK(r.why().wc_status() == static_cast<std::uint16_t>(wanted));
          const result<void> flushed = co_await behind.result();
          REQUIRE(flushed.code() == errc::flushed);
          CHECK(flushed.why().first_cause().code() == transport::to_errc(wanted));
        },
        status);
  }
}
