// The capacities that the device granted a queue pair can be read back; no more than requested is
// used.
#include "own_device.hpp"
#include "property.hpp"

#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace cordma;
using namespace cordma::test;
using namespace cordma::transport;

namespace {

// The program's own device, which reports altered capacities for each queue pair, or creates none.
class altered_device {
 public:
  altered_device() {
    verbs_context* const calls = verbs_get_ctx(device_.context());
    create = calls->create_qp_ex;
    calls->create_qp_ex = [](ibv_context* context, ibv_qp_init_attr_ex* attr) -> ibv_qp* {
      if (exhausted) {
        errno = ENOMEM;
        return nullptr;
      }
      ibv_qp* const made = create(context, attr);
      attr->cap = given;
      return made;
    };
    exhausted = false;
  }
  [[nodiscard]] ibv_pd* pd() noexcept { return device_.pd(); }
  void refuse_completion_queues() {
    verbs_get_ctx(device_.context())->create_cq_ex = [](ibv_context*,
                                                        ibv_cq_init_attr_ex*) -> ibv_cq_ex* {
      errno = ENOMEM;
      return nullptr;
    };
  }
  inline static ibv_qp_cap given{};
  inline static bool exhausted = false;

 private:
  inline static decltype(verbs_context::create_qp_ex) create = nullptr;
  own_device device_;
};

struct fixture {
  fixture() {
    verbs_options o;
    o.pd = hardware.pd();
    device = make_verbs(o).value();
    at = device->open(loop).value();
  }
  altered_device hardware;
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device;
  std::unique_ptr<adapter> at;
};

}  // namespace

TEST_CASE("B5: what the device gave is told as a property, and depths stay those asked for") {
  fixture f;
  altered_device::given = {.max_send_wr = 1001,
                           .max_recv_wr = 1002,
                           .max_send_sge = 31,
                           .max_recv_sge = 32,
                           .max_inline_data = 503};
  queue_pair_options asked;
  asked.send_depth = 100;
  asked.recv_depth = 90;
  const std::unique_ptr<queue_pair> made = f.at->create(asked).value();
  CHECK(property_of(*made, "max_send_wr") == "1001");
  CHECK(property_of(*made, "max_recv_wr") == "1002");
  CHECK(property_of(*made, "max_send_sge") == "31");
  CHECK(property_of(*made, "max_recv_sge") == "32");
  CHECK(property_of(*made, "max_inline_data") == "503");
  CHECK(made->actual().send_depth == 100);
  CHECK(made->actual().recv_depth == 90);
  CHECK(made->actual().max_segments == asked.max_segments);
  CHECK(made->actual().inline_bytes == asked.inline_bytes);
}

TEST_CASE("B5: bytes that the device does not take inline are not said to be granted") {
  fixture f;
  altered_device::given = {.max_send_wr = 200,
                           .max_recv_wr = 200,
                           .max_send_sge = 4,
                           .max_recv_sge = 4,
                           .max_inline_data = 16};
  queue_pair_options asked;
  asked.inline_bytes = 64;
  const std::unique_ptr<queue_pair> made = f.at->create(asked).value();
  CHECK(made->actual().inline_bytes == 16);
}

TEST_CASE("B5: a device without room for a completion queue says what to do about it") {
  fixture f;
  f.hardware.refuse_completion_queues();
  const result<std::unique_ptr<adapter>> opened = f.device->open(f.loop);
  REQUIRE_FALSE(opened.ok());
  CAPTURE(opened.why().message());
  CHECK(opened.code() == errc::no_memory);
  CHECK(opened.why().message().find("lower verbs.cq_entries") != std::string::npos);
}

TEST_CASE("B5: a device without room for a queue pair says what to do about it") {
  fixture f;
  altered_device::given = {};
  const std::unique_ptr<queue_pair> before = f.at->create({}).value();
  altered_device::exhausted = true;
  const result<std::unique_ptr<queue_pair>> made = f.at->create({});
  REQUIRE_FALSE(made.ok());
  CAPTURE(made.why().message());
  CHECK(made.code() == errc::no_memory);
  CHECK(made.why().message().find("ask for smaller depths, or end other connections") !=
        std::string::npos);
}
