// A transport that cannot wake a sleeper: the Workers that accept it, and those that refuse it.
#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <cordma/net/transport/transport.hpp>

#include <memory>
#include <utility>

using namespace cordma;
using namespace cordma::test;

namespace {

// A completion queue without events, as on some devices and providers.
class deaf_adapter final : public transport::adapter {
 public:
  std::size_t poll(std::span<transport::completion>, bool&) noexcept override { return 0; }
  transport::cm_event next_event() override { return {}; }
  [[nodiscard]] int wait_fd() const noexcept override { return poller::cannot_wake; }
  [[nodiscard]] bool edge_triggered() const noexcept override { return false; }
  arm_state arm() noexcept override { return arm_state::armed; }
  void disarm() noexcept override {}
  result<std::unique_ptr<transport::listener>> listen(const transport::address&) override {
    return errc::not_supported;
  }
  result<std::unique_ptr<transport::queue_pair>> connect(const transport::address&,
                                                         const transport::queue_pair_options&,
                                                         std::span<const std::byte>) override {
    return errc::unreachable;
  }
  result<std::unique_ptr<transport::queue_pair>> accept(std::uint64_t,
                                                        const transport::queue_pair_options&,
                                                        std::span<const std::byte>) override {
    return errc::bad_state;
  }
  result<void> reject(std::uint64_t, std::span<const std::byte>) override {
    return errc::bad_state;
  }
};

class deaf_domain final : public transport::domain {
 public:
  deaf_domain() { caps_.transport = transport::kind::sim; }
  [[nodiscard]] const transport::capabilities& caps() const noexcept override { return caps_; }
  result<transport::memory_keys> register_memory(const transport::memory_range&) override {
    return transport::memory_keys{1, 1};
  }
  void deregister_memory(std::uint32_t) noexcept override {}
  result<std::unique_ptr<transport::adapter>> open(reactor&) override {
    return std::unique_ptr<transport::adapter>(std::make_unique<deaf_adapter>());
  }

 private:
  transport::capabilities caps_;
};

context_options with_deaf_domain() {
  context_options o;
  o.transports = {transport::kind::tcp};
  o.domains = {std::make_shared<deaf_domain>()};
  return o;
}

// Result of creating a Worker.
failure refusal(Context& context, wait_mode mode) {
  try {
    const Worker w(context, {.mode = mode});
    return {errc::ok};
  } catch (const error& e) {
    return e.why();
  }
}

task<> look_once() { co_await yield(); }

}  // namespace

TEST_CASE(
    "D6: a Worker that sleeps refuses a transport without events, by name; polling takes it") {
  Context context(with_deaf_domain());
  CHECK_FALSE(context.find(transport::kind::sim)->event_driven);
  CHECK(context.find(transport::kind::tcp)->event_driven);
  for (const wait_mode mode : {wait_mode::event, wait_mode::adaptive}) {
    CAPTURE(static_cast<int>(mode));
    const failure why = refusal(context, mode);
    CHECK(why.code() == errc::not_supported);
    CHECK(why.message().find("sim") != std::string::npos);
  }
  Worker awake(context, {.mode = wait_mode::polling});
  awake.run(look_once());
}

TEST_CASE("D6: a shared loop that sleeps stays as it was when it refuses a Worker") {
  Context context(with_deaf_domain());
  Context sound(host::only());
  reactor loop({.mode = wait_mode::event});
  try {
    const Worker refused(context, loop);
    FAIL_CHECK("it was taken");
  } catch (const error& e) {
    CHECK(e.condition() == errc::not_supported);
  }
  Worker fine(sound, loop);
  fine.run(look_once());
}
