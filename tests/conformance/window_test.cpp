// Memory windows: a few bytes of a region, for one peer, until the window is invalidated or
// released.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <algorithm>
#include <array>
#include <optional>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;
using transport::service;
using transport::wc_status;

namespace {

constexpr cordma::access bindable = every_right | access::mw_bind;
constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t start = 4096;  // of the window
constexpr std::size_t length = 64;
constexpr std::uint64_t target_seed = 1;

applies where_there_are_windows() {
  return not_on(transport::kind::shm,
                "peers map the memory itself: there is nobody to refuse them");
}

RemoteMemory imported(const MemoryWindow& window) {
  return RemoteMemory::import(window.export_blob().value()).value();
}

// Uses the key of `known`, without a check against its range.
RemoteSlice beside(const RemoteSlice& known, std::ptrdiff_t offset, std::size_t bytes) {
  return RemoteSlice(known.addr() + static_cast<std::uint64_t>(offset), bytes, known.keys());
}

struct access_outcome {
  errc code = errc::ok;
  bool changed = false;  // a byte of the target changed
};

// The client's access, with bytes that differ from those of the target.
task<access_outcome> reach(stage& on, wire& w, const MemoryRegion& target, RemoteSlice where,
                           opcode how) {
  MemoryRegion local = client_memory(on, std::max<std::size_t>(where.size(), 8));
  const Slice bytes = local.all().first(where.size());
  fill(target.bytes(), target_seed);
  std::fill(local.bytes().begin(), local.bytes().end(), std::byte{0});
  result<void> r;
  if (how == opcode::fetch_add) {
    const result<std::uint64_t> old = co_await w.client.fetch_add(where, 1).result();
    if (!old) r = old.why();
  } else if (how == opcode::read) {
    r = co_await w.client.read(where, bytes).result();
    if (!r) CHECK(all_zero(local.bytes()));
  } else {
    r = co_await w.client.write(where, bytes).result();
    if (r.ok()) r = co_await w.client.flush().result();
  }
  co_return access_outcome{.code = r.code(), .changed = !filled(target.bytes(), target_seed)};
}

cordma::access needed_for(opcode op) {
  return op == opcode::read    ? access::remote_read
         : op == opcode::write ? access::remote_write
                               : access::remote_atomic;
}

task<> wait_for_end(Endpoint& e) {
  while (e.state() != endpoint_state::closed) co_await e.state_changed();
}

}  // namespace

TEST_CASE("Q8: of a mebibyte a window grants its 64 bytes, and not a byte beside them" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, mib, bindable);
    struct attempt {
      std::ptrdiff_t offset;
      std::size_t bytes;
      bool inside;
    };
    for (const attempt& a :
         {attempt{0, length, true}, attempt{0, 1, true}, attempt{63, 1, true},
          attempt{-1, 1, false}, attempt{-1, length, false}, attempt{0, length + 1, false},
          attempt{64, 1, false}, attempt{8192, 8, false}}) {
      for (const opcode how : {opcode::write, opcode::read}) {
        CAPTURE(a.offset);
        CAPTURE(a.bytes);
        CAPTURE(transport::name(how));
        wire w = co_await connect(on);
        MemoryWindow window = co_await w.server.bind(target, start, length, transport::all_remote);
        CHECK(window);
        CHECK(window.size() == length);
        CHECK(window.rights() == transport::all_remote);
        const RemoteMemory granted = imported(window);
        CHECK(granted.size() == length);
        const RemoteSlice where = beside(granted, a.offset, a.bytes);
        const access_outcome o = co_await reach(on, w, target, where, how);
        CHECK(name(o.code) == name(a.inside ? errc::ok : errc::remote_access));
        CHECK(o.changed == (a.inside && how == opcode::write));
      }
    }
  });
}

TEST_CASE("Q8: the rights of a window hold, narrower than those of its region" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, 2 * start, bindable);
    for (unsigned bits = 1; bits < 8; ++bits) {
      for (const opcode how : {opcode::write, opcode::read, opcode::fetch_add}) {
        CAPTURE(bits);
        CAPTURE(transport::name(how));
        const auto rights = static_cast<cordma::access>(bits << 1U);
        wire w = co_await connect(on);
        MemoryWindow window = co_await w.server.bind(target, start, length, rights);
        const RemoteSlice word = imported(window).slice(8, 8).value();
        const access_outcome o = co_await reach(on, w, target, word, how);
        const bool granted = has(rights, needed_for(how));
        CHECK(name(o.code) == name(granted ? errc::ok : errc::remote_access));
        CHECK(o.changed == (granted && how != opcode::read));
      }
    }
  });
}

TEST_CASE("Q8: what cannot be bound is refused with a reason, and the connection goes on" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, start, bindable);
    MemoryRegion plain = server_memory(on, start);
    MemoryRegion narrow = server_memory(on, start, access::remote_read | access::mw_bind);
    MemoryRegion foreign = client_memory(on, start, bindable);
    const cordma::access read = access::remote_read;
    struct refusal {
      const MemoryRegion* region;
      std::size_t offset;
      std::size_t bytes;
      cordma::access rights;
      errc code;
    };
    const MemoryRegion none;
    for (const refusal& r :
         {refusal{&plain, 0, 8, read, errc::not_permitted},
          refusal{&narrow, 0, 8, read | access::remote_write, errc::not_permitted},
          refusal{&narrow, 0, 8, access::remote_atomic, errc::not_permitted},
          refusal{&target, 0, 0, read, errc::invalid_value},
          refusal{&target, start, 1, read, errc::invalid_value},
          refusal{&target, 1, start, read, errc::invalid_value},
          refusal{&target, 0, 8, access::local_read, errc::invalid_value},
          refusal{&target, 0, 8, read | access::local_write, errc::invalid_value},
          refusal{&foreign, 0, 8, read, errc::invalid_value},
          refusal{&none, 0, 8, read, errc::invalid_value}}) {
      const result<MemoryWindow> bound =
          co_await w.server.bind(*r.region, r.offset, r.bytes, r.rights).result();
      CHECK(name(bound.code()) == name(r.code));
      CHECK_FALSE(bound.why().message().empty());
    }
    MemoryWindow window = co_await w.server.bind(narrow, 0, 8, read);
    CHECK(window);
    CHECK(w.server.state() == endpoint_state::connected);
    if (!on.caps().supports(service::uc, opcode::send)) co_return;
    endpoint_options unreliable;
    unreliable.type = service::uc;
    wire uc = co_await connect(on, unreliable, unreliable);
    const result<MemoryWindow> bound = co_await uc.server.bind(target, 0, 8, read).result();
    CHECK(name(bound.code()) == name(errc::not_supported));
  });
}

TEST_CASE("Q8: where there are no windows, binding and invalidating are not_supported" *
          only_on(transport::kind::shm, "it has windows")) {
  stage s;
  s.play([](stage& on) -> task<> {
    CHECK_FALSE(on.caps().supports(service::rc, opcode::bind));
    CHECK_FALSE(on.caps().supports(service::rc, opcode::send_invalidate));
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, start, bindable);
    MemoryRegion message = client_memory(on, 8);
    const RemoteMemory remote = exported(target);
    CHECK_FALSE(has(remote.rights(), access::mw_bind));
    const result<MemoryWindow> bound =
        co_await w.server.bind(target, 0, 8, access::remote_read).result();
    CHECK(name(bound.code()) == name(errc::not_supported));
    const result<void> sent = co_await w.client.send_invalidate(message, remote).result();
    CHECK(name(sent.code()) == name(errc::not_supported));
    CHECK(w.client.state() == endpoint_state::connected);
  });
}

TEST_CASE(
    "Q8: send_invalidate ends a window, its receiver learns which, and the key never fits again" *
    where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, 2 * start, bindable);
    MemoryRegion kept_region = server_memory(on, start, bindable);
    MemoryRegion message = client_memory(on, 100);
    MemoryRegion room = server_memory(on, 100);
    BufferPool pool(on.server_context(), 100, 2);
    MemoryWindow kept = co_await w.server.bind(kept_region, 0, 8, transport::all_remote);
    MemoryWindow first = co_await w.server.bind(target, start, length, transport::all_remote);
    MemoryWindow second = co_await w.server.bind(target, 0, length, transport::all_remote);
    const std::array<std::uint64_t, 3> keys{kept.key(), first.key(), second.key()};
    CHECK(keys[0] != keys[1]);
    CHECK(keys[1] != keys[2]);
    const RemoteMemory of_first = imported(first);
    const RemoteMemory of_second = imported(second);
    fill(message.bytes(), 7);

    recv_operation receiving = w.server.recv(room).start();
    co_await w.client.send_invalidate(message, of_first);
    const Received got = co_await receiving;
    CHECK(got.bytes == message.size());
    CHECK(filled(room.bytes(), 7));
    CHECK(got.invalidated == keys[1]);
    CHECK_FALSE(first);
    CHECK(first.export_blob().code() == errc::bad_state);
    CHECK(second);

    message_operation pooled = w.server.recv(pool).start();
    co_await w.client.send_invalidate(message, of_second);
    const Message m = co_await pooled;
    CHECK(m.invalidated() == keys[2]);
    CHECK(filled(m.bytes(), 7));
    CHECK_FALSE(second);
    recv_operation third = w.server.recv(room).start();
    co_await w.client.send(message);
    const Received plain = co_await third;
    CHECK(plain.invalidated == 0);
    CHECK(kept);

    // No live window refers to `target`; its two ended windows still exist.
    CHECK(kept_region.deregister().code() == errc::in_use);
    const access_outcome o = co_await reach(on, w, target, of_first, opcode::write);
    CHECK(name(o.code) == name(errc::remote_access));
    CHECK_FALSE(o.changed);
    CHECK(target.deregister().ok());
  });
}

TEST_CASE("Q8: a window that is released, or destroyed, is refused from then on" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, 2 * start, bindable);
    for (const bool destroy : {true, false}) {
      for (const opcode how : {opcode::write, opcode::read, opcode::fetch_add}) {
        CAPTURE(destroy);
        CAPTURE(transport::name(how));
        wire w = co_await connect(on);
        MemoryWindow window = co_await w.server.bind(target, start, length, transport::all_remote);
        const RemoteSlice word = imported(window).slice(0, 8).value();
        const access_outcome before = co_await reach(on, w, target, word, how);
        CHECK(name(before.code) == name(errc::ok));
        if (destroy) {
          window = MemoryWindow();
        } else {
          CHECK(window.release().ok());
          CHECK(window.release().ok());
        }
        CHECK_FALSE(window);
        CHECK(window.export_blob().code() == errc::bad_state);
        const access_outcome after = co_await reach(on, w, target, word, how);
        CHECK(name(after.code) == name(errc::remote_access));
        CHECK_FALSE(after.changed);
      }
    }
  });
}

TEST_CASE("Q8: a region is not deregistered as long as it has a window" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, start, bindable);
    MemoryWindow window = co_await w.server.bind(target, 0, length, transport::all_remote);
    CHECK(target.deregister().code() == errc::in_use);
    const RemoteSlice word = imported(window).slice(0, 8).value();
    const access_outcome o = co_await reach(on, w, target, word, opcode::write);
    CHECK(name(o.code) == name(errc::ok));
    // A window outlives its connection and its Endpoint, in the ended state.
    co_await w.client.close();
    co_await wait_for_end(w.server);
    CHECK_FALSE(window);
    CHECK(target.deregister().code() == errc::in_use);
    w.server = Endpoint();
    CHECK(window.release().ok());
    CHECK(target.deregister().ok());
  });
}

TEST_CASE("Q8: a key that is no window's fails the receive, and ends the connection" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, start, bindable);
    const RemoteMemory whole = exported(target);
    MemoryRegion message = client_memory(on, 8);
    MemoryRegion room = server_memory(on, 8);
    // The key of a region, which the peer may not invalidate; one that was invalidated before; a
    // made-up one.
    for (int i = 0; i < 3; ++i) {
      CAPTURE(i);
      wire w = co_await connect(on);
      MemoryWindow window = co_await w.server.bind(target, 0, length, transport::all_remote);
      RemoteSlice wrong = whole;
      if (i == 1) {
        wrong = imported(window);
        recv_operation receiving = w.server.recv(room).start();
        co_await w.client.send_invalidate(message, wrong);
        const Received first = co_await receiving;
        CHECK(first.invalidated == window.key());
      } else if (i == 2) {
        wrong = RemoteSlice(whole.all().addr(), 8, {on.over(), 0x12345678});
      }
      recv_operation receiving = w.server.recv(room).start();
      const result<void> sent = co_await w.client.send_invalidate(message, wrong).result();
      const bool told = sent.ok() || sent.code() == errc::remote_access;
      CHECK(told);
      const result<Received> got = co_await receiving.result();
      CHECK(name(got.code()) == name(errc::not_permitted));
      CHECK(got.why().wc_status() == static_cast<std::uint16_t>(wc_status::loc_access_err));
      co_await wait_for_end(w.server);
      co_await wait_for_end(w.client);
    }
    wire next = co_await connect(on);
    const RemoteSlice word = whole.slice(0, 8).value();
    const access_outcome o = co_await reach(on, next, target, word, opcode::write);
    CHECK(name(o.code) == name(errc::ok));
  });
}

TEST_CASE("Q8: the peer of another endpoint cannot use a window's key" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    MemoryRegion target = server_memory(on, 2 * start, bindable);
    wire its = co_await connect(on);
    MemoryWindow window = co_await its.server.bind(target, start, length, transport::all_remote);
    const RemoteSlice word = imported(window).slice(0, 8).value();
    for (const opcode how : {opcode::write, opcode::read, opcode::fetch_add}) {
      CAPTURE(transport::name(how));
      wire other = co_await connect(on);
      const access_outcome o = co_await reach(on, other, target, word, how);
      CHECK(name(o.code) == name(errc::remote_access));
      CHECK_FALSE(o.changed);
      const access_outcome own = co_await reach(on, its, target, word, how);
      CHECK(name(own.code) == name(errc::ok));
    }
  });
}

TEST_CASE("Q8: three hundred windows one after another have other keys, and leave nothing" *
          where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, start, bindable);
    MemoryRegion message = client_memory(on, 8);
    MemoryRegion room = server_memory(on, 8);
    std::uint64_t last = 0;
    for (int i = 0; i < 300; ++i) {
      CAPTURE(i);
      MemoryWindow window = co_await w.server.bind(target, 0, length, access::remote_write);
      CHECK(window.key() != last);
      last = window.key();
      if (i % 2 != 0) continue;
      recv_operation receiving = w.server.recv(room).start();
      co_await w.client.send_invalidate(message, imported(window));
      const Received got = co_await receiving;
      CHECK(got.invalidated == last);
    }
    CHECK(w.server.inflight() == 0);
    CHECK(target.deregister().ok());
  });
}

TEST_CASE("Q8: a bind that is given up leaves no window behind" * where_there_are_windows()) {
  stage s;
  s.play([](stage& on) -> task<> {
    wire w = co_await connect(on);
    MemoryRegion target = server_memory(on, start, bindable);
    {
      bind_operation given_up = w.server.bind(target, 0, 8, access::remote_read).start();
      bind_operation not_taken = w.server.bind(target, 8, 8, access::remote_read).start();
      const bind_operation not_started = w.server.bind(target, 8, 8, access::remote_read);
      if (!given_up.done()) CHECK(target.deregister().code() == errc::in_use);
    }
    co_await w.server.flush();
    CHECK(w.server.state() == endpoint_state::connected);
    CHECK(target.deregister().ok());
  });
}
