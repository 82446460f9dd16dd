#include "ucx_pair.hpp"

#include <stdexcept>

namespace ucx {
namespace {

ucs_status_t count_message(void* receiver, const void* /*header*/, std::size_t /*header_bytes*/,
                           void* /*data*/, std::size_t /*bytes*/,
                           const ucp_am_recv_param_t* /*about*/) {
  ++static_cast<side*>(receiver)->active_messages;
  return UCS_OK;
}

void open(side& s, const std::string& tls) {
  ucp_config_t* settings = nullptr;
  check(ucp_config_read(nullptr, nullptr, &settings), "ucp_config_read");
  check(ucp_config_modify(settings, "TLS", tls.c_str()), "UCX_TLS");
  ucp_params_t wanted{};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features =
      UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  check(ucp_init(&wanted, settings, &s.context), "ucp_init");
  ucp_config_release(settings);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SINGLE;
  check(ucp_worker_create(s.context, &worker, &s.worker), "ucp_worker_create");
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = am_id;
  handler.cb = count_message;
  handler.arg = &s;
  check(ucp_worker_set_am_recv_handler(s.worker, &handler), "ucp_worker_set_am_recv_handler");
}

void connect(side& from, const side& to) {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucp_worker_get_address(to.worker, &address, &bytes), "ucp_worker_get_address");
  ucp_ep_params_t endpoint{};
  endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  endpoint.address = address;
  check(ucp_ep_create(from.worker, &endpoint, &from.to_other), "ucp_ep_create");
  ucp_worker_release_address(to.worker, address);
}

}  // namespace

void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

pair::pair(const std::string& tls) {
  open(near, tls);
  open(far, tls);
  connect(near, far);
  connect(far, near);
  ucp_mem_map_params_t wanted{};
  wanted.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  wanted.length = largest;
  wanted.flags = UCP_MEM_MAP_ALLOCATE;
  ucp_mem_h memory = nullptr;
  check(ucp_mem_map(far.context, &wanted, &memory), "ucp_mem_map");
  ucp_mem_attr_t about{};
  about.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  check(ucp_mem_query(memory, &about), "ucp_mem_query");
  remote_address = reinterpret_cast<std::uintptr_t>(about.address);
  void* packed = nullptr;
  std::size_t bytes = 0;
  check(ucp_rkey_pack(far.context, memory, &packed, &bytes), "ucp_rkey_pack");
  check(ucp_ep_rkey_unpack(near.to_other, packed, &remote_key), "ucp_ep_rkey_unpack");
  ucp_rkey_buffer_release(packed);
}

}  // namespace ucx
