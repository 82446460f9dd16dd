#include <cordma/net/transport/verbs/async_event.hpp>

namespace cordma::transport::verbs {

async_event to_event(const ibv_async_event& e) noexcept {
  async_event told{.what = e.event_type};
  switch (e.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      told.element = e.element.qp;
      told.pair = e.element.qp->qp_num;
      told.context = e.element.qp->qp_context;
      break;
    case IBV_EVENT_CQ_ERR:
      told.element = e.element.cq;
      told.context = e.element.cq->cq_context;
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      told.element = e.element.srq;
      told.context = e.element.srq->srq_context;
      break;
    case IBV_EVENT_WQ_FATAL: told.element = e.element.wq; break;
    case IBV_EVENT_DEVICE_FATAL: break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE: told.port = static_cast<std::uint8_t>(e.element.port_num); break;
  }
  if (told.element != nullptr) told.about = async_event::subject::foreign;
  return told;
}

device_event to_device_event(const async_event& e) noexcept {
  using type = device_event::type;
  device_event told{.port = e.port, .native = static_cast<std::uint32_t>(e.what)};
  if (e.about == async_event::subject::foreign) {
    told.what = type::foreign;
    told.element = e.element;
    return told;
  }
  switch (e.what) {
    case IBV_EVENT_PORT_ACTIVE: told.what = type::port_up; break;
    case IBV_EVENT_PORT_ERR: told.what = type::port_down; break;
    case IBV_EVENT_GID_CHANGE: told.what = type::gid_change; break;
    case IBV_EVENT_PKEY_CHANGE: told.what = type::pkey_change; break;
    case IBV_EVENT_LID_CHANGE: told.what = type::lid_change; break;
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER: told.what = type::manager_change; break;
    case IBV_EVENT_DEVICE_FATAL: told.what = type::device_failed; break;
    default: break;
  }
  return told;
}

}  // namespace cordma::transport::verbs
