#include <cordma/net/rpc/request_core.hpp>

#include <cordma/net/datapath/option_bounds.hpp>

#include <new>
#include <utility>

namespace cordma::detail {

namespace {

constexpr std::uint32_t most_pending = 1U << 20;

}  // namespace

void on_request_message(request_core& core, peer_core& from, ActiveMessage message) noexcept {
  request_peer* const peer = core.met_by(from);
  if (peer != nullptr) peer->on_message(std::move(message));
}

void on_requests_end(request_peer& peer) noexcept { peer.on_end(); }

bool is_idle(request_peer& peer) noexcept { return peer.is_idle(); }

request_core::request_core(Messages& of, const request_options& o)
    : messages_(&of.core()), home_(messages_->home()), options_(o), tasks_(*home_) {
  const std::uint32_t credits = messages_->options().credits;
  if (credits < 2) {
    throw_error({errc::invalid_value,
                 "message_options::credits is 1: requests need at least 2, for answers"});
  }
  require_within("request_options::window", o.window, 1, credits - 1);
  require_within("request_options::most_calls", o.most_calls, 1, most_pending);
  require_positive("request_options::hello_timeout", o.hello_timeout);
  if (o.most_bytes == 0) {
    throw_error({errc::invalid_value, "request_options::most_bytes is 0: it is at least 1"});
  }
  if (messages_->requests() != nullptr) {
    throw_error({errc::in_use, "there are Requests for these Messages already"});
  }
  if (!home_->on_owner_thread()) {
    throw_error(home_->wrong_thread("Requests may only be made on the thread of their Worker"));
  }
  messages_->serve(this);
  for (const std::unique_ptr<frame_port>& port : messages_->ports()) {
    port->peers().for_each([this](peer_core& p) {
      const std::optional<protocol::request_header> greeting = p.take_greeting();
      request_peer* const peer = greeting ? met_by(p) : nullptr;
      if (peer != nullptr) peer->on_hello(*greeting);
    });
  }
}

request_core::~request_core() {
  if (messages_->worker() != nullptr) messages_->worker()->enter_to_destroy();
  const failure gone{errc::shutdown, "its Requests are gone"};
  for (const auto& p : peers_) {
    p->fail(gone);
    CORDMA_ASSERT(!p->is_up());
  }
  CORDMA_ASSERT(messages_->requests() == this);
  messages_->serve(nullptr);
  messages_->unwired().for_each([this](early_messages& e) { request_call::fail_early(e, *this); });
  // Drops messages in flight while their memory certainly exists: the handlers' memory is released
  // with them.
  calls_.for_each([&gone](asked& a) { a.drop(gone); });
  held_.for_each([&gone](held_request& h) { h.drop(gone); });
}

request_peer* request_core::peer_on(peer_core& below) noexcept {
  if (below.requests() != nullptr) return below.requests();
  reap();
  try {
    peers_.push_back(std::make_unique<request_peer>(*this, below));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  below.carry(peers_.back().get());
  return below.requests();
}

request_peer* request_core::met_by(peer_core& below) noexcept {
  request_peer* const peer = peer_on(below);
  if (peer == nullptr) below.fail(errc::no_memory);
  return peer;
}

void request_core::reap() noexcept {
  std::erase_if(peers_, [](const auto& p) { return p->is_over(); });
}

asked* request_core::take_asked() noexcept { return calls_.take(*this); }

held_request* request_core::take_held() noexcept { return held_.take(*this); }

void request_core::serve(std::uint16_t method, request_handler handler) {
  if (!home_->enter()) return;
  handlers_[method] = std::make_shared<const request_handler>(std::move(handler));
}

}  // namespace cordma::detail
