// The first RDMA device, opened by hand.
#pragma once

#include <doctest/doctest.h>

#include <infiniband/verbs.h>

namespace cordma::test {

// A device and a protection domain of a program that uses libibverbs.
class own_device {
 public:
  own_device() {
    ibv_device** const all = ibv_get_device_list(nullptr);
    REQUIRE(all != nullptr);
    REQUIRE(all[0] != nullptr);
    context_ = ibv_open_device(all[0]);
    ibv_free_device_list(all);
    REQUIRE(context_ != nullptr);
    pd_ = ibv_alloc_pd(context_);
    REQUIRE(pd_ != nullptr);
  }
  own_device(const own_device&) = delete;
  own_device& operator=(const own_device&) = delete;
  ~own_device() {
    CHECK(ibv_dealloc_pd(pd_) == 0);  // cordma has not freed it, and nothing is left on it
    CHECK(ibv_close_device(context_) == 0);
  }
  [[nodiscard]] ibv_context* context() noexcept { return context_; }
  [[nodiscard]] ibv_pd* pd() noexcept { return pd_; }

 private:
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

}  // namespace cordma::test
