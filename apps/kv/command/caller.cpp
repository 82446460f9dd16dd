#include "caller.hpp"

#include "service.hpp"

namespace kv {

caller::caller(service& of, session_origin from, session::wake_function how_to_wake, void* context)
    : id(of.next_id_.fetch_add(1, std::memory_order_relaxed)),
      origin(std::move(from)),
      of_(of),
      wake_(how_to_wake),
      context_(context) {
  created_ms = static_cast<std::int64_t>(of.now_ms(origin.worker));
  seen_ms = created_ms.load();
  start_over();
  of.enter(*this);
}

caller::~caller() {
  for (const transaction::watched& w : queued.watches()) {
    const keyspace::hold hold(of_.keys(), of_.keys().mask_of(w.key));
    of_.keys().of(w.key).unwatch(w.key);
  }
  of_.leave(*this);
}

void caller::become(std::shared_ptr<const user> u) {
  unlimited_ = u != nullptr && u->unlimited();
  who_ = std::move(u);
  say(&labels::user, who_ == nullptr ? default_user : std::string_view(who_->name));
}

void caller::refresh_rights() {
  if (who_ == nullptr) {
    // An unauthenticated client becomes the default user if that needs no password by now.
    // Otherwise it stays unauthenticated.
    std::shared_ptr<const user> usual = of_.accounts().find(default_user);
    if (usual != nullptr && usual->enabled && usual->any_password) become(std::move(usual));
    return;
  }
  std::shared_ptr<const user> now = of_.accounts().find(who_->name);
  if (now == nullptr) {
    killed.store(kill::now);
    return;
  }
  become(std::move(now));
}

void caller::start_over() {
  mode = replies::on;
  of_.stop_monitor(*this);
  no_touch = false;
  no_evict = false;
  reply.speak(reply_writer::protocol::resp2);
  protocol = 2;
  database = 0;
  std::shared_ptr<const user> usual = of_.accounts().find(default_user);
  if (usual != nullptr && (!usual->enabled || !usual->any_password)) usual = nullptr;
  become(std::move(usual));
  say(&labels::name, {});
}

void caller::say(std::string labels::* which, std::string_view text) {
  const std::scoped_lock hold(of_.at(origin.worker).guard);
  labels_.*which = text;
}

}  // namespace kv
