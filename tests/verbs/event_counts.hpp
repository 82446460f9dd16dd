// Number of events that this program received and acknowledged. events_test.cpp counts them in
// wrappers of the libraries' calls.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>

namespace cordma::test {

[[nodiscard]] int cm_events(rdma_cm_event_type what) noexcept;
[[nodiscard]] int cm_events() noexcept;
[[nodiscard]] int cm_acknowledged() noexcept;

[[nodiscard]] int queue_events() noexcept;
[[nodiscard]] int queue_acknowledged() noexcept;
[[nodiscard]] int queue_acknowledgements() noexcept;  // calls, each for one event or more

}  // namespace cordma::test
