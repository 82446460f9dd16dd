// Each promise of net/README.md that is broken on purpose is noticed, and says by which values.
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
  CHECK(says(said, "ASSERT failed: state >> s, with 3 and 1"));
}

TEST_CASE("credits are never negative: what is granted covers what is in flight") {
  const std::string said = last_words([] {
    prepared p;
    detail::endpoint_core& e = p.endpoint.core();
    e.send_credits = e.granted.send_depth - 100'000;
    e.refresh_grant();
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: granted.send_depth >= frame_sends + sends, with "));
  CHECK(says(said, " and 100000"));
}

TEST_CASE("every place has an owner: a sink leaves the one that it has") {
  const std::string said = last_words([] {
    prepared p;
    silent_sink s;
    s.sink_number = 7;
    p.worker.core().remove(s);
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: s.sink_number < sinks_.size(), with 7 and 0"));
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

TEST_CASE("the accounts balance at the end: an Endpoint that goes leaves no orphan") {
  const std::string said = last_words([] {
    prepared p;
    p.endpoint.core().orphans = 1;
    p.endpoint = Endpoint();
  });
  CAPTURE(said);
  CHECK(says(said, "ASSERT failed: orphans == 0U, with 1 and 0"));
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
  up.pair = e.pair.get();
  p.endpoint.abort();
  p.worker.core().on_event(*e.via, std::move(up));
  CHECK(p.endpoint.state() == endpoint_state::closed);
  CHECK(e.open_to == 0);
}
