// D14: number of calls to the device, counted where libibverbs calls its driver.
#include "own_device.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <infiniband/verbs.h>

#include <vector>

using namespace cordma;
using namespace cordma::test;
using transport::verbs_calls;

namespace {

struct submitted {
  std::size_t calls = 0;     // calls of ibv_post_send, and completed regions of ibv_wr_*
  std::size_t requests = 0;  // requests in these calls
  friend submitted operator-(const submitted& a, const submitted& b) noexcept {
    return {a.calls - b.calls, a.requests - b.requests};
  }
};

class counting_device {
 public:
  counting_device() {
    verbs_context* const calls = verbs_get_ctx(device_.context());
    create_pair = calls->create_qp_ex;
    calls->create_qp_ex = create_counting;
    post_send = device_.context()->ops.post_send;
    device_.context()->ops.post_send = [](ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** refused) {
      ++so_far.calls;
      for (const ibv_send_wr* r = list; r != nullptr; r = r->next) ++so_far.requests;
      return post_send(qp, list, refused);
    };
  }
  [[nodiscard]] context_options by(verbs_calls calls) {
    context_options c;
    c.transports = {transport::kind::verbs};
    c.verbs.calls = calls;
    c.verbs.pd = device_.pd();
    return c;
  }
  inline static submitted so_far;

 private:
  static ibv_qp* create_counting(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    ibv_qp* const made = create_pair(context, attr);
    ibv_qp_ex* const extended = made != nullptr ? ibv_qp_to_qp_ex(made) : nullptr;
    if (extended == nullptr) return made;
    complete = extended->wr_complete;
    send = extended->wr_send;
    extended->wr_complete = [](ibv_qp_ex* qp) {
      ++so_far.calls;
      return complete(qp);
    };
    extended->wr_send = [](ibv_qp_ex* qp) {
      ++so_far.requests;
      send(qp);
    };
    return made;
  }

  inline static decltype(verbs_context::create_qp_ex) create_pair = nullptr;
  inline static decltype(ibv_context_ops::post_send) post_send = nullptr;
  inline static decltype(ibv_qp_ex::wr_complete) complete = nullptr;
  inline static decltype(ibv_qp_ex::wr_send) send = nullptr;
  own_device device_;
};

constexpr std::size_t count = 64;

struct loop {
  explicit loop(const context_options& options)
      : context(options), worker(context, {.mode = wait_mode::polling}) {}
  Context context;
  Worker worker;
};

// Messages of 8 bytes in each direction, through `out` and `in`.
struct station {
  station(Context& context, Endpoint& to)
      : out(context.allocate(count * 8).value()), in(context.allocate(count * 8).value()) {
    for (std::size_t i = 0; i < count; ++i) {
      out.as<std::uint64_t>()[i] = i + 1;
      receives.push_back(to.recv(in.all().part(i * 8, 8)).start());
    }
  }
  void send_all(Endpoint& from) {
    for (std::size_t i = 0; i < count; ++i) {
      sends.push_back(from.send(out.all().part(i * 8, 8)).start());
    }
  }
  MemoryRegion out;
  MemoryRegion in;
  std::vector<recv_operation> receives;
  std::vector<send_operation> sends;
};

task<> all_arrive(station* s) {
  for (send_operation& op : s->sends) co_await op;
  for (recv_operation& op : s->receives) co_await op;
  for (std::size_t i = 0; i < count; ++i) CHECK(s->in.as<std::uint64_t>()[i] == i + 1);
}

task<> count_calls(loop* at) {
  Listener listener = at->worker.listen(own_host() + ":0").value();
  std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  connect_options to;
  to.endpoint.peer_timeout = std::chrono::hours(1);  // no probing of the peer
  wire w = co_await connect(at->worker, listener, std::move(address), to, to);
  station together(at->context, w.server);
  submitted before = counting_device::so_far;
  {
    const Endpoint::Batch batch = w.client.batch();
    together.send_all(w.client);
    // so the peer cannot have received anything
    CHECK((counting_device::so_far - before).calls == 0);
    CHECK(all_zero(together.in.bytes()));
  }
  CHECK((counting_device::so_far - before).calls == 1);
  CHECK((counting_device::so_far - before).requests == count);
  co_await all_arrive(&together);
  CHECK((counting_device::so_far - before).calls == 1);
  station one_by_one(at->context, w.server);
  before = counting_device::so_far;
  one_by_one.send_all(w.client);
  CHECK((counting_device::so_far - before).calls == count);
  CHECK((counting_device::so_far - before).requests == count);
  co_await all_arrive(&one_by_one);
}

}  // namespace

TEST_CASE("D14: 64 messages in a batch are one call of the device, and none before its end") {
  for (const verbs_calls calls : {verbs_calls::extended, verbs_calls::plain}) {
    CAPTURE(static_cast<int>(calls));
    counting_device device;
    loop at(device.by(calls));
    at.worker.run(count_calls(&at));
  }
}
