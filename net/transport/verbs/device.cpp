#include <cordma/net/transport/verbs/device.hpp>

#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/verbs/codes.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/window.hpp>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

namespace cordma::transport::verbs {
namespace {

struct device_list {
  device_list() noexcept : all(ibv_get_device_list(&count)) {}
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;
  ~device_list() {
    if (all != nullptr) ibv_free_device_list(all);
  }
  int count = 0;
  ibv_device** all;
};

struct filter {
  std::string name;    // empty: any
  unsigned port = 0;   // 0: the first active one
  unsigned after = 0;  // only ports of a larger number
};

result<filter> parse_filter(const std::string& text) {
  filter f;
  const std::size_t colon = text.find(':');
  f.name = text.substr(0, colon);
  if (colon == std::string::npos) return f;
  const char* const first = text.data() + colon + 1;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(first, last, f.port);
  if (f.name.empty() || status != std::errc{} || end != last || f.port == 0 || f.port > 255) {
    return failure{errc::invalid_value,
                   "verbs.device \"" + text + "\": write a device, or device:port as in mlx5_0:1"};
  }
  return f;
}

std::string names(const device_list& list) {
  std::string text;
  for (int i = 0; i < list.count; ++i) {
    text += (text.empty() ? "" : ", ") + std::string(ibv_get_device_name(list.all[i]));
  }
  return text;
}

bool find_active_port(device& d, const filter& wanted) {
  const unsigned count = d.attributes.orig_attr.phys_port_cnt;
  for (unsigned port = wanted.after + 1; port <= count; ++port) {
    if (wanted.port != 0 && wanted.port != port) continue;
    const auto number = static_cast<std::uint8_t>(port);
    if (ibv_query_port(d.context.get(), number, &d.port_attributes) != 0) continue;
    if (d.port_attributes.state != IBV_PORT_ACTIVE) continue;
    d.port = number;
    return true;
  }
  return false;
}

result<void> load_gids(device& d, int wanted) {
  std::optional<std::vector<ibv_gid_entry>> all = read_gids(d.context.get(), d.port);
  if (!all) return failure::from_os(errno, "reading the GIDs of " + d.name);
  d.gids = std::move(*all);
  if (wanted < 0) return {};
  std::string there;
  for (const ibv_gid_entry& e : d.gids) {
    if (e.gid_index == static_cast<std::uint32_t>(wanted)) return {};
    there +=
        (there.empty() ? "" : ", ") + std::to_string(e.gid_index) + " (" + to_text(e.gid) + ")";
  }
  return failure{errc::not_found, "verbs.gid_index " + std::to_string(wanted) + ": port " +
                                      std::to_string(d.port) + " of " + d.name +
                                      " has no such GID; it has " +
                                      (there.empty() ? "none" : there)};
}

result<void> find_pkey(device& d, std::uint16_t wanted) {
  constexpr std::uint16_t membership = 0x8000;  // full or limited: either is accepted
  int unreadable = 0;
  for (int i = 0; i < d.port_attributes.pkey_tbl_len; ++i) {
    __be16 value = 0;
    if (ibv_query_pkey(d.context.get(), d.port, i, &value) != 0) {
      unreadable = errno;
      continue;
    }
    const bool empty = (ntohs(value) & ~membership) == 0;
    if (empty || ((ntohs(value) ^ wanted) & ~membership & 0xFFFF) != 0) continue;
    d.pkey_index = static_cast<std::uint16_t>(i);
    d.pkey = ntohs(value);
    return {};
  }
  if (unreadable != 0) {
    return failure::from_os(reason_behind(unreadable), "reading the partitions of " + d.name);
  }
  return failure{errc::not_found, "verbs.pkey " + pkey_text(wanted) + ": port " +
                                      std::to_string(d.port) + " of " + d.name +
                                      " is not in that partition (see cordma-info --devices)"};
}

// No attribute reports how much a queue pair takes inline: try by creating one.
std::uint32_t try_inline(const device& d, std::uint32_t most) {
  const owned<ibv_pd> pd(ibv_alloc_pd(d.context.get()));
  const owned<ibv_cq> cq(ibv_create_cq(d.context.get(), 16, nullptr, nullptr, 0));
  if (pd == nullptr || cq == nullptr) return 0;
  for (std::uint32_t bytes = most; bytes != 0; bytes /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq.get();
    init.cap.max_send_wr = init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.cap.max_inline_data = bytes;
    init.qp_type = IBV_QPT_RC;
    const owned<ibv_qp> qp(ibv_create_qp(pd.get(), &init));
    if (qp != nullptr) return bytes;
  }
  return 0;
}

// Each kind separately, unless both are demanded.
result<void> choose_calls(device& d, verbs_calls wanted) {
  if (wanted == verbs_calls::plain) return {};
  const owned<ibv_pd> pd(ibv_alloc_pd(d.context.get()));
  d.extended = try_extended_calls(pd.get(), d.attributes.orig_attr);
  if (wanted == verbs_calls::automatic) return {};
  if (d.extended.requests && d.extended.completions) return {};
  return failure{errc::not_supported, "verbs.calls extended: " + d.name + " has no " +
                                          (d.extended.requests ? "ibv_cq_ex" : "ibv_wr_*") +
                                          ": use auto or plain"};
}

int rank(const ibv_gid_entry& e, const gid_bytes* like) noexcept {
  const bool v4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(&e.gid));
  const bool local = IN6_IS_ADDR_LINKLOCAL(reinterpret_cast<const in6_addr*>(&e.gid));
  int points = 0;
  if (like != nullptr) {
    const bool peer_v4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(like));
    const bool peer_local = IN6_IS_ADDR_LINKLOCAL(reinterpret_cast<const in6_addr*>(like));
    points += (v4 == peer_v4 ? 16 : 0) + (local == peer_local ? 8 : 0);
  }
  points += e.gid_type == IBV_GID_TYPE_ROCE_V2 ? 4 : 0;
  return points + (v4 ? 2 : 0) + (local ? 0 : 1);
}

}  // namespace

failure cannot_open(const std::string& what, const std::string& file, int code) {
  const std::string path = "/dev/infiniband/" + file;
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0 && errno == EACCES) {
    return failure{errc::not_permitted, what + " cannot be opened: " + path +
                                            " is closed to this user: see its mode and group"}
        .with_errno(EACCES);
  }
  return failure::from_os(reason_behind(code), what + " cannot be opened");
}

std::uint8_t active_mtu(const device& d) noexcept {
  ibv_port_attr now{};
  const bool known = ibv_query_port(d.context.get(), d.port, &now) == 0;
  return static_cast<std::uint8_t>(known ? now.active_mtu : d.port_attributes.active_mtu);
}

owned<ibv_mr> register_bytes(ibv_pd* pd, void* at, std::size_t bytes, unsigned flags) {
  // This call accepts optional flags and omits those that the kernel does not support.
  return owned<ibv_mr>(
      ibv_reg_mr_iova2(pd, at, bytes, reinterpret_cast<std::uintptr_t>(at), flags));
}

gid_bytes to_bytes(const ibv_gid& gid) noexcept {
  gid_bytes bytes;
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

ibv_gid to_gid(const gid_bytes& bytes) noexcept {
  ibv_gid gid;
  std::memcpy(gid.raw, bytes.data(), bytes.size());
  return gid;
}

std::string to_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(&gid))) {
    inet_ntop(AF_INET, &gid.raw[12], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  }
  return text.data();
}

std::string pkey_text(std::uint16_t pkey) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%04x", static_cast<unsigned>(pkey));
  return text.data();
}

std::optional<std::vector<ibv_gid_entry>> read_gids(ibv_context* context, std::uint8_t port) {
  std::vector<ibv_gid_entry> all(most_gids);
  const ssize_t n = ibv_query_gid_table(context, all.data(), all.size(), 0);
  if (n < 0) {
    errno = static_cast<int>(-n);
    return {};
  }
  all.resize(static_cast<std::size_t>(n));
  std::erase_if(all, [port](const ibv_gid_entry& e) {
    return e.port_num != port || e.gid_index > most_gid_index;
  });
  return all;
}

std::optional<ibv_gid_entry> choose_gid(const std::vector<ibv_gid_entry>& gids, int index,
                                        const gid_bytes* like) noexcept {
  const ibv_gid_entry* best = nullptr;
  for (const ibv_gid_entry& e : gids) {
    if (index >= 0) {
      if (e.gid_index == static_cast<std::uint32_t>(index)) return e;
    } else if (best == nullptr || rank(e, like) > rank(*best, like)) {
      best = &e;
    }
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

namespace {

// Queries an open device. On false, `tried` gets the reason why it cannot be used.
result<bool> fill_in(device& d, const filter& wanted, const verbs_options& options,
                     std::string& tried) {
  const bool answers = ibv_query_device_ex(d.context.get(), nullptr, &d.attributes) == 0;
  if (answers && wanted.port > d.attributes.orig_attr.phys_port_cnt) {
    return failure{errc::not_found, "verbs.device \"" + options.device.get() +
                                        "\": the last port of " + d.name + " is " +
                                        std::to_string(d.attributes.orig_attr.phys_port_cnt)};
  }
  if (!answers || !find_active_port(d, wanted)) {
    tried += "; " + d.name + " has no active port" +
             (wanted.port != 0 ? " " + std::to_string(wanted.port) : std::string());
    return false;
  }
  const result<void> gids = load_gids(d, options.gid_index);
  if (!gids) return gids.why();
  const result<void> pkey = find_pkey(d, options.pkey);
  if (!pkey) return pkey.why();
  d.max_inline = try_inline(d, options.max_inline);
  const result<void> calls = choose_calls(d, options.calls);
  if (!calls) return calls.why();
  return true;
}

result<bool> try_device(device& d, ibv_device* on, const filter& wanted,
                        const verbs_options& options, std::string& tried) {
  if (!wanted.name.empty() && wanted.name != d.name) return false;
  d.context.reset(ibv_open_device(on));
  if (d.context == nullptr) {
    const failure why = cannot_open(d.name, on->dev_name, errno);
    if (why.code() == errc::no_memory || why.code() == errc::not_permitted) return why;
    tried += "; " + why.message();
    return false;
  }
  return fill_in(d, wanted, options, tried);
}

result<device> borrow_device(const filter& wanted, const verbs_options& options) {
  device d;
  d.context = owned_or_borrowed<ibv_context>(options.pd->context, unless_borrowed{true});
  d.name = ibv_get_device_name(d.context->device);
  if (!wanted.name.empty() && wanted.name != d.name) {
    return failure{errc::invalid_value, "verbs.device \"" + options.device.get() +
                                            "\" is not the device of the protection domain, " +
                                            d.name};
  }
  std::string tried;
  const result<bool> usable = fill_in(d, wanted, options, tried);
  if (!usable) return usable.why();
  if (*usable) return d;
  return failure{errc::not_supported,
                 "the device of the protection domain cannot be used: " + tried.substr(2)};
}

}  // namespace

result<std::vector<device>> open_devices(const verbs_options& options) {
  const result<filter> wanted = parse_filter(options.device);
  if (!wanted) return wanted.why();
  std::vector<device> found;
  if (options.pd != nullptr) {
    result<device> borrowed = borrow_device(*wanted, options);
    if (!borrowed) return borrowed.why();
    found.push_back(std::move(*borrowed));
    return found;
  }
  const device_list list;
  if (list.count == 0) {
    const int code = reason_behind(ENODEV);
    if (code != ENODEV) return failure::from_os(code, "looking for RDMA devices");
    return failure{
        errc::not_supported,
        "no RDMA device is here: load its driver, or make a Soft-RoCE one with `rdma link "
        "add rxe0 type rxe netdev <interface>`"};
  }
  std::string tried;
  std::optional<failure> refused;
  filter next = *wanted;
  for (int i = 0; i < list.count && found.size() < options.rails;) {
    device d;
    d.name = ibv_get_device_name(list.all[i]);
    const result<bool> usable = try_device(d, list.all[i], next, options, tried);
    if (!usable && !refused) refused = usable.why();
    const bool active = d.port != 0 && (!usable || *usable);
    next.after = active ? d.port : 0;  // next port of the same device
    if (!active) ++i;
    if (usable && *usable) found.push_back(std::move(d));
  }
  if (!found.empty()) return found;
  if (refused) return std::move(*refused);
  if (tried.empty()) {
    return failure{errc::not_found, "verbs.device \"" + options.device.get() +
                                        "\" is not here; this machine has " + names(list)};
  }
  return failure{errc::not_supported, "no RDMA device can be used: " + tried.substr(2)};
}

capabilities describe(const device& d, const verbs_options& options) {
  const ibv_device_attr& a = d.attributes.orig_attr;
  capabilities c;
  c.transport = kind::verbs;
  c.memory |= 1U << static_cast<unsigned>(memory_kind::device);
  const auto grant = [&c](service s, std::initializer_list<opcode> ops) {
    for (const opcode op : ops) {
      c.operations[static_cast<std::size_t>(s)] |= 1U << static_cast<unsigned>(op);
    }
  };
  grant(service::rc, {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm,
                      opcode::read, opcode::flush, opcode::recv, opcode::recv_write_imm});
  if (a.atomic_cap != IBV_ATOMIC_NONE) {
    grant(service::rc, {opcode::fetch_add, opcode::compare_swap});
  }
  if (has_windows(a)) grant(service::rc, {opcode::bind, opcode::send_invalidate});
  grant(service::uc, {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm,
                      opcode::recv, opcode::recv_write_imm});
  grant(service::ud, {opcode::send, opcode::send_imm, opcode::recv});
  const auto at_most = [](int device_has, std::uint32_t we_have) {
    return std::min(static_cast<std::uint32_t>(std::max(device_has, 0)), we_have);
  };
  // A queue pair's completions must fit into one completion queue. The library adds requests: the
  // probe, and puts.
  const int own = 1 + static_cast<int>(most_puts);
  c.max_send_depth = c.max_recv_depth =
      at_most(std::min(a.max_qp_wr - own, (a.max_cqe - own) / 2), most_depth);
  c.max_segments = at_most(a.max_sge - static_cast<int>(datagram_extra), most_segments);
  c.max_inline = d.max_inline;
  c.max_read_depth = at_most(std::min(a.max_qp_rd_atom, a.max_qp_init_rd_atom), most_reads);
  c.max_queue_pairs = at_most(a.max_qp, most_pairs);
  c.shared_receive_queues = a.max_srq > 0;
  if (c.shared_receive_queues) {
    c.max_shared_depth = at_most(std::min(a.max_srq_wr, a.max_cqe), most_depth);
  }
  c.max_message = d.port_attributes.max_msg_sz;
  c.rate = rate_of(d.port_attributes.active_width, d.port_attributes.active_speed);
  c.max_datagram = mtu_bytes(static_cast<std::uint8_t>(d.port_attributes.active_mtu));
  if (options.mtu != 0) c.max_datagram = std::min(c.max_datagram, options.mtu.get());
  c.max_connect_data = most_request_data;
  c.max_accept_data = most_accept_data;
  c.event_driven = true;
  c.needs_target_progress = false;
  c.atomic_with_cpu = a.atomic_cap == IBV_ATOMIC_GLOB;
  c.whole_words = !d.is_soft_roce();
  c.ordered_path = true;
  c.locks_memory = true;
  c.plain_peers = true;
  c.wakes_selectively = true;
  c.tells_device_events = options.pd == nullptr;
  c.has_native_handles = true;
  return c;
}

}  // namespace cordma::transport::verbs
