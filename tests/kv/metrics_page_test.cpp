// Statistics for Prometheus, over HTTP.
#include "../../apps/kv/server/metrics_page.hpp"

#include "../../apps/kv/server/figures.hpp"

#include <doctest/doctest.h>

#include <cordma/runtime/clock.hpp>

using namespace kv;

namespace {

struct page_stage {
  cordma::virtual_clock time;
  cordma::reactor loop{{.mode = cordma::wait_mode::polling, .time = &time}};
  bool woken = false;
  std::unique_ptr<conversation> page = make_metrics_page(
      loop,
      [] {
        return metrics_text()
            .family("keys", metrics_text::kind::gauge, "Keys")
            .value(std::uint64_t{7})
            .take();
      },
      [](void* context) noexcept { static_cast<page_stage*>(context)->woken = true; }, this);

  void say(std::string_view text) { page->received(std::span(text.data(), text.size())); }
  std::string heard() {
    const std::string text(page->pending().begin(), page->pending().end());
    page->sent(text.size());
    return text;
  }
};

}  // namespace

TEST_CASE("a request is answered once it is whole, wherever it is cut, and then it is over") {
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
  for (std::size_t cut = 0; cut < request.size(); ++cut) {
    page_stage s;
    s.say(std::string_view(request).substr(0, cut));
    CHECK(s.heard().empty());
    CHECK(s.page->ended() == session::ending::no);
    s.say(std::string_view(request).substr(cut));
    const std::string answer = s.heard();
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(
        answer.ends_with("\r\n\r\n# HELP cordma_kv_keys Keys\n# TYPE cordma_kv_keys gauge\n"
                         "cordma_kv_keys 7\n"));
    CHECK(s.page->ended() == session::ending::when_sent);
    CHECK_FALSE(s.page->wants_input());
  }
}

TEST_CASE("the text has labels, and its length is right") {
  metrics_text t;
  t.family("a_total", metrics_text::kind::counter, "A").value(std::uint64_t{1}, "worker=\"0\"");
  t.value(2.5, "worker=\"1\"");
  CHECK(t.take() ==
        "# HELP cordma_kv_a_total A\n# TYPE cordma_kv_a_total counter\n"
        "cordma_kv_a_total{worker=\"0\"} 1\ncordma_kv_a_total{worker=\"1\"} 2.5\n");
  page_stage whole;
  whole.say("GET /metrics HTTP/1.0\r\n\r\n");
  const std::string page = whole.heard();
  const std::string length = std::to_string(page.size() - page.find("\r\n\r\n") - 4);
  page_stage s;
  s.say("HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
  const std::string answer = s.heard();
  CHECK(answer.find("Content-Length: " + length + "\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("native clients are in it, and how far the journal is behind") {
  metrics_text t;
  write_native(t, {.open = 1,
                   .connections = 2,
                   .refused = 3,
                   .timed_out = 4,
                   .lent_bytes = 5,
                   .batches = 6,
                   .operations = 7});
  journal_info j;
  j.pending_bytes = 8;
  j.pending_records = 9;
  j.backlogged = true;
  j.writes = {
      .writes = 10, .syncs = 11, .slow_syncs = 12, .last_sync = std::chrono::milliseconds(1500)};
  write_journal(t, j);
  const std::string text = t.take();
  for (const char* line :
       {"native_connections 1", "native_connections_received_total 2",
        "native_connections_refused_total 3", "native_connections_timed_out_total 4",
        "native_memory_lent_bytes 5", "native_batches_total 6", "native_operations_total 7",
        "journal_pending_bytes 8", "journal_pending_records 9", "journal_backlogged 1",
        "journal_writes_total 10", "journal_fsyncs_total 11", "journal_slow_fsyncs_total 12",
        "journal_last_fsync_seconds 1.5"}) {
    CAPTURE(line);
    CHECK(text.find("\ncordma_kv_" + std::string(line) + "\n") != std::string::npos);
  }
}

TEST_CASE("other requests are refused") {
  for (const auto& [request, status] :
       {std::pair{"GET / HTTP/1.1\r\n\r\n", "404"},
        std::pair{"POST /metrics HTTP/1.1\r\n\r\n", "405"},
        std::pair{"*1\r\n$4\r\nPING\r\n\r\n", "400"}, std::pair{"\r\n\r\n", "400"}}) {
    page_stage s;
    s.say(request);
    CHECK(s.heard().substr(9, 3) == status);
    CHECK(s.page->ended() == session::ending::when_sent);
  }
  page_stage s;
  s.say("GET /metrics HTTP/1.1\r\n");
  s.say(std::string(most_request_bytes, 'x'));
  CHECK(s.heard().substr(9, 3) == "431");
}

TEST_CASE("who asks for nothing is sent away") {
  page_stage s;
  s.say("GET ");
  s.time.advance_to(s.loop.now() + std::chrono::seconds(11));
  for (int i = 0; i < 100 && !s.woken; ++i) s.loop.turn();
  CHECK(s.woken);
  CHECK(s.page->ended() == session::ending::now);
}
