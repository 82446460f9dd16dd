// Establishing through rdma_cm: resolving, requesting, answering, and the state changes of the
// queue pair.
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace cordma::transport::verbs {
namespace {

// Reject reasons of the connection manager (IBTA, 12.6.7.2).
constexpr int reject_no_listener = 8;   // invalid service ID
constexpr int reject_by_consumer = 28;  // the peer called rdma_reject(), or ended

failure request_is_gone(const std::string& peer) {
  return {errc::bad_state, "the client " + peer + " has hung up: its request is gone"};
}

result<void> modify(ibv_qp* qp, ibv_qp_attr& attr, int mask, const char* what) {
  const int code = ibv_modify_qp(qp, &attr, mask);
  if (code == 0) return {};
  return failure::from_os(code, what);
}

}  // namespace

// Reads the port once: this side keeps to the value that it sent to the peer.
std::uint8_t verbs_pair::offered_mtu() noexcept {
  if (terms_.mtu == 0) {
    const std::uint32_t most = home_.owner().options().mtu;
    const std::uint8_t active = active_mtu(home_.owner().hardware());
    terms_.mtu = most != 0 ? std::min(mtu_code(most), active) : active;
  }
  return terms_.mtu;
}

hello verbs_pair::greeting(hello_kind kind) {
  const verbs_options& options = home_.owner().options();
  control_port* const control = home_.control();
  return {
      .kind = kind,
      .type = options_.type,
      .mtu = offered_mtu(),
      .rnr_timer = options.rnr_timer != 0 ? options.rnr_timer.get() : rnr_code(options_.rnr_timer),
      .rights = options_.remote_access,
      .control_pair = control != nullptr ? control->number() : 0};
}

void verbs_pair::begin(std::vector<socket_address> candidates, std::string peer,
                       std::span<const std::byte> data) {
  peer_ = std::move(peer);
  handshake_ = std::make_unique<handshake>();
  handshake_->candidates = peer_addresses(std::move(candidates));
  handshake_->data.assign(data.begin(), data.end());
  move_to(phase::resolving);
  home_.home().add(timer_, after(home_.home().now(), options_.connect_timeout));
  try_next_candidate();
}

void verbs_pair::try_next_candidate() noexcept {
  move_to(phase::resolving);
  try {
    while (const socket_address* const to = handshake_->candidates.current()) {
      id_.reset();
      const result<void> trying = try_candidate(*to);
      if (trying) return;
      handshake_->last = trying.why();
      handshake_->candidates.drop();
    }
  } catch (const std::bad_alloc&) {
    handshake_->last = errc::no_memory;
  }
  never_came_up(cm_event::type::failed, handshake_->last, {});
}

result<void> verbs_pair::try_candidate(const socket_address& to) {
  const cm_token token{cm_token::kind::pair, number_};
  result<owned_id> asked = resolve_address(home_.cm(), home_.owner(), token, RDMA_PS_TCP, to);
  if (!asked) return asked.why();
  id_ = std::move(*asked);
  return {};
}

void verbs_pair::next_or_fail(failure why) noexcept {
  handshake_->last = std::move(why);
  handshake_->candidates.drop();
  try_next_candidate();
}

void verbs_pair::on_news(const cm_news& news) noexcept {
  if (datagrams())
    return datagrams_.directory != nullptr ? datagrams_.directory->on_news(news) : void();
  try {
    follow(news);
  } catch (const std::bad_alloc&) {
    enter_error(errc::no_memory);
  }
}

void verbs_pair::follow(const cm_news& news) {
  switch (news.what) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (phase_ == phase::resolving) on_resolved();
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (phase_ == phase::resolving) request();
      return;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      if (phase_ != phase::resolving) return;
      if (news.is_unheard_address()) {
        handshake_->candidates.pass_by();
        return try_next_candidate();
      }
      return next_or_fail(no_device_leads_to(peer_, -news.status));
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (phase_ == phase::requesting) on_response(news);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (phase_ == phase::accepting) came_up({});
      return;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (phase_ == phase::requesting || phase_ == phase::accepting) on_refusal(news);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (phase_ == phase::accepting) return on_refusal(news);
      if (phase_ == phase::goodbye_sent) {
        return enter_error({errc::not_connected, "the connection to " + peer_ + " was closed"});
      }
      if (carrying() && plain()) {
        return enter_error({errc::not_connected, "the connection was ended by " + peer_});
      }
      if (carrying()) enter_error(reset("the peer ended it, or is gone"));
      return;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:  // of another device, which never reached the peer
      return next_or_fail({errc::unreachable, "no RDMA device leads to " + peer_});
    default: return;  // ADDR_CHANGE, TIMEWAIT_EXIT: ignored
  }
}

void verbs_pair::on_resolved() {
  result<void> asked = resolve_route(id_.get(), home_.owner(), peer_, options_.connect_timeout);
  if (!asked) next_or_fail(asked.why());
}

void verbs_pair::request() {
  const private_data data = plain() ? without_head(handshake_->data)
                                    : encode(greeting(hello_kind::request), handshake_->data);
  rdma_conn_param p{};
  p.private_data = data.bytes.data();
  p.private_data_len = data.length;
  p.responder_resources = static_cast<std::uint8_t>(options_.read_depth);
  p.initiator_depth = static_cast<std::uint8_t>(options_.read_depth);
  p.flow_control = 1;
  p.srq = shared_.from != nullptr ? 1 : 0;
  p.retry_count = home_.owner().options().retry_count;
  p.rnr_retry_count = options_.rnr_retry;
  p.qp_num = number_;
  move_to(phase::requesting);
  if (rdma_connect(id_.get(), &p) != 0) {
    const int code = errno;
    next_or_fail(failure::from_os(code, "asking " + peer_ + " for a connection"));
  }
}

void verbs_pair::agree(const hello& theirs, const read_depths& reads) {
  terms_.theirs = theirs;
  terms_.mtu = std::min(offered_mtu(), theirs.mtu);
  terms_.answers = std::max(std::min(options_.read_depth, reads.theirs), 1U);
  options_.read_depth = std::max(std::min(options_.read_depth, reads.ours), 1U);
}

// Sets the terms with a peer that sends none. rdma_cm has both sides' depths and the path's MTU,
// and grants the right to write, and to read if the peer answers reads. The RNR timer is this
// side's own value.
void verbs_pair::agree_unsaid(const read_depths& reads) {
  hello theirs = greeting(hello_kind::accept);
  theirs.control_pair = 0;
  theirs.rights = reads.ours != 0 ? all_remote : access::remote_write;
  agree(theirs, reads);
  terms_.mtu = largest_mtu_code;
}

void verbs_pair::on_response(const cm_news& news) {
  const decoded_hello d = decode(news.bytes());
  const bool expected =
      plain() || (d.what == decoded_hello::outcome::good && d.value.kind == hello_kind::accept);
  if (!expected) {
    rdma_reject(id_.get(), nullptr, 0);
    return never_came_up(cm_event::type::failed,
                         {errc::connection_aborted,
                          peer_ + " answered the handshake wrongly: is it a cordma service? A peer "
                                  "without cordma is peer_kind::plain"},
                         {});
  }
  if (plain()) {
    agree_unsaid(news.reads());
  } else {
    agree(d.value, news.reads());
  }
  result<void> ready = make_ready(news.peer_pair);
  if (ready && rdma_establish(id_.get()) != 0) {
    ready = failure::from_os(errno, "completing the connection to " + peer_);
  }
  if (!ready) return never_came_up(cm_event::type::failed, ready.why(), {});
  const std::span<const std::byte> said = plain() ? news.bytes() : d.user;
  came_up({said.begin(), said.end()});
}

void verbs_pair::on_refusal(const cm_news& news) {
  if (phase_ == phase::accepting) {
    return never_came_up(cm_event::type::failed,
                         {errc::connection_aborted, "the client " + peer_ + " has gone"}, {});
  }
  if (news.what == RDMA_CM_EVENT_REJECTED && news.status == reject_no_listener) {
    return next_or_fail(
        {errc::unreachable,
         "nobody listens on " + peer_ + ": start the service there, or check host and port"});
  }
  if (news.what == RDMA_CM_EVENT_UNREACHABLE) {
    return next_or_fail({errc::timed_out, peer_ + " does not answer: check address and fabric"});
  }
  const bool by_program = news.what == RDMA_CM_EVENT_REJECTED && news.status == reject_by_consumer;
  const decoded_hello d = plain() ? decoded_hello{} : decode(news.bytes());
  const bool no = d.what == decoded_hello::outcome::good && d.value.kind == hello_kind::reject;
  if (plain() ? by_program : no) {
    return never_came_up(cm_event::type::rejected,
                         {errc::rejected, peer_ + " rejected the request"},
                         plain() ? news.bytes() : d.user);
  }
  const bool good = d.what == decoded_hello::outcome::good;
  if (d.what == decoded_hello::outcome::other_version ||
      (good && d.value.kind == hello_kind::mismatch)) {
    return never_came_up(
        cm_event::type::failed,
        {errc::unsupported_version,
         "the handshake with " + peer_ + " failed: version: mine " + std::to_string(wire_version) +
             ", theirs " + std::to_string(d.value.version) +
             ", or another service than theirs: run the same release on both sides"},
        {});
  }
  if (by_program) return never_came_up(cm_event::type::failed, hung_up(), {});
  never_came_up(cm_event::type::failed,
                {errc::connection_aborted, peer_ + " refused the handshake (" +
                                               std::string(rdma_event_str(news.what)) +
                                               ", status " + std::to_string(news.status) + ")"},
                {});
}

result<void> verbs_pair::answer(incoming& client, std::span<const std::byte> data) {
  peer_ = client.peer;
  id_ = std::move(client.id);
  id_->context = cm_token{cm_token::kind::pair, number_}.packed();
  if (plain()) {
    agree_unsaid(client.reads);
  } else {
    agree(client.theirs, client.reads);
  }
  const result<void> ready = make_ready(client.peer_pair);
  if (!ready) client.id = std::move(id_);
  if (ready.code() == errc::connection_aborted) return request_is_gone(peer_);
  if (!ready) return ready;
  const private_data reply =
      plain() ? without_head(data) : encode(greeting(hello_kind::accept), data);
  rdma_conn_param p{};
  p.private_data = reply.bytes.data();
  p.private_data_len = reply.length;
  p.responder_resources = static_cast<std::uint8_t>(terms_.answers);
  p.initiator_depth = static_cast<std::uint8_t>(options_.read_depth);
  p.flow_control = 1;
  p.srq = shared_.from != nullptr ? 1 : 0;
  p.rnr_retry_count = options_.rnr_retry;
  p.qp_num = number_;
  if (rdma_accept(id_.get(), &p) != 0) {
    return request_is_gone(peer_).with_errno(errno);
  }
  move_to(phase::accepting);
  home_.home().add(timer_, after(home_.home().now(), options_.connect_timeout));
  // If the client's RTU is lost, rdma_cm repeats its REP after 4.1 s: `attach` queries the client
  // earlier.
  repeat_after_ = first_attach_for_rtu;
  if (terms_.to_control != nullptr) home_.home().add(repeat_, home_.home().now() + repeat_after_);
  return {};
}

result<void> verbs_pair::make_ready(std::uint32_t peer_number) {
  terms_.peer = peer_number;
  ibv_qp_attr attr{};
  int mask = 0;
  const result<void> to_begin = ask_path(IBV_QPS_RTR, attr, mask);
  if (!to_begin) return to_begin;
  const result<void> receiving = to_receive(attr, mask);
  if (!receiving) return receiving;
  const result<void> to_go_on = ask_path(IBV_QPS_RTS, attr, mask);
  if (!to_go_on) return to_go_on;
  return to_send(attr, mask);
}

// Reads the path to the peer from rdma_cm, for a queue pair that enters `state`.
result<void> verbs_pair::ask_path(ibv_qp_state state, ibv_qp_attr& attr, int& mask) const {
  attr = ibv_qp_attr{};
  attr.qp_state = state;
  mask = 0;
  if (rdma_init_qp_attr(id_.get(), &attr, &mask) == 0) return {};
  // The connection is in a state without a path.
  if (errno == EINVAL) return hung_up().with_errno(EINVAL);
  return failure::from_os(errno, "the path to " + peer_);
}

failure verbs_pair::hung_up() const {
  return {errc::connection_aborted, peer_ + " hung up in the handshake"};
}

// `attr` is from rdma_cm or a descriptor; the agreed terms and the operator's settings override it.
result<void> verbs_pair::to_receive(ibv_qp_attr attr, int mask) {
  const verbs_options& options = home_.owner().options();
  const bool by_gid = attr.ah_attr.is_global != 0;
  if (options.gid_index >= 0 && by_gid && attr.ah_attr.grh.sgid_index != options.gid_index) {
    return failure{errc::unreachable,
                   "the way to " + peer_ + " starts at GID " +
                       std::to_string(attr.ah_attr.grh.sgid_index) + " of this side, and " +
                       "verbs.gid_index demands " + std::to_string(options.gid_index) +
                       ": connect to an address that this GID leads to, or set it to route"};
  }
  terms_.mtu = std::min(terms_.mtu, static_cast<std::uint8_t>(attr.path_mtu));
  attr.path_mtu = static_cast<ibv_mtu>(terms_.mtu);
  attr.max_dest_rd_atomic = static_cast<std::uint8_t>(terms_.answers);
  // The side without a receive sends the RNR timer: the value that the other side requested.
  attr.min_rnr_timer = terms_.theirs.rnr_timer;
  if (options.service_level != 0) attr.ah_attr.sl = options.service_level;
  if (options.traffic_class != 0) attr.ah_attr.grh.traffic_class = options.traffic_class;
  // Rights and depths of the peer are from this side's options, not from rdma_cm.
  mask &= ~IBV_QP_ACCESS_FLAGS;
  if (options_.type == service::uc) mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  const result<void> done =
      modify(native_.pair.get(), attr, mask, "preparing the queue pair to receive");
  if (!done) return done;
  if (shared_.from != nullptr) shared_.state.become(drawing::begun);
  terms_.path = attr.ah_attr;
  if (terms_.theirs.control_pair != 0 && home_.control() != nullptr &&
      terms_.to_control == nullptr) {
    terms_.to_control = home_.hold_handle(terms_.path);
  }
  return {};
}

result<void> verbs_pair::to_send(ibv_qp_attr attr, int mask) {
  const verbs_options& options = home_.owner().options();
  const std::uint8_t retries = home_.owner().hardware().retries(options.retry_count);
  terms_.timeout =
      options.timeout != 0 ? options.timeout.get() : timeout_code(options_.peer_timeout, retries);
  watch_.set_silence(silence_of(options_.peer_timeout, terms_.timeout, retries));
  attr.timeout = terms_.timeout;
  attr.retry_cnt = retries;
  attr.rnr_retry = options_.rnr_retry;
  attr.max_rd_atomic = static_cast<std::uint8_t>(options_.read_depth);
  if (options_.type == service::uc) {
    mask &= ~(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  return modify(native_.pair.get(), attr, mask, "preparing the queue pair to send");
}

// Queries the device for its values, while it has the queue pair.
ibv_qp_attr verbs_pair::granted_attributes() const {
  constexpr int asked = IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_MIN_RNR_TIMER | IBV_QP_PKEY_INDEX | IBV_QP_AV;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (native_.pair == nullptr || ibv_query_qp(native_.pair.get(), &attr, asked, &init) != 0)
    attr = {};
  return attr;
}

std::vector<property> verbs_pair::properties() const {
  const device& d = home_.owner().hardware();
  const ibv_qp_attr has = granted_attributes();
  // A datagram port has no single path, but one per peer.
  const ibv_ah_attr& way = datagrams() ? terms_.path : has.ah_attr;
  std::uint16_t pkey = 0;
  static_cast<void>(ibv_query_pkey(d.context.get(), d.port, has.pkey_index, &pkey));
  const auto number = [](auto value) { return std::to_string(static_cast<unsigned>(value)); };
  return {{"device", d.name},
          {"port", number(d.port)},
          {"pair", number(number_)},
          {"peer_pair", number(terms_.peer)},
          {"path_mtu",
           number(has.path_mtu != 0 ? mtu_bytes(static_cast<std::uint8_t>(has.path_mtu)) : 0U)},
          {"gid_index", number(way.grh.sgid_index)},
          {"peer_gid", to_text(way.grh.dgid)},
          {"pkey_index", number(has.pkey_index)},
          {"pkey", pkey_text(ntohs(pkey))},
          {"service_level", number(d.is_soft_roce() ? terms_.path.sl : way.sl)},
          {"traffic_class", number(way.grh.traffic_class)},
          {"timeout", number(has.timeout)},
          {"retry_count", number(has.retry_cnt)},
          {"rnr_retry", number(has.rnr_retry)},
          {"rnr_timer", number(has.min_rnr_timer)},
          {"relaxed_ordering", home_.owner().options().relaxed_ordering ? "true" : "false"},
          {"max_send_wr", number(native_.given.max_send_wr)},
          {"max_recv_wr", number(native_.given.max_recv_wr)},
          {"max_send_sge", number(native_.given.max_send_sge)},
          {"max_recv_sge", number(native_.given.max_recv_sge)},
          {"max_inline_data", number(native_.given.max_inline_data)},
          {"requests_by", native_.sends.is_extended() ? "ibv_wr" : "ibv_post_send"},
          {"completions_by", d.extended.completions ? "ibv_cq_ex" : "ibv_poll_cq"},
          {"cq_entries", number(queue_->cqe)}};
}

}  // namespace cordma::transport::verbs
