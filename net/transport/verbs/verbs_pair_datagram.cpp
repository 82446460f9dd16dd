// service::ud: one port that communicates with many peers, and with groups.
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/datagram_room.hpp>
#include <cordma/net/transport/verbs/port_directory.hpp>
#include <cordma/net/transport/verbs/verbs_pair.hpp>

#include <cordma/net/transport/crc32.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace cordma::transport::verbs {
namespace {

// A multicast address is used unchanged. Any other name is mapped by its checksum to an address in
// 239.192.0.0/14, which is for use within an organization (RFC 2365).
gid_bytes group_gid(const address& name) noexcept {
  gid_bytes gid{};
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.host.c_str(), &v6) == 1 && IN6_IS_ADDR_MULTICAST(&v6)) {
    std::memcpy(gid.data(), &v6, sizeof v6);
    return gid;
  }
  in_addr v4{};
  if (inet_pton(AF_INET, name.host.c_str(), &v4) != 1 || !IN_MULTICAST(ntohl(v4.s_addr))) {
    const std::string text = name.text();
    const std::uint32_t sum = crc32(std::as_bytes(std::span(text)));
    v4.s_addr = htonl(0xEFC00000U | (sum & 0x3FFFFU));
  }
  gid[10] = gid[11] = std::byte{0xFF};
  std::memcpy(&gid[12], &v4, sizeof v4);
  return gid;
}

failure cannot_announce(int code, const address& name) {
  const char* const remedy =
      code == ENOBUFS ? "raise net.ipv4.igmp_max_memberships"
                      : "the RDMA port's network interface must be up and able to multicast";
  return failure::from_os(code, "joining the group " + name.text() + " (" + remedy + ")");
}

// A socket announces the membership to switches and the kernel; the device only filters.
result<unique_fd> announce_membership(const gid_bytes& group, unsigned interface_index,
                                      const address& name) {
  const bool v4 = group[0] == std::byte{0};
  unique_fd socket_file(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_file) return failure::from_os(errno, "joining the group " + name.text());
  int code = 0;
  if (v4) {
    ip_mreqn r{};
    std::memcpy(&r.imr_multiaddr, &group[12], sizeof r.imr_multiaddr);
    r.imr_ifindex = static_cast<int>(interface_index);
    code = ::setsockopt(socket_file.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &r, sizeof r);
  } else {
    ipv6_mreq r{};
    std::memcpy(&r.ipv6mr_multiaddr, group.data(), group.size());
    r.ipv6mr_interface = interface_index;
    code = ::setsockopt(socket_file.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &r, sizeof r);
  }
  if (code != 0) return cannot_announce(errno, name);
  return socket_file;
}

}  // namespace

result<void> verbs_pair::open_port() {
  datagrams_.room = std::make_unique<datagram_room>(home_.owner().pd(), receives_.depth(),
                                                    home_.owner().caps().max_datagram);
  if (!datagrams_.room->is_registered()) return cannot_register(errno, datagrams_.room->bytes());
  const verbs_domain& domain = home_.owner();
  if (domain.hardware().is_ethernet() && !domain.choose_gid(nullptr)) return domain.no_gid();
  const int code = start_datagrams(native_.pair.get());
  if (code != 0) return failure::from_os(code, "starting a datagram port");
  terms_.path = datagram_path(home_.owner(), nullptr);
  move_to(phase::open);
  return {};
}

int verbs_pair::post_datagram(std::uint32_t place) noexcept {
  datagram_room::kept& k = datagrams_.room->at(place);
  ibv_recv_wr wr{};
  wr.wr_id = names_.other(work::datagram_receive, place);
  wr.sg_list = k.segments.data();
  wr.num_sge = static_cast<int>(k.count);
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(native_.pair.get(), &wr, &bad);
}

ibv_ah* verbs_pair::handle_to(const datagram_address& peer) noexcept {
  const handle_key key = key_to(peer);
  const requests_so_far now{.posted = sends_.posted() - 1, .done = sends_.done()};
  address_handle* h = datagrams_.room->handles().find(key, now);
  if (h == nullptr) [[unlikely]]
    h = datagrams_.room->handles().make(key, path_to(home_.owner(), peer), now);
  return h != nullptr ? h->native.get() : nullptr;
}

// False: the datagram is longer than the receive. It is lost, and the receive waits for the next
// one, or has failed.
bool verbs_pair::take_datagram(std::uint32_t place, const ibv_wc& wc,
                               std::uint32_t& bytes) noexcept {
  const datagram_room::kept& k = datagrams_.room->at(place);
  bytes = wc.byte_len - std::min<std::uint32_t>(wc.byte_len, grh_bytes);
  if (bytes > k.length) {
    const int code = post_datagram(place);
    if (code != 0) refused_receive(place, code);
    return false;
  }
  if (k.from != nullptr) {
    const std::span<const std::byte, grh_bytes> header(datagrams_.room->header(place), grh_bytes);
    const datagram_address from{.gid = sender_of(header), .lid = wc.slid};
    *k.from = encode(from, wc.src_qp, options_.qkey);
  }
  return true;
}

result<datagram_peer> verbs_pair::self() {
  if (!datagrams()) return errc::not_supported;
  const device& d = home_.owner().hardware();
  datagram_address own{.lid = d.port_attributes.lid};
  const std::optional<ibv_gid_entry> gid = home_.owner().choose_gid(nullptr);
  if (gid) {
    own.gid = to_bytes(gid->gid);
  } else if (d.is_ethernet()) {
    return home_.owner().no_gid();
  }
  return encode(own, number_, options_.qkey);
}

result<datagram_peer> verbs_pair::group(const address& name) {
  if (!datagrams()) return errc::not_supported;
  if (name.host.empty()) return failure{errc::invalid_value, "a group needs a name"};
  const datagram_address to{.gid = group_gid(name), .group = true};
  return encode(to, group_pair, options_.qkey);
}

result<void> verbs_pair::join(const address& name) {
  if (!datagrams()) return errc::not_supported;
  if (name.host.empty()) return failure{errc::invalid_value, "a group needs a name"};
  const gid_bytes gid = group_gid(name);
  const auto member = [&gid](const auto& g) { return g.first == gid; };
  if (std::any_of(datagrams_.groups.begin(), datagrams_.groups.end(), member)) return {};
  const std::optional<ibv_gid_entry> own = home_.owner().choose_gid(&gid);
  result<unique_fd> announced = announce_membership(gid, own ? own->ndev_ifindex : 0, name);
  if (!announced) return announced.why();
  const ibv_gid raw = to_gid(gid);
  const int code = ibv_attach_mcast(native_.pair.get(), &raw, 0);
  if (code != 0) return failure::from_os(code, "joining the group " + name.text());
  datagrams_.groups.emplace_back(gid, std::move(*announced));
  return {};
}

// A queue pair that is in a group cannot be destroyed.
void verbs_pair::leave_groups() noexcept {
  for (const auto& [gid, announced] : datagrams_.groups) {
    const ibv_gid raw = to_gid(gid);
    static_cast<void>(ibv_detach_mcast(native_.pair.get(), &raw, 0));
  }
  datagrams_.groups.clear();
}

result<void> verbs_pair::leave(const address& name) {
  if (!datagrams()) return errc::not_supported;
  const gid_bytes gid = group_gid(name);
  const auto at = std::find_if(datagrams_.groups.begin(), datagrams_.groups.end(),
                               [&gid](const auto& g) { return g.first == gid; });
  if (at == datagrams_.groups.end()) {
    return failure{errc::not_found, "this port has not joined " + name.text()};
  }
  const ibv_gid raw = to_gid(gid);
  static_cast<void>(ibv_detach_mcast(native_.pair.get(), &raw, 0));
  datagrams_.groups.erase(at);
  return {};
}

result<port_directory*> verbs_pair::directory() {
  if (!datagrams()) return errc::not_supported;
  if (has_failed()) return errc::bad_state;
  if (datagrams_.directory == nullptr)
    datagrams_.directory = std::make_unique<port_directory>(home_, *this);
  return datagrams_.directory.get();
}

result<address> verbs_pair::bind(const address& where) {
  if (options_.qkey != bound_qkey) {
    return failure{errc::invalid_value,
                   "rdma_cm tells whoever asks that the key is 0x01234567: make the port with "
                   "options.qkey = transport::bound_qkey"};
  }
  const result<port_directory*> d = directory();
  return d ? (*d)->bind(where) : d.why();
}

result<std::uint64_t> verbs_pair::resolve(const address& to) {
  const result<port_directory*> d = directory();
  return d ? (*d)->resolve(to) : d.why();
}

void verbs_pair::forget(std::uint64_t request) noexcept {
  if (datagrams_.directory != nullptr) datagrams_.directory->forget(request);
}

}  // namespace cordma::transport::verbs
