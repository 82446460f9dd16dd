#include "native_entrance.hpp"

#include <cordma/runtime/check.hpp>

#include <memory>
#include <utility>

namespace kv {

using cordma::task;

native_entrance::native_entrance(const surroundings& where, native::door_options options)
    : journal_(where.journal),
      clients_(where.clients),
      has_place_(where.has_place),
      worker_(where.context, where.loop),
      door_(where.context, worker_, where.keys, std::move(options),
            {.now = where.now,
             .may_write = [this] { return journal_ == nullptr || !journal_->refuses(); },
             .is_still = where.is_still,
             .is_full = [this] { return is_full(); },
             .until_room = [this] { return until_room(); },
             .until_safe = [this] { return until_safe(); },
             .information = where.information}),
      visitors_(where.loop) {}

native_entrance::~native_entrance() { CORDMA_REQUIRE(worker_.loop().on_owner_thread()); }

void native_entrance::listen(const std::string& address) {
  listener_.emplace(worker_.listen(address).value());
}

void native_entrance::admit() { visitors_.spawn(accept_all()); }

void native_entrance::share(std::span<native_entrance* const> with) {
  others_.assign(with.begin(), with.end());
}

std::string native_entrance::bound() const { return listener_->bound().text(); }

void native_entrance::stop_listening() noexcept {
  if (listener_) listener_->close();
}

void native_entrance::journal_advanced() noexcept {
  advanced_.set();  // waiting tasks check again
  advanced_.reset();
}

task<void> native_entrance::accept_all() {
  for (;;) {
    cordma::result<cordma::ConnectionRequest> next = co_await listener_->next().result();
    if (!next) co_return;
    lead(std::move(next).value());
  }
}

// Leads clients to the workers in turn. If the transport cannot hand a client over, it stays here.
void native_entrance::lead(cordma::ConnectionRequest request) {
  if (!has_place_()) {
    static_cast<void>(request.reject(std::as_bytes(std::span(native::no_place))));
    return;
  }
  native_entrance* const to = others_.empty() ? this : others_[turn_++ % others_.size()];
  if (to != this) {
    cordma::result<cordma::ConnectionRequest> handed = request.hand_over(to->worker_);
    if (handed) {
      auto carried = std::make_shared<cordma::ConnectionRequest>(std::move(handed).value());
      auto taken = std::make_shared<const seat>(to->clients_);
      to->worker_.post(
          [to, carried, taken] { to->visitors_.spawn(to->serve(std::move(*carried), taken)); });
      return;
    }
  }
  visitors_.spawn(serve(std::move(request), std::make_shared<const seat>(clients_)));
}

// A client that fails or disconnects does not affect the others.
task<void> native_entrance::serve(cordma::ConnectionRequest request,
                                  std::shared_ptr<const seat> taken) {
  try {
    co_await door_.serve(std::move(request), std::move(taken));
  } catch (const cordma::error&) {}
}

// A journal in trouble may stay so for an unknown time, so changes are refused then rather than
// delayed.
bool native_entrance::is_full() const noexcept {
  return journal_ != nullptr && journal_->backlogged() && !journal_->refuses();
}

task<void> native_entrance::until_room() {
  while (is_full()) co_await advanced_.wait();
}

task<void> native_entrance::until_safe() {
  if (journal_ == nullptr) co_return;
  const std::uint64_t wanted = journal_->appended();
  while (journal_->waits() && journal_->durable() < wanted) co_await advanced_.wait();
}

}  // namespace kv
