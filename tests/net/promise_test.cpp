// Every guarantee of net/README.md that is broken on purpose is detected, and the message contains
// the values.
#include <doctest/doctest.h>

#include <cordma/net/context.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/net/worker.hpp>

#include "support/last_words.hpp"

using namespace cordma;
using testing::last_words;
using testing::says;

namespace {

context_options tcp_alone() {
  context_options o;
  o.transports = {transport::kind::tcp};
  return o;
}

// An Endpoint that waits for its peer's descriptor.
struct prepared {
  Context context{tcp_alone()};
  Worker worker{context};
  Endpoint endpoint = worker.prepare().value();
};

struct silent_acceptor final : detail::request_acceptor {
  void on_request(transport::cm_event) noexcept override {}
  void lose(const detail::adapter_poller&, const failure&) noexcept override {}
  void on_worker_gone() noexcept override {}
  void leave_to_parent() noexcept override {}
};

struct silent_sink final : detail::completion_sink {
  bool on_completion(std::uint32_t, const transport::completion&) noexcept override { return true; }
  void on_joined(detail::endpoint_core&) override {}
  void on_worker_gone() noexcept override {}
};

}  // namespace

TEST_CASE("an Endpoint's state never goes back") {
  const std::string said = last_words([] {
    prepared p;
    p.endpoint.core().set_state(endpoint_state::closed);
    p.endpoint.core().set_state(endpoint_state::connected);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: state_ >> next, with 3 and 1"));
}

TEST_CASE("places are never negative: what is granted covers what is in flight") {
  const std::string said = last_words([] {
    detail::request_line line;
    line.resize(2);
    line.take_place();
    line.take_place();
    line.resize(1);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: depth >= used, with 1 and 2"));
}

TEST_CASE("every place has an owner: a sink leaves the one that it has") {
  const std::string said = last_words([] {
    prepared p;
    silent_sink s;
    s.count_as(7);
    p.worker.core().remove(s);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: s.number() < sinks_.size(), with 7 and 0"));
}

TEST_CASE("what is in a list is there once") {
  const std::string said = last_words([] {
    prepared p;
    silent_acceptor a;
    p.worker.core().add(a);
    p.worker.core().add(a);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: std::ranges::count(listeners_, &l) == 0, with 1 and 0"));
}

TEST_CASE("the accounts balance at the end: a Worker gets back what it gave") {
  const std::string said = last_words([] {
    prepared p;
    p.worker.core().take_back({.slots = 1U << 20});
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: reserved_slots_ >= share.slots, with "));
  CHECK(says(said, " and 1048576"));
}

TEST_CASE("the accounts balance at the end: a region is let go as often as it was held") {
  const std::string said = last_words([] {
    prepared p;
    detail::region_core region(nullptr, {});
    detail::retain(region);
    region.references = 0;
    detail::release(region);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: before > 0U, with 0 and 0"));
}

TEST_CASE("an Endpoint that ended does not come up, though its transport had reported that") {
  prepared p;
  detail::endpoint_core& e = p.endpoint.core();
  transport::cm_event up;
  up.what = transport::cm_event::type::established;
  up.pair = e.pair();
  p.endpoint.abort();
  p.worker.core().on_event(*e.via(), std::move(up));
  CHECK(p.endpoint.state() == endpoint_state::closed);
  CHECK(e.is_shut());
}
