// Clients that a listener of the program's own was told of.
#include <cordma/net/transport/verbs/adapter.hpp>

#include <cerrno>

namespace cordma::transport::verbs {
namespace {

void turn_away(rdma_cm_id* id, hello_kind kind) noexcept {
  const private_data bytes = encode(hello{.kind = kind, .mtu = 1}, {});
  rdma_reject(id, bytes.bytes.data(), bytes.length);
}

}  // namespace

result<cm_event> verbs_adapter::adopt(rdma_cm_event* event) {
  if (event == nullptr || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
    return failure{errc::invalid_value, "only an RDMA_CM_EVENT_CONNECT_REQUEST can be adopted"};
  }
  const cm_news news = copy_of(*event);
  rdma_ack_cm_event(event);  // an identifier moves when nothing of it is unacknowledged
  owned_id id(news.id);
  const device& own = owner_->hardware();
  if (!leads_by(id.get(), own)) {
    turn_away(id.get(), hello_kind::reject);
    return failure{errc::invalid_value, "the client came by another device or port than " +
                                            own.name + ":" + std::to_string(own.port)};
  }
  const decoded_hello d = decode(news.bytes());
  if (d.what == decoded_hello::outcome::other_version) {
    turn_away(id.get(), hello_kind::mismatch);
    return failure{errc::unsupported_version, "the client speaks another version of cordma"};
  }
  if (d.what != decoded_hello::outcome::good) {
    turn_away(id.get(), hello_kind::reject);
    return failure{errc::connection_aborted, "the client is no cordma: its private data says so"};
  }
  if (rdma_migrate_id(id.get(), cm_.get()) != 0) {
    return failure::from_os(errno, "taking over an rdma_cm identifier");
  }
  auto client = std::make_unique<incoming>();
  client->number = owner_->requests().next_id();
  id->context = cm_token{cm_token::kind::request, client->number}.packed();
  client->theirs = d.value;
  client->peer_pair = news.peer_pair;
  client->reads = news.reads();
  client->peer = to_text(rdma_get_peer_addr(id.get()));
  client->id = std::move(id);
  cm_event told;
  told.what = cm_event::type::connect_request;
  told.request = client->number;
  told.data.assign(d.user.begin(), d.user.end());
  told.peer = client->peer;
  incoming_.emplace(client->number, std::move(client));
  return told;
}

}  // namespace cordma::transport::verbs
