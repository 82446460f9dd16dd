// A transport that does nothing, for programs that measure what is above it.
#pragma once

#include <cordma/runtime/operation.hpp>

#include <cstddef>

namespace bench {

// One request to the null transport.
class request : public cordma::list_node {
 public:
  using function = void (*)(request&) noexcept;
  explicit request(function done) noexcept : done_(done) {}
  void complete() noexcept { done_(*this); }

 private:
  function done_;
};

// A transport that completes with the next poll whatever was posted before it.
class null_transport final : public cordma::poller {
 public:
  void post(request& r) noexcept { posted_.push_back(r); }
  std::size_t poll() noexcept override {
    if (posted_.empty()) return 0;
    cordma::list<request> now;
    now.splice_back(posted_);
    std::size_t n = 0;
    for (; !now.empty(); ++n) now.pop_front().complete();
    return n;
  }
  cordma::arm_state arm() noexcept override { return cordma::arm_state::busy; }
  [[nodiscard]] int wait_fd() const noexcept override { return cannot_wake; }
  [[nodiscard]] const char* name() const noexcept override { return "null"; }

 private:
  cordma::list<request> posted_;
};

class null_operation final : public cordma::operation<null_operation, int> {
 public:
  null_operation(cordma::reactor& home, null_transport& via) noexcept
      : operation(&home), via_(via), request_(*this) {}

 private:
  template <class, class, class>
  friend class cordma::operation;
  struct posted final : request {
    explicit posted(null_operation& o) noexcept
        : request([](request& r) noexcept { static_cast<posted&>(r).owner.finish(); }), owner(o) {}
    null_operation& owner;
  };
  void do_start() noexcept {
    set_phase(phase::posted);
    via_.post(request_);
  }
  void do_cancel() noexcept {}
  [[nodiscard]] const cordma::failure* why() const noexcept { return nullptr; }
  [[nodiscard]] int take() const noexcept { return 1; }

  null_transport& via_;
  posted request_;
};

}  // namespace bench
