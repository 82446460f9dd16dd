// Connects a queue pair: by connect and accept, or by the descriptors of both sides.
#include <cordma/net/transport/sim/descriptor.hpp>
#include <cordma/net/transport/sim/sim_adapter.hpp>
#include <cordma/net/transport/sim/sim_pair.hpp>

#include <algorithm>

namespace cordma::transport::sim {
namespace {
// Number of times that a request is sent before connect_timeout ends.
constexpr int tries = 32;
}  // namespace

handshake sim_pair::introduction() const noexcept {
  return {.type = options_.type,
          .port = peer_port_,
          .read_depth = options_.read_depth,
          .first_psn = first_psn_};
}

void sim_pair::begin_connect(std::uint32_t peer_host, std::uint16_t port,
                             std::span<const std::byte> data) {
  state_.become(state::connecting);
  peer_ = {peer_host, 0, 0};
  peer_port_ = port;
  handshake_data_.assign(data.begin(), data.end());
  handshake_until_ = net().now() + options_.connect_timeout;
  handshake_every_ =
      std::max(options_.connect_timeout / tries, net().round_trip(id_.host, peer_host));
  send_handshake();
}

void sim_pair::begin_accept(const host::request& asked, std::span<const std::byte> data) {
  state_.become(state::accepting);
  peer_ = asked.client;
  peer_port_ = client_port(asked.client.number);
  local_port_ = asked.theirs.port;
  handshake_data_.assign(data.begin(), data.end());
  agree(asked.theirs);
  handshake_until_ = net().now() + options_.connect_timeout;
  handshake_every_ =
      std::max(options_.connect_timeout / tries, net().round_trip(id_.host, peer_.host));
  send_handshake();
}

// Both sides' limits are known: the smaller ones apply.
void sim_pair::agree(const handshake& theirs) noexcept {
  options_.read_depth = std::min(options_.read_depth, theirs.read_depth);
  mtu_ = std::min(mtu_, net().at(peer_.host).mtu());
  if (options_.type == service::rc) {
    requester_.start(first_psn_);
    responder_.start(theirs.first_psn, options_.read_depth);
  } else {
    unreliable_.start(first_psn_, theirs.first_psn);
  }
}

void sim_pair::send_handshake() noexcept {
  packet_kind kind = packet_kind::connect;
  if (state_ == state::accepting) kind = packet_kind::accept;
  if (state_ == state::attaching) kind = packet_kind::attach;
  host_->send_control(kind, id_, peer_, introduction(), handshake_data_);
  set_alarm(alarm::handshake, std::min(net().now() + handshake_every_, handshake_until_));
}

void sim_pair::on_handshake_alarm() noexcept {
  const bool waits =
      state_ == state::connecting || state_ == state::accepting || state_ == state::attaching;
  if (!waits) return;
  if (net().now() < handshake_until_) return send_handshake();
  fail({errc::timed_out, peer_name() + " did not answer within the connect timeout"},
       farewell::reset);
}

void sim_pair::went_up(std::span<const std::byte> data) noexcept {
  state_.become(state::connected);
  set_alarm(alarm::handshake, never);
  cm_event e;
  e.what = cm_event::type::established;
  e.pair = this;
  e.peer = peer_address();
  e.data.assign(data.begin(), data.end());
  owner_.push(std::move(e));
  watch_for_silence();
  pump();
}

void sim_pair::on_control(const packet& p) noexcept {
  switch (p.kind) {
    case packet_kind::accept:
      if (state_ == state::connecting) {
        peer_ = p.from;
        agree(p.cm);
        host_->send_control(packet_kind::ready, id_, peer_, {});
        return went_up({p.payload, p.length});
      }
      if (p.from == peer_ && may_send()) {  // our confirmation was lost
        return host_->send_control(packet_kind::ready, id_, peer_, {});
      }
      // The attempt was given up meanwhile.
      return host_->send_control(packet_kind::bye, id_, p.from, {});
    case packet_kind::ready:
      if (state_ == state::accepting && p.from == peer_) went_up({});
      return;
    case packet_kind::refuse: return on_refuse(p);
    case packet_kind::attach: return on_attach(p);
    case packet_kind::attach_ack:
      if (state_ == state::attaching && p.from == peer_) went_up({});
      return;
    case packet_kind::bye: return on_bye(p);
    default: return;
  }
}

void sim_pair::on_refuse(const packet& p) noexcept {
  if (state_ == state::attaching && p.from == peer_) {
    return fail({errc::connection_aborted, net().at(peer_.host).name() +
                                               " does not know this descriptor: its queue pair "
                                               "is gone or connected to another"},
                farewell::silent);
  }
  if (state_ != state::connecting) return;
  if (p.cm.why != errc::rejected) {
    return fail({p.cm.why, "nobody listens at " + peer_name()}, farewell::silent);
  }
  state_.become(state::error);
  for (alarm_clock& a : alarms_) a.deadline = never;
  cm_event e;
  e.what = cm_event::type::rejected;
  e.pair = this;
  e.peer = peer_name();
  e.why = failure{errc::rejected, peer_name() + " rejected the request"};
  e.data.assign(p.payload, p.payload + p.length);
  owner_.push(std::move(e));
  flush();
}

void sim_pair::on_bye(const packet& p) noexcept {
  const bool mine = p.from == peer_ || state_ == state::connecting;
  if (mine && state_ == state::closing && p.cm.graceful && !goodbye_said_) {
    bye_waits_ = true;  // answered when the posted requests have been carried out
    return;
  }
  host_->send_control(packet_kind::bye_ack, id_, p.from, {});
  if (!mine || state_ == state::error || state_ == state::idle) return;
  goodbye_said_ = true;
  if (p.cm.graceful) {
    return fail({errc::not_connected, peer_name() + " closed the connection"}, farewell::silent);
  }
  if (options_.type == service::rc && may_send()) {
    requester_.on_last_nak(p.cm.nak, p.cm.nak_psn);
  }
  fail({errc::connection_reset, peer_name() + " ended the connection"}, farewell::silent);
}

// ---- descriptors ----

result<std::vector<std::byte>> sim_pair::descriptor() {
  if (options_.type == service::ud) return errc::not_supported;
  if (state_ != state::idle) return failure{errc::bad_state, "the queue pair is connected already"};
  return encode_descriptor({.id = id_, .hello = introduction()});
}

result<void> sim_pair::connect(std::span<const std::byte> peer_descriptor) {
  if (options_.type == service::ud) return errc::not_supported;
  if (state_ != state::idle) return failure{errc::bad_state, "the queue pair is connected already"};
  const result<pair_descriptor> d = decode_descriptor(peer_descriptor);
  if (!d) return d.why();
  const pair_descriptor theirs = d.value();
  if (theirs.hello.type != options_.type) {
    return failure{errc::connection_aborted, "the descriptor is of a queue pair of service " +
                                                 std::string(name(theirs.hello.type)) +
                                                 ", this one is of service " +
                                                 std::string(name(options_.type))};
  }
  if (theirs.id.host >= net().host_count()) {
    return failure{errc::unreachable, "the descriptor is of another network"};
  }
  state_.become(state::attaching);
  peer_ = theirs.id;
  agree(theirs.hello);
  handshake_until_ = net().now() + options_.connect_timeout;
  handshake_every_ =
      std::max(options_.connect_timeout / tries, net().round_trip(id_.host, peer_.host));
  send_handshake();
  return {};
}

void sim_pair::on_attach(const packet& p) noexcept {
  if (state_ == state::idle)
    return;  // its user has yet to connect it; the peer repeats its request
  if (p.from != peer_ || state_ == state::error) {
    return host_->send_control(packet_kind::refuse, id_, p.from, {.why = errc::rejected});
  }
  host_->send_control(packet_kind::attach_ack, id_, peer_, {});
  if (state_ == state::attaching) went_up({});
}

// ---- datagram ports ----

result<datagram_peer> sim_pair::self() {
  if (options_.type != service::ud) return errc::not_supported;
  return encode({.host_or_group = id_.host, .instance = id_.instance}, id_.number, options_.qkey);
}

result<datagram_peer> sim_pair::group(const address& name) {
  if (options_.type != service::ud) return errc::not_supported;
  if (name.host.empty()) return failure{errc::invalid_value, "a group needs a name"};
  return encode({.is_group = true, .host_or_group = net().group_id(name.host)}, 0, options_.qkey);
}

result<void> sim_pair::join(const address& name) {
  const result<datagram_peer> g = group(name);
  if (!g) return g.why();
  std::vector<endpoint_id>& members = net().members(decode(*g).host_or_group);
  if (std::find(members.begin(), members.end(), id_) == members.end()) members.push_back(id_);
  return {};
}

result<void> sim_pair::leave(const address& name) {
  const result<datagram_peer> g = group(name);
  if (!g) return g.why();
  if (std::erase(net().members(decode(*g).host_or_group), id_) == 0) {
    return failure{errc::not_found, "not a member of the group " + name.host};
  }
  return {};
}

}  // namespace cordma::transport::sim
