#include <cordma/net/request_session.hpp>

#include <cordma/net/detail/option_bounds.hpp>
#include <cordma/net/detail/request_core.hpp>
#include <cordma/net/protocol/request.hpp>
#include <cordma/net/worker.hpp>
#include <cordma/runtime/sleep.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <array>

namespace cordma {

using manner = detail::request_call::manner;

namespace {

constexpr std::uint32_t most_in_a_row = 1U << 20;

task<void> close_quietly(std::unique_ptr<Endpoint> endpoint, duration most) {
  try {
    co_await with_timeout(most, endpoint->close());
  } catch (const error&) {
    // It ends without a word.
  }
}

}  // namespace

class RequestSession::use {
 public:
  use(RequestSession& of, link& over) noexcept : of_(of), over_(over) { ++over_.users; }
  use(const use&) = delete;
  use& operator=(const use&) = delete;
  ~use() {
    if (--over_.users == 0 && &over_ != of_.current_) of_.drop_unused();
  }

 private:
  RequestSession& of_;
  link& over_;
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
        closing_.spawn(close_quietly(std::make_unique<Endpoint>(std::move(l->endpoint)),
                                     options_.close_timeout));
      } catch (const std::bad_alloc&) {
        // Then it ends without a word.
      }
    }
    return true;
  });
  dropped_.set();
}

void RequestSession::leave_current() noexcept {
  current_ = nullptr;
  drop_unused();
}

void RequestSession::failed(const failure& why) {
  ++counters_.failures;
  if (!moved_to_.empty()) {
    moved_to_.clear();
  } else {
    ++next_;
  }
  if (++failures_ < options_.most_failures) return;
  failures_ = 0;
  throw_error(why);
}

void RequestSession::move_to(std::string_view address, const failure& why) {
  if (++redirects_ > options_.most_redirects) {
    redirects_ = 0;
    throw_error(why);
  }
  ++counters_.redirects;
  moved_to_ = address;
}

// Half of the time at least, by xorshift64*.
task<void> RequestSession::pause() {
  if (failures_ == 0) co_return;
  duration time = options_.first_pause;
  for (std::uint32_t i = 1; i < failures_ && time < options_.longest_pause; ++i) time *= 2;
  time = std::min(time, options_.longest_pause);
  chance_ ^= chance_ >> 12;
  chance_ ^= chance_ << 25;
  chance_ ^= chance_ >> 27;
  const std::uint64_t part = chance_ * 0x2545F4914F6CDD1DULL >> 44;  // of 2^20
  const auto half = time.count() / 2;
  time = duration(half + (half >> 10) * static_cast<std::int64_t>(part) / (1 << 10));
  co_await sleep_for(time);
}

task<RequestSession::link*> RequestSession::connected() {
  const mutex::guard alone = co_await connecting_.lock();
  for (;;) {
    if (current_ != nullptr) {
      if (current_->endpoint.state() == endpoint_state::connected) co_return current_;
      leave_current();
    }
    co_await pause();
    connect_options how;
    how.endpoint = options_.endpoint;
    how.messages = messages_;
    const std::string to = moved_to_.empty() ? addresses_[next_ % addresses_.size()] : moved_to_;
    connect_operation connecting = worker_->connect(to, how);
    result<Endpoint> made = co_await connecting.result();
    if (made) {
      ++counters_.connects;
      links_.push_back(std::make_unique<link>());
      current_ = links_.back().get();
      current_->endpoint = std::move(*made);
      co_return current_;
    }
    if (made.code() == errc::canceled) throw_error(made.why());
    const std::string_view elsewhere = protocol::redirect_of(connecting.rejection());
    if (elsewhere.empty()) {
      failed(made.why());
    } else {
      move_to(elsewhere, made.why());
    }
  }
}

task<void> RequestSession::close() {
  leave_current();
  while (std::ranges::any_of(links_, [this](const auto& l) { return l.get() != current_; })) {
    dropped_.reset();
    co_await dropped_.wait();
  }
  co_await closing_.join();
}

// ---- calls ----

bool RequestSession::goes_on(link& over, const failure& why, std::string_view moved_to,
                             bool idempotent) {
  if (!moved_to.empty()) {
    if (&over == current_) {
      leave_current();
      move_to(moved_to, why);
    }
    return true;
  }
  const errc code = why.code();
  const bool unsent = code == errc::flushed || code == errc::not_connected;
  if (!unsent && code != errc::connection_reset) {
    failures_ = redirects_ = 0;
    return false;
  }
  if (!std::exchange(over.failed, true)) failed(why);
  if (!unsent && !idempotent) return false;
  ++counters_.retries;
  return true;
}

task<Response> RequestSession::ask(question what) {
  reactor& home = worker_->loop();
  const bool limited = what.options.timeout > duration::zero();
  const time_point until = limited ? after(home.now(), what.options.timeout) : never;
  for (;;) {
    link* const over = co_await with_deadline(until, connected());
    const use while_asking(*this, *over);
    const duration left = limited ? std::max(until - home.now(), duration(1)) : duration::zero();
    call_operation op(requests_->core(), over->endpoint.core(), what.how, what.method, what.request,
                      what.room, left);
    const result<Response> got = co_await op.result();
    if (got) {
      failures_ = redirects_ = 0;
      co_return *got;
    }
    if (!goes_on(*over, got.why(), op.redirected_to(), what.options.idempotent)) {
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
