// D11: memory that the device may not use for a request, because its key belongs to another
// protection domain. The device refuses the request; its awaiter receives the error, the other
// requests are flushed, and a new endpoint works.
#include "own_device.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <infiniband/verbs.h>

#include <vector>

using namespace cordma;
using namespace cordma::test;
using transport::opcode;
using transport::verbs_calls;
using transport::wc_status;

namespace {

constexpr std::size_t good_bytes = 8;

// Wraps the device's functions; the wrappers replace the key of a segment with `marked` bytes.
class misled_device {
 public:
  static constexpr std::uint32_t marked = 13;

  misled_device() : other_(ibv_alloc_pd(device_.context())) {
    REQUIRE(other_ != nullptr);
    foreign_ = ibv_reg_mr(other_, memory_.data(), memory_.size(),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    REQUIRE(foreign_ != nullptr);
    foreign_key = foreign_->lkey;
    verbs_context* const calls = verbs_get_ctx(device_.context());
    create_pair = calls->create_qp_ex;
    calls->create_qp_ex = create_misled;
    ibv_context_ops& ops = device_.context()->ops;
    post_send = ops.post_send;
    post_recv = ops.post_recv;
    ops.post_send = [](ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** refused) {
      for (ibv_send_wr* r = list; r != nullptr; r = r->next) mislead(r->sg_list, r->num_sge);
      return post_send(qp, list, refused);
    };
    ops.post_recv = [](ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** refused) {
      for (ibv_recv_wr* r = list; r != nullptr; r = r->next) mislead(r->sg_list, r->num_sge);
      return post_recv(qp, list, refused);
    };
  }
  misled_device(const misled_device&) = delete;
  misled_device& operator=(const misled_device&) = delete;
  ~misled_device() {
    CHECK(all_zero(memory_));  // nothing was written there or read from there
    CHECK(ibv_dereg_mr(foreign_) == 0);
    CHECK(ibv_dealloc_pd(other_) == 0);
  }
  [[nodiscard]] context_options by(verbs_calls calls) {
    context_options c;
    c.transports = {transport::kind::verbs};
    c.verbs.calls = calls;
    c.verbs.pd = device_.pd();
    return c;
  }

 private:
  static void mislead(ibv_sge* segments, int count) {
    if (count == 1 && segments->length == marked) segments->lkey = foreign_key;
  }
  static ibv_qp* create_misled(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    ibv_qp* const made = create_pair(context, attr);
    ibv_qp_ex* const extended = made != nullptr ? ibv_qp_to_qp_ex(made) : nullptr;
    if (extended == nullptr) return made;
    set_segment = extended->wr_set_sge;
    extended->wr_set_sge = [](ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t at,
                              std::uint32_t bytes) {
      set_segment(qp, bytes == marked ? foreign_key : lkey, at, bytes);
    };
    return made;
  }

  inline static decltype(verbs_context::create_qp_ex) create_pair = nullptr;
  inline static decltype(ibv_context_ops::post_send) post_send = nullptr;
  inline static decltype(ibv_context_ops::post_recv) post_recv = nullptr;
  inline static decltype(ibv_qp_ex::wr_set_sge) set_segment = nullptr;
  inline static std::uint32_t foreign_key = 0;
  own_device device_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(4096);
  ibv_pd* other_;
  ibv_mr* foreign_ = nullptr;
};

struct loop {
  explicit loop(const context_options& options)
      : context(options), worker(context, {.mode = wait_mode::polling}) {}
  Context context;
  Worker worker;
};

task<wire> join(loop* at) {
  Listener listener = at->worker.listen(own_host() + ":0").value();
  std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  connect_options to;
  to.endpoint.inline_bytes = 0;  // inline data has no key
  wire w = co_await connect(at->worker, listener, std::move(address), to, to);
  co_return w;
}

task<> closed(Endpoint* e) {
  while (e->state() != endpoint_state::closed) co_await e->state_changed();
}

void check_failed(const result<void>& r, wc_status how) {
  REQUIRE_FALSE(r.ok());
  CHECK(r.why().wc_status() == static_cast<std::uint16_t>(how));
}

task<> still_works(loop* at) {
  wire w = co_await join(at);
  MemoryRegion memory = at->context.allocate(2 * good_bytes).value();
  fill(memory.bytes().first(good_bytes), 7);
  recv_operation receiving = w.server.recv(memory.all().part(good_bytes, good_bytes)).start();
  co_await w.client.send(memory.all().first(good_bytes));
  co_await receiving;
  CHECK(filled(memory.bytes().subspan(good_bytes), 7));
}

// Posts the failing request between a completed write and two flushed requests.
task<> fails_between(loop* at, opcode what, wc_status how) {
  wire w = co_await join(at);
  MemoryRegion mine = at->context.allocate(64).value();
  MemoryRegion theirs = at->context.allocate(64, every_right).value();
  const RemoteMemory remote = exported(theirs);
  fill(mine.bytes().first(good_bytes), 3);
  const Slice good = mine.all().first(good_bytes);
  const Slice bad = mine.all().part(32, misled_device::marked);
  const RemoteSlice elsewhere = remote.slice(32, misled_device::marked).value();
  recv_operation waiting = w.server.recv(theirs.all().part(16, 16)).start();
  send_operation before = w.client.write(remote.slice(0, good_bytes).value(), good).start();
  send_operation victim = what == opcode::send    ? w.client.send(bad)
                          : what == opcode::write ? w.client.write(elsewhere, bad)
                                                  : w.client.read(elsewhere, bad);
  victim.start();
  send_operation behind = w.client.write(remote.slice(8, good_bytes).value(), good).start();
  const result<void> done = co_await before.result();
  CHECK(done.ok());
  const result<void> refused = co_await victim.result();
  check_failed(refused, how);
  const result<void> flushed = co_await behind.result();
  check_failed(flushed, wc_status::wr_flush_err);
  const result<Received> none = co_await waiting.result();
  CHECK(none.code() == errc::flushed);
  co_await closed(&w.client);
  co_await closed(&w.server);
  CHECK(w.client.first_cause()->wc_status() == static_cast<std::uint16_t>(how));
  CHECK(w.client.inflight() == 0);
  CHECK(filled(theirs.bytes().first(good_bytes), 3));
  CHECK(all_zero(theirs.bytes().subspan(16)));
  co_await still_works(at);
}

task<> fails_to_receive(loop* at) {
  wire w = co_await join(at);
  MemoryRegion memory = at->context.allocate(128).value();
  const Slice message = memory.all().first(good_bytes);
  recv_operation good = w.server.recv(memory.all().part(16, 16)).start();
  recv_operation victim = w.server.recv(memory.all().part(32, misled_device::marked)).start();
  recv_operation behind = w.server.recv(memory.all().part(64, 16)).start();
  co_await w.client.send(message);
  co_await good;
  send_operation sending = w.client.send(message).start();
  const result<Received> refused = co_await victim.result();
  CHECK(refused.code() == errc::truncated);
  const result<Received> flushed = co_await behind.result();
  CHECK(flushed.code() == errc::flushed);
  const result<void> told = co_await sending.result();
  check_failed(told, wc_status::rem_inv_req_err);
  co_await closed(&w.client);
  CHECK(all_zero(memory.bytes().subspan(32)));
  co_await still_works(at);
}

}  // namespace

TEST_CASE("D11: LOC_PROT: a segment with a key of another protection domain, in every direction") {
  for (const verbs_calls calls : {verbs_calls::extended, verbs_calls::plain}) {
    misled_device device;
    loop at(device.by(calls));
    CAPTURE(static_cast<int>(calls));
    at.worker.run(fails_between(&at, opcode::read, wc_status::loc_prot_err));
    // Soft-RoCE reports another status for outgoing data.
    at.worker.run(fails_between(&at, opcode::send, wc_status::loc_qp_op_err));
    at.worker.run(fails_between(&at, opcode::write, wc_status::loc_qp_op_err));
  }
}

// Soft-RoCE reports the same status for both; a message that is too long is by far the more common
// cause.
TEST_CASE("D11: a receive whose memory is of another protection domain ends as one too short") {
  misled_device device;
  loop at(device.by(verbs_calls::automatic));
  at.worker.run(fails_to_receive(&at));
}
