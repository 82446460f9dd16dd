#include <cordma/runtime/scope.hpp>

#include <new>

namespace cordma {

struct scope::child final : list_node {
  explicit child(task<void>&& t) noexcept : body(std::move(t)), member(*this) {}
  static void operator delete(void* p) noexcept { frame_pool::deallocate(p, sizeof(child)); }

  static void done(task_root& root) noexcept {
    auto& m = static_cast<root_of_child&>(root);
    m.group().ended(m);
    delete &m.owner;
  }
  struct root_of_child final : detail::group_member {
    explicit root_of_child(child& c) noexcept : group_member(&child::done), owner(c) {}
    child& owner;
  };

  task<void> body;
  root_of_child member;
};

scope::scope(const task_context& parent) noexcept : scope(parent.home(), parent.cancellation()) {}

scope::scope(reactor& home, cancel_source* parent) noexcept
    : group_(home, parent, detail::group_rule::first_error_cancels) {}

scope::~scope() {
  while (!children_.empty()) delete &children_.pop_front();
}

void scope::spawn(task<void> t) {
  CORDMA_REQUIRE(static_cast<bool>(t));
  void* const memory = frame_pool::allocate(sizeof(child));
  child* const c = ::new (memory) child(std::move(t));
  children_.push_back(*c);
  group_.start(c->body, c->member, 0);
}

task<void> scope::join() {
  co_await group_.wait();
  group_.rethrow_first_error();
}

}  // namespace cordma
