#include <cordma/net/transport/verbs/port_directory.hpp>

#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

namespace cordma::transport::verbs {
namespace {

cm_token token_of(const verbs_pair& port) noexcept { return {cm_token::kind::pair, port.number()}; }

}  // namespace

port_directory::~port_directory() { home_.add_waiting(-static_cast<int>(lookups_.size())); }

// ---- answering lookups ----

result<address> port_directory::bind(const address& where) {
  result<std::vector<owned_id>> ids =
      listen_at(home_.cm(), token_of(port_), RDMA_PS_UDP, where, {});
  if (!ids) return ids.why();
  for (owned_id& id : *ids) bound_.push_back(std::move(id));
  return address{.host = where.host, .port = ntohs(rdma_get_src_port(bound_.back().get()))};
}

// A host that repeats its query, because the answer was lost, receives the answer again.
void port_directory::answer(rdma_cm_id* who) noexcept {
  if (!leads_by(who, home_.owner().hardware())) {
    rdma_reject(who, nullptr, 0);
    return;
  }
  rdma_conn_param p{};
  p.qp_num = port_.number();
  static_cast<void>(rdma_accept(who, &p));
}

// ---- looking up ----

result<std::uint64_t> port_directory::resolve(const address& to) {
  result<std::vector<socket_address>> candidates = verbs::resolve(to, false);
  if (!candidates) return candidates.why();
  lookups_.reserve(lookups_.size() + 1);
  auto l = std::make_unique<lookup>(*this);
  const std::uint64_t number = l->number = ++last_number_;
  l->to = to.text();
  l->candidates = peer_addresses(std::move(*candidates));
  home_.home().add(*l, after(home_.home().now(), port_.actual().connect_timeout));
  home_.add_waiting(1);
  lookups_.push_back(std::move(l));
  try_next(*lookups_.back());
  return number;
}

void port_directory::forget(std::uint64_t request) noexcept {
  const auto gone = std::erase_if(lookups_, [=](const auto& l) { return l->number == request; });
  CORDMA_ASSERT_OP(gone, <=, 1U);
  home_.add_waiting(-static_cast<int>(gone));
}

void port_directory::try_next(lookup& l) noexcept {
  try {
    while (const socket_address* const to = l.candidates.current()) {
      l.id.reset();
      result<owned_id> asked =
          resolve_address(home_.cm(), home_.owner(), token_of(port_), RDMA_PS_UDP, *to);
      if (asked) {
        l.id = std::move(*asked);
        return;
      }
      l.last = asked.why();
      l.candidates.drop();
    }
  } catch (const std::bad_alloc&) {
    l.last = errc::no_memory;
  }
  tell(l, l.last, {});
}

void port_directory::next_or_fail(lookup& l, failure why) noexcept {
  l.last = std::move(why);
  l.candidates.drop();
  try_next(l);
}

void port_directory::on_news(const cm_news& news) noexcept {
  if (news.what == RDMA_CM_EVENT_CONNECT_REQUEST) return answer(news.id);
  const auto at =
      std::ranges::find_if(lookups_, [&](const auto& l) { return l->id.get() == news.id; });
  if (at == lookups_.end()) return;
  lookup& l = **at;
  try {
    follow(l, news);
  } catch (const std::bad_alloc&) {
    tell(l, errc::no_memory, {});
  }
}

void port_directory::follow(lookup& l, const cm_news& news) {
  switch (news.what) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: {
      result<void> asked =
          resolve_route(l.id.get(), home_.owner(), l.to, port_.actual().connect_timeout);
      if (!asked) next_or_fail(l, asked.why());
      return;
    }
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      rdma_conn_param nothing_to_say{};
      if (rdma_connect(l.id.get(), &nothing_to_say) == 0) return;
      return next_or_fail(l, failure::from_os(errno, "asking " + l.to + " for a datagram port"));
    }
    case RDMA_CM_EVENT_ESTABLISHED: {
      const datagram_address found{.gid = to_bytes(news.path.grh.dgid), .lid = news.path.dlid};
      return tell(l, errc::ok, encode(found, news.peer_pair, news.qkey));
    }
    case RDMA_CM_EVENT_UNREACHABLE: return on_unreachable(l, news.status);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      if (news.is_unheard_address()) {
        l.candidates.pass_by();
        return try_next(l);
      }
      return next_or_fail(l, no_device_leads_to(l.to, -news.status));
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return next_or_fail(l, failure{errc::unreachable, "no RDMA device leads to " + l.to + " (" +
                                                            rdma_event_str(news.what) + ", " +
                                                            std::to_string(news.status) + ")"});
    default: return;
  }
}

// A negative status is an errno: no answer. A positive status is from the connection manager of the
// peer.
void port_directory::on_unreachable(lookup& l, int status) {
  if (status < 0) return give_up(l);
  next_or_fail(l, {errc::unreachable, "no datagram port is bound to " + l.to +
                                          ": start the service there, or check host and port"});
}

void port_directory::give_up(lookup& l) noexcept {
  tell(l, failure::of(errc::timed_out, {l.to, " does not answer: check address and fabric"}), {});
}

void port_directory::tell(lookup& l, failure why, const datagram_peer& found) noexcept {
  cm_event e;
  e.what = cm_event::type::resolved;
  e.pair = &port_;
  e.request = l.number;
  e.why = std::move(why);
  e.peer = std::move(l.to);
  e.port = found;
  home_.push_event(l.place, std::move(e));
  forget(l.number);
}

}  // namespace cordma::transport::verbs
