// Cancellation inside one reactor: a source, and hooks attached to it. Cancellation propagates down
// the task chain without code in the tasks (task.hpp); std::stop_token and Asio cancellation slots
// are bridged onto it. Not std::stop_source, because that one allocates and locks in every
// with_timeout.
#pragma once

#include <cordma/runtime/list.hpp>

namespace cordma {

// Called at most once, when cancellation is requested. Bound to the reactor of its source.
class cancel_hook : public list_node {
 public:
  using function = void (*)(cancel_hook&) noexcept;
  explicit cancel_hook(function on_cancel) noexcept : on_cancel_(on_cancel) {}
  void set(function on_cancel) noexcept { on_cancel_ = on_cancel; }

 private:
  friend class cancel_source;
  function on_cancel_;
};

// Bound to one thread. Hooks must not outlive it (they unlink themselves when destroyed).
class cancel_source {
 public:
  cancel_source() noexcept : from_parent_(*this) {}
  // A child: canceled with its parent, which must outlive it. `parent` may be null.
  explicit cancel_source(cancel_source* parent) noexcept : cancel_source() {
    if (parent == nullptr) return;
    if (parent->requested_) {
      requested_ = true;
    } else {
      parent->attach(from_parent_);
    }
  }
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  [[nodiscard]] bool requested() const noexcept { return requested_; }
  // Runs every hook, in the order of attaching. Hooks mark work ready; none resumes a coroutine
  // inside this call. A second request does nothing.
  void request() noexcept {
    if (requested_) return;
    requested_ = true;
    while (!hooks_.empty()) {
      cancel_hook& hook = hooks_.pop_front();
      hook.on_cancel_(hook);
    }
  }
  // REQUIRES not yet requested: check requested() first.
  void attach(cancel_hook& hook) noexcept {
    CORDMA_REQUIRE(!requested_);
    hooks_.push_back(hook);
  }

 private:
  struct parent_hook : cancel_hook {
    explicit parent_hook(cancel_source& owner) noexcept
        : cancel_hook(
              [](cancel_hook& h) noexcept { static_cast<parent_hook&>(h).child.request(); }),
          child(owner) {}
    cancel_source& child;
  };

  list<cancel_hook> hooks_;
  parent_hook from_parent_;
  bool requested_ = false;
};

}  // namespace cordma
