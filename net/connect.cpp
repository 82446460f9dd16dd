#include <cordma/net/connect.hpp>

#include <cordma/net/connecting/listener_core.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/messaging/message_core.hpp>

#include <new>

namespace cordma {

connect_operation::connect_operation(detail::worker_core& worker, std::string to,
                                     const connect_options& options)
    : operation(&worker.home()),
      worker_(&worker),
      options_(options),
      private_data_(options.private_data.begin(), options.private_data.end()) {
  cordma::result<transport::address> a = parse_address(to);
  if (a) {
    to_ = std::move(*a);
  } else {
    failure_ = a.why();
  }
}

connect_operation::connect_operation(detail::worker_core& worker,
                                     std::shared_ptr<detail::pending_request> request,
                                     const connect_options& options)
    : operation(&worker.home()),
      worker_(&worker),
      options_(options),
      private_data_(options.private_data.begin(), options.private_data.end()),
      request_(std::move(request)) {}

namespace {

// Whether the next transport is tried after this failure. A failure of one transport never keeps
// the others from being used. An answer of the peer, and the end of the caller's timeout, apply to
// all transports.
bool may_be_better_elsewhere(errc code) noexcept {
  switch (code) {
    case errc::rejected:
    case errc::timed_out:
    case errc::unsupported_version:
    case errc::invalid_value:
    case errc::bad_state:
    case errc::canceled:
    case errc::shutdown: return false;
    default: return true;
  }
}

// Whether the failure has to be reported in addition to those of other transports.
bool says_what_is_wrong(errc code) noexcept {
  return code != errc::unreachable && code != errc::not_supported;
}

}  // namespace

connect_operation::connect_operation(detail::worker_core* worker, failure why)
    : operation(worker != nullptr ? &worker->home() : nullptr), worker_(worker) {
  failure_ = std::move(why);
}

connect_operation::connect_operation(connect_operation&& other) noexcept
    : operation(std::move(other)),
      worker_(other.worker_),
      to_(std::move(other.to_)),
      options_(other.options_),
      private_data_(std::move(other.private_data_)),
      request_(std::move(other.request_)),
      next_adapter_(other.next_adapter_),
      endpoint_(std::move(other.endpoint_)),
      outcome_(other.outcome_),
      tried_(std::move(other.tried_)),
      reason_(std::move(other.reason_)),
      rejection_(std::move(other.rejection_)) {
  if (endpoint_ != nullptr && endpoint_->connector() == &other) endpoint_->connect_by(this);
}

connect_operation::~connect_operation() { drop_endpoint(); }

void connect_operation::drop_endpoint() noexcept {
  if (endpoint_ == nullptr) return;
  CORDMA_ASSERT(endpoint_->connector() == this || endpoint_->connector() == nullptr);
  endpoint_->connect_by(nullptr);
  if (endpoint_->worker() != nullptr) {
    endpoint_->worker()->enter_to_destroy();
    endpoint_->worker()->bury(std::move(endpoint_));
  }
  endpoint_.reset();
}

void connect_operation::fail(failure why) noexcept {
  // The request is not completed: it can still be accepted otherwise, or rejected.
  if (request_ != nullptr) request_->give_back();
  failure_ = std::move(why.with_operation(request_ != nullptr ? "accept" : "connect"));
  finish();
}

void connect_operation::do_start() noexcept {
  if (failure_) {
    finish();
  } else if (!home()->on_owner_thread()) {
    fail(home()->wrong_thread("a Worker may only be used on its own thread"));
  } else {
    set_phase(phase::posted);
    advance();
  }
}

void connect_operation::advance() noexcept {
  if (worker_->is_full()) {
    fail({errc::full, "the Worker's limit of endpoints is reached"});
    return;
  }
  try {
    if (request_ != nullptr) {
      do_accept();
    } else {
      try_next();
    }
  } catch (const std::bad_alloc&) {
    drop_endpoint();
    fail(errc::no_memory);
  }
}

void connect_operation::do_cancel() noexcept {
  drop_endpoint();
  fail(errc::canceled);
}

bool connect_operation::admits(detail::adapter_poller& via) {
  const transport::capabilities& caps = via.domain().caps();
  if (options_.transport && *options_.transport != caps.transport) return false;
  if (!worker_->may_share(options_.endpoint, caps.transport)) return false;
  if (via.broken()) {
    note(caps.transport, errc::unreachable, via.why_broken().message());
    return false;
  }
  if (private_data_.size() > caps.max_connect_data) {
    note(caps.transport, errc::invalid_value,
         std::to_string(private_data_.size()) + " bytes of private data, it carries " +
             std::to_string(caps.max_connect_data) + ": send the rest as a message");
    return false;
  }
  return true;
}

void connect_operation::note(transport::kind k, errc code, std::string_view said) {
  // Keeps the first code that is more specific than an absent peer.
  const bool says_little = outcome_ == errc::not_supported || outcome_ == errc::unreachable;
  if (says_little && code != errc::not_supported) outcome_ = code;
  tried_.append(name(k)).append(": ").append(said).append("; ");
}

bool connect_operation::goes_on_after(errc code) const noexcept {
  const bool only_one = tried_.empty() && next_adapter_ == worker_->adapters().size();
  return may_be_better_elsewhere(code) && !(only_one && says_what_is_wrong(code));
}

void connect_operation::try_next() {
  auto& adapters = worker_->adapters();
  if (next_adapter_ == 0) reason_ = worker_->left_out(options_.transport);
  while (next_adapter_ < adapters.size()) {
    detail::adapter_poller& via = *adapters[next_adapter_++];
    if (!admits(via)) continue;
    cordma::result<endpoint_options> asked = options_on(via);
    if (!asked) {
      note(via.domain().caps().transport, asked.code(), asked.why().message());
      continue;
    }
    cordma::result<std::unique_ptr<transport::queue_pair>> pair =
        via.adapter().connect(to_, *asked, private_data_);
    if (pair) {
      watch(std::move(*pair), via);
      return;
    }
    if (!goes_on_after(pair.code())) {
      fail(pair.why());
      return;
    }
    note(via.domain().caps().transport, pair.code(), pair.why().message());
  }
  if (tried_.empty()) {
    outcome_ = errc::unreachable;
    tried_ = "no transport of this Context is admitted; ";
  }
  tried_.insert(0, reason_);
  fail({outcome_, to_.text() + " cannot be reached: " + tried_.substr(0, tried_.size() - 2)});
}

cordma::result<endpoint_options> connect_operation::options_on(detail::adapter_poller& via) {
  if (options_.messages == nullptr) return options_.endpoint;
  return options_.messages->core().options_on(via, options_.endpoint);
}

void connect_operation::watch(std::unique_ptr<transport::queue_pair> pair,
                              detail::adapter_poller& via) {
  CORDMA_ASSERT(endpoint_ == nullptr);
  CORDMA_ASSERT_OP(state(), ==, phase::posted);
  endpoint_ = std::make_unique<detail::endpoint_core>();
  endpoint_->adopt(*worker_, std::move(pair), via);
  endpoint_->connect_by(this);
  worker_->add(*endpoint_);
  endpoint_->explain(reason_ + std::string(name(endpoint_->caps().transport)) +
                     (request_ != nullptr               ? ": chosen by the peer"
                      : options_.transport              ? ": required"
                      : worker_->adapters().size() == 1 ? ": the only one of this Context"
                      : tried_.empty() ? ": the preferred one that reaches the peer"
                                       : ": after " + tried_.substr(0, tried_.size() - 2)));
}

void connect_operation::do_accept() {
  CORDMA_ASSERT(request_->is_taken() && request_->worker() == worker_);
  detail::adapter_poller& via = request_->via();
  const transport::capabilities& caps = via.domain().caps();
  if (private_data_.size() > caps.max_accept_data) {
    fail({errc::invalid_value,
          std::to_string(private_data_.size()) + " bytes of private data with an accept, " +
              std::string(name(caps.transport)) + " carries " +
              std::to_string(caps.max_accept_data) + ": send the rest as a message"});
    return;
  }
  if (via.broken()) {
    fail(via.why_broken());
    return;
  }
  cordma::result<endpoint_options> asked = options_on(via);
  if (!asked) {
    fail(asked.why());
    return;
  }
  asked->peer = request_->peer_is();
  cordma::result<std::unique_ptr<transport::queue_pair>> pair =
      via.adapter().accept(request_->id(), *asked, private_data_);
  if (pair.code() == errc::bad_state) {  // only this side has accepted or rejected it
    fail({errc::connection_reset, "the client went away before it was accepted"});
    return;
  }
  if (!pair) {
    fail(pair.why());
    return;
  }
  request_->on_accepted();
  watch(std::move(*pair), via);
  endpoint_->keep_peer_data(request_->data());
}

Endpoint connect_operation::take() noexcept { return Endpoint(std::move(endpoint_)); }

void connect_operation::on_worker_gone() noexcept {
  CORDMA_ASSERT(endpoint_ != nullptr && endpoint_->connector() == this);
  endpoint_->connect_by(nullptr);
  fail({errc::shutdown, "the Worker was destroyed"});
}

void connect_operation::on_established() noexcept {
  CORDMA_ASSERT(endpoint_ != nullptr && endpoint_->connector() == nullptr);
  if (for_ != nullptr && endpoint_->frames() != nullptr) {
    detail::peer_of(*endpoint_).send_as(*for_);
  }
  finish();
}

// Adds the failures of earlier transports, which may be the better advice. Leaves a rejection by
// the peer unchanged.
failure connect_operation::after_tried(failure why) const noexcept {
  if (tried_.empty() || why.code() == errc::rejected) return why;
  const std::string_view tried(tried_.data(), tried_.size() - 2);
  return failure::of(why.code(), {why.message(), "; before that, ", tried})
      .with_errno(why.os_errno());
}

void connect_operation::on_failed(transport::cm_event event) noexcept {
  CORDMA_ASSERT(endpoint_ != nullptr && endpoint_->connector() == nullptr);
  CORDMA_ASSERT_OP(event.why.code(), !=, errc::ok);
  rejection_ = std::move(event.data);
  if (request_ != nullptr || !goes_on_after(event.why.code())) {
    drop_endpoint();
    fail(after_tried(std::move(event.why)));
    return;
  }
  try {
    note(endpoint_->caps().transport, event.why.code(), event.why.message());
  } catch (const std::bad_alloc&) {
    tried_.clear();
  }
  drop_endpoint();
  advance();
}

}  // namespace cordma
