// Transports that do nothing, for programs that measure the layers above.
#pragma once

#include <cordma/runtime/check.hpp>
#include <cordma/runtime/operation.hpp>

#include <cstddef>
#include <utility>

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

// A transport that completes posted requests in the next poll. Its polls do not wait.
class null_poller : public cordma::poller {
 public:
  cordma::arm_state arm() noexcept final { return cordma::arm_state::busy; }
  [[nodiscard]] int wait_fd() const noexcept final { return cannot_wake; }
  [[nodiscard]] const char* name() const noexcept final { return "null"; }
};

// For any number of requests at a time.
class null_transport final : public null_poller {
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

 private:
  cordma::list<request> posted_;
};

// For one request at a time: its own cost is close to zero.
class one_place_transport final : public null_poller {
 public:
  void post(request& r) noexcept {
    CORDMA_ASSERT(posted_ == nullptr);
    posted_ = &r;
  }
  std::size_t poll() noexcept override {
    if (posted_ == nullptr) return 0;
    std::exchange(posted_, nullptr)->complete();
    return 1;
  }

 private:
  request* posted_ = nullptr;
};

template <class Transport>
class null_operation final : public cordma::operation<null_operation<Transport>, int> {
 public:
  null_operation(cordma::reactor& home, Transport& via) noexcept
      : cordma::operation<null_operation, int>(&home), via_(via), request_(*this) {}

 private:
  template <class, class, class>
  friend class cordma::operation;
  struct posted final : request {
    explicit posted(null_operation& o) noexcept
        : request([](request& r) noexcept { static_cast<posted&>(r).owner.finish_in_poll(); }),
          owner(o) {}
    null_operation& owner;
  };
  void do_start() noexcept {
    this->set_phase(cordma::operation_base::phase::posted);
    via_.post(request_);
  }
  void do_cancel() noexcept {}
  [[nodiscard]] const cordma::failure* why() const noexcept { return nullptr; }
  [[nodiscard]] int take() const noexcept { return 1; }

  Transport& via_;
  posted request_;
};

}  // namespace bench
