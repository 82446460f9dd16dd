// Lifecycle of a connection: its state, the first cause of its end, and the operations that wait
// for a change.
#pragma once

#include <cordma/net/endpoint.hpp>

#include <memory>
#include <optional>

namespace cordma::detail {

// Whether the right state may follow the left one.
[[nodiscard]] constexpr bool operator>>(endpoint_state before, endpoint_state next) noexcept {
  return before < next && before != endpoint_state::closed;
}
static_assert(endpoint_state::connecting >> endpoint_state::connected);
static_assert(endpoint_state::connecting >> endpoint_state::closing, "it is not wired yet");
static_assert(endpoint_state::closing >> endpoint_state::closed);
static_assert(!(endpoint_state::closing >> endpoint_state::connected));
static_assert(!(endpoint_state::closed >> endpoint_state::connecting));
static_assert(!(endpoint_state::closed >> endpoint_state::connected));

// Bound to the thread of its Worker.
class endpoint_life {
 public:
  [[nodiscard]] endpoint_state state() const noexcept { return state_; }
  // REQUIRES that `next` may follow. The caller then calls resume_waiters().
  void become(endpoint_state next) noexcept {
    CORDMA_ASSERT_OP(state_, >>, next);
    state_ = next;
  }
  // For a close before the connection exists: connected until the waiting operations have started,
  // then closing again.
  void stand_as(endpoint_state s) noexcept { state_ = s; }
  void wait(state_operation& op) noexcept { waiters_.push_back(op); }
  void resume_waiters(endpoint_state s) noexcept;
  [[nodiscard]] bool is_waited_for() const noexcept { return !waiters_.empty(); }

  // Closed by close() or abort(), rather than by the peer or an error.
  void close_here() noexcept { closed_here_ = true; }
  // Keeps only the first cause; later ones follow from it.
  void blame(failure why) noexcept;
  // Null while there is none.
  [[nodiscard]] const std::shared_ptr<const failure>& cause() const noexcept { return cause_; }
  // The failure of operations that end with the connection.
  [[nodiscard]] failure flushed(const char* operation) const noexcept;
  // The failure of operations that are started after the end.
  [[nodiscard]] std::optional<failure> why_not(const char* operation) const noexcept;

 private:
  endpoint_state state_ = endpoint_state::connecting;
  bool closed_here_ = false;
  list<state_operation> waiters_;
  std::shared_ptr<const failure> cause_;
  // Allocated early, so that an end caused by lack of memory can still report its cause.
  std::shared_ptr<failure> storage_ = std::make_shared<failure>(errc::ok);
};

}  // namespace cordma::detail
