#include <cordma/net/messaging/handlers.hpp>

#include <cordma/net/messaging/message_core.hpp>

#include <utility>

namespace cordma::detail {

failure reserved_id(std::uint16_t id) {
  constexpr std::uint16_t last = protocol::first_reserved_id - 1;
  return failure::of(errc::invalid_value,
                     {"active messages of id ", id, " are the library's own: ids end at ", last});
}


void handler_table::set(std::uint16_t id, handler&& h) {
  if (id >= protocol::first_reserved_id) throw_error(reserved_id(id));
  if (tasks.empty() && plain_running_ == 0) replaced_.clear();
  auto made = std::make_unique<handler>(std::move(h));
  replaced_.reserve(replaced_.size() + 1);
  if (by_id_.size() <= id) by_id_.resize(id + std::size_t{1});
  if (by_id_[id] != nullptr) replaced_.push_back(std::move(by_id_[id]));
  by_id_[id] = std::move(made);
}

void handler_run::start(message_core& core, const am_handler& handler, ActiveMessage message) {
  task<void> body = handler(std::move(message));
  CORDMA_REQUIRE(static_cast<bool>(body));
  void* const memory = frame_pool::allocate(sizeof(handler_run));
  auto* const run = ::new (memory) handler_run(core, std::move(body));
  core.handlers.tasks.push_back(*run);
  start_root(*core.home, run->body_, nullptr, run->end_);
}

void handler_run::done(task_root& root) noexcept {
  handler_run& run = static_cast<end_of_task&>(root).run;
  if (run.body_.handle().promise().exception()) ++run.core_.handler_failures;
  delete &run;
}

}  // namespace cordma::detail
