#include "metrics_page.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

namespace kv {
namespace {

class metrics_page final : public conversation {
 public:
  metrics_page(cordma::reactor& loop, const page_writer& page, session::wake_function wake,
               void* context, cordma::duration patience)
      : page_(page), wake_(wake), context_(context), too_late_(*this) {
    loop.add(too_late_, loop.now() + patience);
  }

  void received(std::span<const char> bytes) override {
    if (answered_) return;
    const std::size_t room = most_request_bytes - request_.size();
    request_.append(bytes.data(), std::min(bytes.size(), room));
    if (request_.find("\r\n\r\n") != std::string::npos ||
        request_.find("\n\n") != std::string::npos) {
      answer();
    } else if (bytes.size() >= room) {
      respond("431 Request Header Fields Too Large", "the request is too long\n", true);
    }
  }
  void no_more_input() override { late_ = late_ || !answered_; }
  [[nodiscard]] std::span<const char> pending() const noexcept override {
    return std::span(response_).subspan(sent_);
  }
  void sent(std::size_t bytes) noexcept override { sent_ += bytes; }
  [[nodiscard]] bool wants_input() const noexcept override { return !answered_; }
  [[nodiscard]] session::ending ended() const noexcept override {
    if (late_) return session::ending::now;
    return answered_ ? session::ending::when_sent : session::ending::no;
  }

 private:
  struct alarm final : cordma::timer {
    explicit alarm(metrics_page& p) noexcept
        : timer([](timer& t) noexcept { static_cast<alarm&>(t).page.run_out(); }), page(p) {}
    metrics_page& page;
  };

  void answer() {
    const std::string_view line =
        std::string_view(request_).substr(0, request_.find_first_of("\r\n"));
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first == line.npos ? 0 : first + 1);
    if (first == line.npos || second == line.npos ||
        !line.substr(second + 1).starts_with("HTTP/")) {
      return respond("400 Bad Request", "that is no HTTP\n", true);
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view path = line.substr(first + 1, second - first - 1);
    const bool body = method != "HEAD";
    if (body && method != "GET") {
      respond("405 Method Not Allowed", "only GET and HEAD\n", true);
    } else if (path.substr(0, path.find('?')) != "/metrics") {
      respond("404 Not Found", "figures are at /metrics\n", body);
    } else {
      respond("200 OK", page_(), body);
    }
  }
  void respond(std::string_view status, std::string_view text, bool body) {
    response_.append("HTTP/1.1 ").append(status);
    response_.append(
        "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close");
    if (status.starts_with("405")) response_.append("\r\nAllow: GET, HEAD");
    response_.append("\r\nContent-Length: ").append(std::to_string(text.size())).append("\r\n\r\n");
    if (body) response_.append(text);
    answered_ = true;
  }
  void run_out() noexcept {
    late_ = true;
    wake_(context_);
  }

  page_writer page_;
  session::wake_function wake_;
  void* context_;
  std::string request_;
  std::string response_;
  std::size_t sent_ = 0;
  bool answered_ = false;
  bool late_ = false;  // timed out, or the peer closed before a request
  alarm too_late_;
};

}  // namespace

std::unique_ptr<conversation> make_metrics_page(cordma::reactor& loop, const page_writer& page,
                                                session::wake_function wake, void* context,
                                                cordma::duration patience) {
  return std::make_unique<metrics_page>(loop, page, wake, context, patience);
}

metrics_text& metrics_text::family(std::string_view name, kind k, std::string_view help) {
  name_ = "cordma_kv_";
  name_ += name;
  text_.append("# HELP ").append(name_).append(" ").append(help).append("\n# TYPE ");
  text_.append(name_).append(k == kind::counter ? " counter\n" : " gauge\n");
  return *this;
}

metrics_text& metrics_text::value(double v, std::string_view labels) {
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), v).ptr;
  line(labels, {digits.data(), static_cast<std::size_t>(end - digits.data())});
  return *this;
}

metrics_text& metrics_text::value(std::uint64_t v, std::string_view labels) {
  line(labels, std::to_string(v));
  return *this;
}

void metrics_text::line(std::string_view labels, std::string_view number) {
  text_ += name_;
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_.append(" ").append(number).append("\n");
}

}  // namespace kv
