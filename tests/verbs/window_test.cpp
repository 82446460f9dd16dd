// Requirements of memory windows: memory registered so that they can be bound, and a device that
// keeps it.
#include "raw_loop.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <infiniband/verbs.h>

#include <cerrno>
#include <vector>

using namespace cordma;
using namespace cordma::test;

TEST_CASE(
    "Q8: a device does not deregister a region that has a window: EBUSY, on Soft-RoCE EINVAL") {
  Context context(host::only());
  ibv_pd* const pd = context.native_pd().value();
  std::vector<std::byte> memory(4096);
  constexpr unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
  ibv_mr* const region = ibv_reg_mr(pd, memory.data(), memory.size(), rights);
  REQUIRE(region != nullptr);
  raw_loop loop(pd);
  ibv_mw* const window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  REQUIRE(window != nullptr);
  loop.post_bind(window, region, IBV_ACCESS_REMOTE_READ);
  CHECK(loop.next() == IBV_WC_SUCCESS);
  const int refused = ibv_dereg_mr(region);
  CHECK((refused == EBUSY || refused == EINVAL));
  CHECK(ibv_dealloc_mw(window) == 0);
  CHECK(ibv_dereg_mr(region) == 0);
}

TEST_CASE(
    "Q8: a region is registered so that a window can be bound, where it was asked for alone") {
  Context context(host::only());
  ibv_pd* const pd = context.native_pd().value();
  for (const bool asked : {true, false}) {
    CAPTURE(asked);
    MemoryRegion memory =
        context.allocate(4096, every_right | (asked ? access::mw_bind : access::local_read))
            .value();
    raw_loop loop(pd);
    ibv_mw* const window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    REQUIRE(window != nullptr);
    loop.post_bind(window, memory.native_mr().value(), IBV_ACCESS_REMOTE_READ);
    CHECK((loop.next() == IBV_WC_SUCCESS) == asked);
    CHECK(ibv_dealloc_mw(window) == 0);
  }
}
