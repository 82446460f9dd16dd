#include <cordma/net/request_session.hpp>

#include <cordma/net/datapath/option_bounds.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/rpc/request_core.hpp>
#include <cordma/net/worker.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <array>

namespace cordma {

using manner = detail::request_call::manner;

namespace {

constexpr std::uint32_t most_in_a_row = 1U << 20;

// Whether the error came from the peer, and not from this side.
bool is_answer(errc code) noexcept {
  return code == errc::not_found || code == errc::rejected || code == errc::truncated;
}

}  // namespace

class RequestSession::use {
 public:
  use(RequestSession& of, link& over) noexcept : of_(&of), over_(&over) { ++over_->users; }
  use(use&& other) noexcept : of_(other.of_), over_(std::exchange(other.over_, nullptr)) {}
  use& operator=(use&&) = delete;
  ~use() {
    if (over_ == nullptr) return;
    CORDMA_ASSERT_OP(over_->users, >, 0U);
    if (--over_->users == 0 && over_ != of_->current_) of_->drop_unused();
  }
  [[nodiscard]] link& operator*() const noexcept { return *over_; }
  [[nodiscard]] link* operator->() const noexcept { return over_; }

 private:
  RequestSession* of_;
  link* over_;
};

RequestSession::RequestSession(Worker& worker, Messages& messages, Requests& requests,
                               std::vector<std::string> addresses, const session_options& options)
    : worker_(&worker),
      messages_(&messages),
      requests_(&requests),
      addresses_(std::move(addresses)),
      options_(options),
      chance_(options.seed * 2 + 1),
      closing_(worker.loop()) {
  if (addresses_.empty()) throw_error({errc::invalid_value, "a session needs an address"});
  detail::require_within("session_options::most_failures", options.most_failures, 1, most_in_a_row);
  detail::require_within("session_options::most_redirects", options.most_redirects, 1,
                         most_in_a_row);
  detail::require_positive("session_options::first_pause", options.first_pause);
  detail::require_positive("session_options::longest_pause", options.longest_pause);
  detail::require_positive("session_options::close_timeout", options.close_timeout);
}

RequestSession::~RequestSession() {
  for (const auto& l : links_) CORDMA_REQUIRE_OP(l->users, ==, 0U);
}

Endpoint* RequestSession::endpoint() const noexcept {
  return current_ != nullptr ? &current_->endpoint : nullptr;
}

// ---- connections ----

void RequestSession::drop_unused() noexcept {
  std::erase_if(links_, [this](std::unique_ptr<link>& l) {
    if (l.get() == current_ || l->users != 0) return false;
    if (l->endpoint.state() == endpoint_state::connected) {
      try {
        closing_.spawn(close_quietly(std::make_unique<Endpoint>(std::move(l->endpoint))));
      } catch (const std::bad_alloc&) {
        // Then it ends without notice.
      }
    }
    return true;
  });
  dropped_.set();
}

task<void> RequestSession::close_quietly(std::unique_ptr<Endpoint> endpoint) {
  try {
    co_await with_timeout(options_.close_timeout, endpoint->close());
  } catch (...) {
    // The deadline passed, or memory is missing: it ends without notice.
  }
  endpoint.reset();
  dropped_.set();
}

void RequestSession::leave_current() noexcept {
  current_ = nullptr;
  drop_unused();
}

void RequestSession::on_answer(link& over) noexcept {
  over.answered = true;
  failures_ = redirects_ = 0;
}

void RequestSession::leave_address() noexcept {
  if (!moved_to_.empty()) {
    moved_to_.clear();
  } else {
    ++next_;
  }
}

void RequestSession::failed(const failure& why) {
  if (++failures_ < options_.most_failures) return;
  failures_ = 0;
  give_up(why);
}

void RequestSession::give_up(const failure& why) {
  ++given_up_;
  why_given_up_ = why;
  throw_error(why);
}

void RequestSession::move_to(std::string_view address, const failure& why) {
  if (++redirects_ > options_.most_redirects) {
    redirects_ = 0;
    give_up(why);
  }
  ++counters_.redirects;
  moved_to_ = address;
}

// Waits at least half of the time; the rest is random, by xorshift64*.
task<void> RequestSession::pause(std::uint32_t failures) {
  if (failures == 0) co_return;
  duration time = options_.first_pause;
  for (std::uint32_t i = 1; i < failures && time < options_.longest_pause; ++i) time *= 2;
  time = std::min(time, options_.longest_pause);
  chance_ ^= chance_ >> 12;
  chance_ ^= chance_ << 25;
  chance_ ^= chance_ >> 27;
  const std::uint64_t part = chance_ * 0x2545F4914F6CDD1DULL >> 44;  // of 2^20
  const auto half = time.count() / 2;
  time = duration(half + (half >> 10) * static_cast<std::int64_t>(part) / (1 << 10));
  co_await sleep_for(time);
}

task<RequestSession::use> RequestSession::connected(std::uint32_t again) {
  const std::uint64_t before = given_up_;
  const mutex::guard alone = co_await connecting_.lock();
  const bool is_there =
      current_ != nullptr && current_->endpoint.state() == endpoint_state::connected;
  // Other callers made the attempts that this one waited for; their failure applies to it too.
  if (given_up_ != before && !is_there) throw_error(*why_given_up_);
  for (;;) {
    if (current_ != nullptr) {
      if (current_->endpoint.state() == endpoint_state::connected) co_return use(*this, *current_);
      leave_current();
    }
    co_await pause(std::max(failures_, again));
    connect_options how;
    how.endpoint = options_.endpoint;
    how.messages = messages_;
    const std::string to = moved_to_.empty() ? addresses_[next_ % addresses_.size()] : moved_to_;
    connect_operation connecting = worker_->connect(to, how);
    result<Endpoint> made = co_await connecting.result();
    if (made) {
      ++counters_.connects;
      CORDMA_ASSERT(current_ == nullptr);
      links_.push_back(std::make_unique<link>());
      current_ = links_.back().get();
      current_->endpoint = std::move(*made);
      co_return use(*this, *current_);
    }
    if (made.code() == errc::canceled) throw_error(made.why());
    const std::string_view elsewhere = protocol::redirect_of(connecting.rejection());
    if (elsewhere.empty()) {
      ++counters_.failures;
      leave_address();
      failed(made.why());
    } else {
      move_to(elsewhere, made.why());
    }
  }
}

task<void> RequestSession::close() {
  leave_current();
  const auto is_left = [this](const auto& l) { return l.get() != current_; };
  while (closing_.running() != 0 || std::ranges::any_of(links_, is_left)) {
    dropped_.reset();
    co_await dropped_.wait();
  }
}

// ---- calls ----

bool RequestSession::goes_on(link& over, const failure& why, std::string_view moved_to,
                             bool idempotent) {
  if (!moved_to.empty()) {
    over.answered = true;
    if (&over == current_) {
      leave_current();
      move_to(moved_to, why);
    }
    return true;
  }
  const errc code = why.code();
  // Reachable, but without a server for requests.
  const bool serves_none = code == errc::not_supported;
  const bool unsent = code == errc::flushed || code == errc::not_connected || serves_none;
  if (!unsent && code != errc::connection_reset) {
    if (is_answer(code)) on_answer(over);
    return false;
  }
  if (!std::exchange(over.failed, true)) {
    ++counters_.failures;
    if (&over == current_) leave_address();
    if (&over == current_ && serves_none) leave_current();
    if (!over.answered) failed(why);
  }
  if (!unsent && !idempotent) return false;
  ++counters_.retries;
  return true;
}

task<Response> RequestSession::ask(question what) {
  reactor& home = worker_->loop();
  if (what.options.timeout < duration::zero()) {
    throw_error({errc::timed_out, "its timeout is below zero"});
  }
  const bool limited = what.options.timeout > duration::zero();
  const time_point until = limited ? after(home.now(), what.options.timeout) : never;
  std::uint32_t cut_off = 0;
  std::uint32_t sent_on = 0;
  for (;;) {
    const std::uint32_t again = cut_off > 1 ? cut_off - 1 : 0;  // the first retry is immediate
    const use over = co_await with_deadline(until, connected(again));
    const duration left = limited ? std::max(until - home.now(), duration(1)) : duration::zero();
    call_operation op(requests_->core(), over->endpoint.core(), what.how, what.method, what.request,
                      what.room, left);
    const result<Response> got = co_await op.result();
    if (got) {
      on_answer(*over);
      co_return *got;
    }
    if (!goes_on(*over, got.why(), op.redirected_to(), what.options.idempotent)) {
      throw_error(got.why());
    }
    // The call may itself end its connections, or be redirected in a circle while others are
    // answered.
    const bool moved = !op.redirected_to().empty();
    if (++(moved ? sent_on : cut_off) >
        (moved ? options_.most_redirects : options_.most_failures)) {
      throw_error(got.why());
    }
  }
}

task<Response> RequestSession::call(std::uint16_t method, Slice request, Slice room,
                                    session_call_options options) {
  return ask({manner::call, method, request, room, options});
}

task<void> RequestSession::notify(std::uint16_t method, Slice request,
                                  session_call_options options) {
  const question what{manner::notify, method, request, Slice(), options};
  co_await ask(what);
}

task<void> RequestSession::notify_acked(std::uint16_t method, Slice request,
                                        session_call_options options) {
  const question what{manner::notify_acked, method, request, Slice(), options};
  co_await ask(what);
}

result<void> redirect(ConnectionRequest& request, std::string_view address) {
  if (address.empty() || address.size() > protocol::longest_redirect) {
    return failure{errc::invalid_value, "an address of " + std::to_string(address.size()) +
                                            " bytes: 1 to " +
                                            std::to_string(protocol::longest_redirect)};
  }
  std::array<std::byte, protocol::longest_redirect_data> data{};
  protocol::encode_redirect(address, data);
  return request.reject(std::span(data).first(protocol::redirect_head_bytes + address.size()));
}

}  // namespace cordma
