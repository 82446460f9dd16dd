// Adopts clients that connected to a listener of the program.
#include <cordma/net/transport/verbs/verbs_adapter.hpp>

#include <cerrno>

namespace cordma::transport::verbs {
namespace {

private_data greeting_of(hello_kind kind) noexcept {
  return encode(hello{.kind = kind, .mtu = 1}, {});
}

void turn_away(rdma_cm_id* id, const private_data& bytes) noexcept {
  rdma_reject(id, bytes.bytes.data(), bytes.length);
}

}  // namespace

result<cm_event> verbs_adapter::adopt(rdma_cm_event* event, peer_kind whom) {
  if (event == nullptr || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    return failure{errc::invalid_value, "only an RDMA_CM_EVENT_CONNECT_REQUEST can be adopted"};
  }
  const cm_news news = copy_of(*event);
  rdma_ack_cm_event(event);  // an identifier moves only if none of its events is unacknowledged
  owned_id id(news.id);
  const bool plain = whom == peer_kind::plain;
  const private_data no = plain ? without_head({}) : greeting_of(hello_kind::reject);
  const device& own = owner_->hardware();
  if (!leads_by(id.get(), own)) {
    turn_away(id.get(), no);
    return failure{errc::invalid_value, "the client came by another device or port than " +
                                            own.name + ":" + std::to_string(own.port)};
  }
  const decoded_hello d = decode_request(news.bytes(), whom);
  if (d.what == decoded_hello::outcome::other_version) {
    turn_away(id.get(), greeting_of(hello_kind::mismatch));
    return failure{errc::unsupported_version, "the client speaks another version of cordma"};
  }
  if (d.what != decoded_hello::outcome::good) {
    turn_away(id.get(), no);
    return failure{errc::connection_aborted,
                   "the client is no cordma: its private data says so. One without cordma is "
                   "peer_kind::plain"};
  }
  if (rdma_migrate_id(id.get(), cm_.get()) != 0) {
    return failure::from_os(errno, "taking over an rdma_cm identifier");
  }
  return take_in(std::move(id), news, whom, d.value, d.user, nullptr);
}

}  // namespace cordma::transport::verbs
