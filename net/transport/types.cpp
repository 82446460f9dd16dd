#include <cordma/net/transport/types.hpp>

namespace cordma::transport {

std::string_view name(kind k) noexcept {
  switch (k) {
    case kind::shm: return "shm";
    case kind::tcp: return "tcp";
    case kind::sim: return "sim";
    case kind::verbs: return "verbs";
    case kind::test: return "test";
  }
  return "?";
}

std::string_view name(service s) noexcept {
  switch (s) {
    case service::rc: return "rc";
    case service::uc: return "uc";
    case service::ud: return "ud";
  }
  return "?";
}

std::string_view name(queue_pair_state s) noexcept {
  switch (s) {
    case queue_pair_state::reset: return "reset";
    case queue_pair_state::init: return "init";
    case queue_pair_state::rtr: return "rtr";
    case queue_pair_state::rts: return "rts";
    case queue_pair_state::sqd: return "sqd";
    case queue_pair_state::sqe: return "sqe";
    case queue_pair_state::error: return "error";
  }
  return "?";
}

std::string_view name(memory_kind k) noexcept {
  switch (k) {
    case memory_kind::host: return "host";
    case memory_kind::device: return "device";
  }
  return "?";
}

const char* name(opcode op) noexcept {
  switch (op) {
    case opcode::send: return "send";
    case opcode::send_imm: return "send with immediate";
    case opcode::write: return "write";
    case opcode::write_imm: return "write with immediate";
    case opcode::read: return "read";
    case opcode::fetch_add: return "fetch-add";
    case opcode::compare_swap: return "compare-swap";
    case opcode::flush: return "flush";
    case opcode::recv: return "recv";
    case opcode::recv_write_imm: return "recv of a write with immediate";
    case opcode::bind: return "bind";
    case opcode::send_invalidate: return "send with invalidate";
  }
  return "?";
}

namespace {

struct status_entry {
  wc_status status;
  std::string_view name;
  errc code;
};

constexpr std::array<status_entry, wc_status_count> statuses{{
    {wc_status::success, "success", errc::ok},
    {wc_status::loc_len_err, "loc_len_err", errc::truncated},
    {wc_status::loc_qp_op_err, "loc_qp_op_err", errc::io_failed},
    {wc_status::loc_eec_op_err, "loc_eec_op_err", errc::driver},
    {wc_status::loc_prot_err, "loc_prot_err", errc::not_permitted},
    {wc_status::wr_flush_err, "wr_flush_err", errc::flushed},
    {wc_status::mw_bind_err, "mw_bind_err", errc::not_permitted},
    {wc_status::bad_resp_err, "bad_resp_err", errc::unexpected},
    {wc_status::loc_access_err, "loc_access_err", errc::not_permitted},
    {wc_status::rem_inv_req_err, "rem_inv_req_err", errc::truncated},
    {wc_status::rem_access_err, "rem_access_err", errc::remote_access},
    {wc_status::rem_op_err, "rem_op_err", errc::io_failed},
    {wc_status::retry_exc_err, "retry_exc_err", errc::connection_reset},
    {wc_status::rnr_retry_exc_err, "rnr_retry_exc_err", errc::remote_not_ready},
    {wc_status::loc_rdd_viol_err, "loc_rdd_viol_err", errc::driver},
    {wc_status::rem_inv_rd_req_err, "rem_inv_rd_req_err", errc::driver},
    {wc_status::rem_abort_err, "rem_abort_err", errc::connection_aborted},
    {wc_status::inv_eecn_err, "inv_eecn_err", errc::driver},
    {wc_status::inv_eec_state_err, "inv_eec_state_err", errc::driver},
    {wc_status::fatal_err, "fatal_err", errc::driver},
    {wc_status::resp_timeout_err, "resp_timeout_err", errc::timed_out},
    {wc_status::general_err, "general_err", errc::io_failed},
    {wc_status::tm_err, "tm_err", errc::io_failed},
    {wc_status::tm_rndv_incomplete, "tm_rndv_incomplete", errc::in_progress},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    if (static_cast<std::size_t>(statuses[i].status) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by status");

}  // namespace

std::string_view name(wc_status s) noexcept {
  const auto i = static_cast<std::size_t>(s);
  return i < statuses.size() ? statuses[i].name : "?";
}

errc to_errc(wc_status s) noexcept {
  const auto i = static_cast<std::size_t>(s);
  return i < statuses.size() ? statuses[i].code : errc::unexpected;
}

std::string address::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace cordma::transport
