// The calls that post requests and poll completions: detected on the device, selected by a setting,
// and reported by each connection. Also requests that the device refuses.
#include "own_device.hpp"
#include "property.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/verbs/extras.hpp>

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using transport::verbs_calls;

namespace {

constexpr std::array every_choice{verbs_calls::automatic, verbs_calls::extended,
                                  verbs_calls::plain};

// A device that lacks one of its calls, or that receives invalid requests: wraps the device's own
// functions.
class altered_device {
 public:
  static constexpr std::uint32_t invalid_bytes =
      13;  // a request of one segment with this length is refused

  altered_device() {
    verbs_context* const calls = verbs_get_ctx(device_.context());
    create_pair = calls->create_qp_ex;
    calls->create_qp_ex = with_invalid_requests;
    post_send = device_.context()->ops.post_send;
    device_.context()->ops.post_send = post_invalid;
  }
  [[nodiscard]] ibv_pd* pd() noexcept { return device_.pd(); }
  void take_away_requests() {
    verbs_get_ctx(device_.context())->create_qp_ex = [](ibv_context*,
                                                        ibv_qp_init_attr_ex*) -> ibv_qp* {
      errno = EOPNOTSUPP;
      return nullptr;
    };
  }
  void take_away_completions() {
    verbs_get_ctx(device_.context())->create_cq_ex = [](ibv_context*,
                                                        ibv_cq_init_attr_ex*) -> ibv_cq_ex* {
      errno = EOPNOTSUPP;
      return nullptr;
    };
  }

 private:
  static constexpr int too_many = 1000;  // segments

  static ibv_qp* with_invalid_requests(ibv_context* context, ibv_qp_init_attr_ex* attr) {
    ibv_qp* const made = create_pair(context, attr);
    ibv_qp_ex* const extended = made != nullptr ? ibv_qp_to_qp_ex(made) : nullptr;
    if (extended == nullptr) return made;
    set_segment = extended->wr_set_sge;
    extended->wr_set_sge = [](ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t at,
                              std::uint32_t bytes) {
      if (bytes != invalid_bytes) return set_segment(qp, lkey, at, bytes);
      std::array<ibv_sge, too_many> none{};
      ibv_wr_set_sge_list(qp, none.size(), none.data());
    };
    return made;
  }
  static int post_invalid(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** refused) {
    for (ibv_send_wr* r = list; r != nullptr; r = r->next) {
      if (r->num_sge == 1 && r->sg_list->length == invalid_bytes) r->num_sge = too_many;
    }
    return post_send(qp, list, refused);
  }

  inline static decltype(verbs_context::create_qp_ex) create_pair = nullptr;
  inline static decltype(ibv_context_ops::post_send) post_send = nullptr;
  inline static decltype(ibv_qp_ex::wr_set_sge) set_segment = nullptr;
  own_device device_;
};

context_options by(verbs_calls calls, ibv_pd* pd = nullptr) {
  context_options c;
  c.transports = {transport::kind::verbs};
  c.verbs.calls = calls;
  c.verbs.pd = pd;
  return c;
}

// A Worker that is connected to itself.
struct loop {
  explicit loop(const context_options& options)
      : context(options), worker(context, {.mode = wait_mode::polling}) {}
  Context context;
  Worker worker;
};

task<wire> join(loop* at, endpoint_options options = {}) {
  Listener listener = at->worker.listen(own_host() + ":0").value();
  std::string address = own_host() + ":" + std::to_string(listener.bound().port);
  connect_options to;
  to.endpoint = options;
  wire w = co_await connect(at->worker, listener, std::move(address), to, to);
  co_return w;
}

bool device_has(std::string_view name) {
  const Context c(by(verbs_calls::plain));
  const auto all = transport::verbs::ask_extras(c.native_pd().value()->context);
  const auto at = std::ranges::find_if(all, [&](const auto& e) { return name == e.name; });
  REQUIRE(at != all.end());
  CHECK(at->offered);
  return at->on_device;
}

void expect_calls(const context_options& options, const char* requests, const char* completions) {
  loop at(options);
  const wire w = at.worker.run(join(&at));
  for (const Endpoint* e : {&w.client, &w.server}) {
    CHECK(property_of(*e, "requests_by") == requests);
    CHECK(property_of(*e, "completions_by") == completions);
  }
}

void refuses(const context_options& options, std::string_view saying) {
  const auto r = transport::make_verbs(options.verbs);
  REQUIRE_FALSE(r.ok());
  CHECK(r.code() == errc::not_supported);
  CAPTURE(r.why().message());
  CHECK(r.why().message().find(saying) != std::string::npos);
}

}  // namespace

TEST_CASE(
    "Q1, Q2: the extended calls are taken where the device has them, and the plain on demand") {
  const char* const requests = device_has("extended requests") ? "ibv_wr" : "ibv_post_send";
  const char* const completions =
      device_has("extended completion queues") ? "ibv_cq_ex" : "ibv_poll_cq";
  CHECK(requests == std::string_view("ibv_wr"));  // the device that the suite runs on has both
  CHECK(completions == std::string_view("ibv_cq_ex"));
  expect_calls(by(verbs_calls::automatic), requests, completions);
  expect_calls(by(verbs_calls::extended), "ibv_wr", "ibv_cq_ex");
  expect_calls(by(verbs_calls::plain), "ibv_post_send", "ibv_poll_cq");
}

TEST_CASE("Q1, Q2: what a device lacks is done by plain calls, or refused where it is demanded") {
  {
    altered_device device;
    device.take_away_requests();
    expect_calls(by(verbs_calls::automatic, device.pd()), "ibv_post_send", "ibv_cq_ex");
    refuses(by(verbs_calls::extended, device.pd()), "has no ibv_wr_*: use auto or plain");
  }
  altered_device device;
  device.take_away_completions();
  expect_calls(by(verbs_calls::automatic, device.pd()), "ibv_wr", "ibv_poll_cq");
  refuses(by(verbs_calls::extended, device.pd()), "has no ibv_cq_ex: use auto or plain");
}

TEST_CASE(
    "Q2: an invalid request ends its batch: every awaiter is told, and nothing is carried out") {
  altered_device device;
  loop at(by(verbs_calls::extended, device.pd()));
  at.worker.run([](loop* here) -> task<void> {
    constexpr std::size_t count = 20;
    constexpr std::size_t bad = 11;
    endpoint_options options;
    options.inline_bytes = 0;
    wire w = co_await join(here, options);
    MemoryRegion data = here->context.allocate(64).value();
    MemoryRegion target = here->context.allocate(64 * count, every_right).value();
    const RemoteMemory remote = exported(target);
    fill(data.bytes(), 5);
    send_operation before = w.client.write(remote.slice(0, 8).value(), data.all().first(8)).start();
    co_await before;
    std::vector<send_operation> writes;
    {
      const Endpoint::Batch together = w.client.batch();
      for (std::size_t i = 1; i < count; ++i) {
        const std::size_t bytes = i == bad ? altered_device::invalid_bytes : 8;
        writes.push_back(
            w.client.write(remote.slice(64 * i, bytes).value(), data.all().first(bytes)).start());
      }
    }
    send_operation behind = w.client.write(remote.slice(8, 8).value(), data.all().first(8)).start();
    for (send_operation& op : writes) {
      const result<void> r = co_await op.result();
      CHECK(r.code() == errc::io_failed);
    }
    const result<void> late = co_await behind.result();
    CHECK(late.code() == errc::flushed);
    CHECK(w.client.inflight() == 0);
    REQUIRE(w.client.first_cause() != nullptr);
    CHECK(w.client.first_cause()->code() == errc::driver);
    CHECK(w.client.first_cause()->message().find("connect again") != std::string::npos);
    CHECK(all_zero(target.bytes().subspan(8)));
  }(&at));
}

TEST_CASE(
    "Q2: by plain calls an invalid request is told to its own awaiter, and ends the connection") {
  altered_device device;
  loop at(by(verbs_calls::plain, device.pd()));
  at.worker.run([](loop* here) -> task<void> {
    endpoint_options options;
    options.inline_bytes = 0;
    wire w = co_await join(here, options);
    MemoryRegion data = here->context.allocate(64).value();
    MemoryRegion target = here->context.allocate(64, every_right).value();
    const RemoteMemory remote = exported(target);
    std::vector<send_operation> writes;
    {
      const Endpoint::Batch together = w.client.batch();
      for (const std::size_t bytes : {std::size_t{altered_device::invalid_bytes}, std::size_t{8}}) {
        writes.push_back(
            w.client.write(remote.slice(0, bytes).value(), data.all().first(bytes)).start());
      }
    }
    const result<void> invalid = co_await writes[0].result();
    const result<void> behind = co_await writes[1].result();
    CHECK(invalid.code() == errc::io_failed);
    CHECK(behind.code() == errc::flushed);
  }(&at));
}

TEST_CASE("Q2: gathered messages arrive whole by either calls, inline and not, in one batch") {
  for (const verbs_calls calls : every_choice) {
    for (const std::uint32_t inlined : {0U, 64U}) {
      CAPTURE(static_cast<int>(calls));
      CAPTURE(inlined);
      loop at(by(calls));
      at.worker.run([](loop* here, std::uint32_t most) -> task<void> {
        endpoint_options options;
        options.inline_bytes = most;
        wire w = co_await join(here, options);
        MemoryRegion data = here->context.allocate(60).value();
        MemoryRegion in = here->context.allocate(3 * 60).value();
        fill(data.bytes(), 9);
        const std::array pieces{data.all().part(0, 3), data.all().part(3, 40),
                                data.all().part(43, 17)};
        std::vector<recv_operation> receives;
        std::vector<send_operation> sends;
        for (std::size_t i = 0; i < 3; ++i) {
          receives.push_back(w.server.recv(in.all().part(60 * i, 60)).start());
        }
        {
          const Endpoint::Batch together = w.client.batch();
          sends.push_back(w.client.send(data.all()).start());
          sends.push_back(w.client.send(pieces).start());
          sends.push_back(w.client.send(data.all()).start());
        }
        for (recv_operation& op : receives) {
          const Received got = co_await op;
          CHECK(got.bytes == 60);
        }
        for (send_operation& op : sends) co_await op;
        for (std::size_t i = 0; i < 3; ++i) CHECK(filled(in.bytes().subspan(60 * i, 60), 9));
      }(&at, inlined));
    }
  }
}
