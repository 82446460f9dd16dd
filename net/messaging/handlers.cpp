#include <cordma/net/messaging/handlers.hpp>

#include <cordma/net/protocol/request.hpp>

#include <utility>

namespace cordma::detail {

failure reserved_id(std::uint16_t id) {
  constexpr std::uint16_t last = protocol::first_reserved_id - 1;
  return failure::of(errc::invalid_value,
                     {"active messages of id ", id, " are the library's own: ids end at ", last});
}

void handler_table::set(std::uint16_t id, handler&& h) {
  if (id >= protocol::first_reserved_id) throw_error(reserved_id(id));
  if (running_ == 0 && calling_ == 0) replaced_.clear();
  auto made = std::make_unique<handler>(std::move(h));
  replaced_.reserve(replaced_.size() + 1);
  if (by_id_.size() <= id) by_id_.resize(id + std::size_t{1});
  if (by_id_[id] != nullptr) replaced_.push_back(std::move(by_id_[id]));
  by_id_[id] = std::move(made);
}

void handler_table::make_run() {
  runs_.push_back(std::make_unique<handler_run>(*this));
  runs_.back()->next_free_ = std::exchange(free_runs_, runs_.back().get());
}

void handler_run::done(task_root& root) noexcept {
  auto& run = static_cast<handler_run&>(root);
  if (run.frame_.promise().exception()) [[unlikely]]
    ++run.table_.failures_;
  std::exchange(run.frame_, {}).destroy();
  handler_table& table = run.table_;
  --table.running_;
  run.next_free_ = std::exchange(table.free_runs_, &run);
}

}  // namespace cordma::detail
