// Metrics for Prometheus: HTTP in front of a text.
#pragma once

#include "conversation.hpp"

#include <cordma/runtime/reactor.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kv {

// Returns the current text of a page; called on the thread of the worker.
using page_writer = std::function<std::string()>;

// Answers one request, GET or HEAD /metrics, then ends. Ends also if none arrives within
// `patience`. Keeps at most `most_request_bytes`.
inline constexpr std::size_t most_request_bytes = 8 << 10;
[[nodiscard]] std::unique_ptr<conversation> make_metrics_page(
    cordma::reactor& loop, const page_writer& page, session::wake_function wake, void* context,
    cordma::duration patience = std::chrono::seconds(10));

// Writes lines in Prometheus's text format.
class metrics_text {
 public:
  enum class kind : std::uint8_t { counter, gauge };
  // Begins a family: later calls of value() belong to it. "cordma_kv_" is prepended to the name.
  metrics_text& family(std::string_view name, kind k, std::string_view help);
  // `labels`: "worker=\"0\"" or nothing.
  metrics_text& value(double v, std::string_view labels = {});
  metrics_text& value(std::uint64_t v, std::string_view labels = {});
  [[nodiscard]] std::string take() noexcept { return std::move(text_); }

 private:
  void line(std::string_view labels, std::string_view number);
  std::string name_;
  std::string text_;
};

}  // namespace kv
