// Completion statuses: each has one code, and the list is complete.
#include <doctest/doctest.h>

#include <cordma/net/transport/types.hpp>
#include <set>

using namespace cordma;
using transport::wc_status;

namespace {

// The codes, grouped by remedy, written down once more: a new status does not compile until it is
// here.
errc expected(wc_status s) {
  switch (s) {
    case wc_status::success: return errc::ok;
    case wc_status::loc_len_err:
    case wc_status::rem_inv_req_err: return errc::truncated;
    case wc_status::loc_prot_err:
    case wc_status::mw_bind_err:
    case wc_status::loc_access_err: return errc::not_permitted;
    case wc_status::wr_flush_err: return errc::flushed;
    case wc_status::bad_resp_err: return errc::unexpected;
    case wc_status::rem_access_err: return errc::remote_access;
    case wc_status::retry_exc_err: return errc::connection_reset;
    case wc_status::rnr_retry_exc_err: return errc::remote_not_ready;
    case wc_status::rem_abort_err: return errc::connection_aborted;
    case wc_status::resp_timeout_err: return errc::timed_out;
    case wc_status::tm_rndv_incomplete: return errc::in_progress;
    case wc_status::loc_qp_op_err:
    case wc_status::rem_op_err:
    case wc_status::general_err:
    case wc_status::tm_err: return errc::io_failed;
    case wc_status::loc_eec_op_err:
    case wc_status::loc_rdd_viol_err:
    case wc_status::rem_inv_rd_req_err:
    case wc_status::inv_eecn_err:
    case wc_status::inv_eec_state_err:
    case wc_status::fatal_err: return errc::driver;
  }
  return errc::unexpected;
}

}  // namespace

TEST_CASE("A1: every completion status, known or not, maps to exactly one code") {
  std::set<std::string_view> names;
  for (unsigned i = 0; i < 256; ++i) {
    const auto status = static_cast<wc_status>(i);
    CAPTURE(i);
    const bool known = i < transport::wc_status_count;
    CHECK(name(transport::to_errc(status)) == name(expected(status)));
    CHECK((transport::name(status) == "?") == !known);
    if (known) CHECK(names.insert(transport::name(status)).second);
    CHECK((transport::to_errc(status) == errc::ok) == (i == 0));
  }
}

TEST_CASE("A1: the numbers are those of ibv_wc_status") {
  static_assert(static_cast<int>(wc_status::wr_flush_err) == 5);
  static_assert(static_cast<int>(wc_status::rem_access_err) == 10);
  static_assert(static_cast<int>(wc_status::retry_exc_err) == 12);
  static_assert(static_cast<int>(wc_status::rnr_retry_exc_err) == 13);
  static_assert(static_cast<int>(wc_status::general_err) == 21);
  CHECK(static_cast<std::size_t>(wc_status::tm_rndv_incomplete) + 1 == transport::wc_status_count);
}
