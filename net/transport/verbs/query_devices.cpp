// Queries libibverbs for the attributes of every RDMA device.
#include <cordma/net/transport/shortage.hpp>
#include <cordma/net/transport/verbs/attributes.hpp>
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/extras.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/runtime/text_file.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace cordma::transport {
namespace {

using verbs::owned;
using verbs::to_attributes;

static_assert(static_cast<int>(fork_safety::unsafe) == IBV_FORK_DISABLED &&
              static_cast<int>(fork_safety::marked) == IBV_FORK_ENABLED &&
              static_cast<int>(fork_safety::unneeded) == IBV_FORK_UNNEEDED);

// Empty if the driver reports none.
std::string board_of(const ibv_device& device) {
  const std::string text = read_text(std::string(device.ibdev_path) + "/board_id");
  return text.substr(0, text.find('\n'));
}

// Returns the GIDs of all ports; their tables have `places` entries in total. With a smaller buffer
// the call returns none.
std::vector<ibv_gid_entry> ask_gids(ibv_context* context, std::size_t places) {
  std::vector<ibv_gid_entry> found(std::max(places, verbs::most_gids));
  const ssize_t n = ibv_query_gid_table(context, found.data(), found.size(), 0);
  found.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return found;
}

std::vector<port_pkey> ask_pkeys(ibv_context* context, std::uint8_t port, unsigned places) {
  std::vector<port_pkey> found;
  for (unsigned i = 0; i < places; ++i) {
    __be16 key = 0;
    if (ibv_query_pkey(context, port, static_cast<int>(i), &key) != 0 || key == 0) continue;
    found.push_back({.index = i, .value = be16toh(key)});
  }
  return found;
}

port_attributes ask_port(ibv_context* context, std::uint8_t number) {
  port_attributes p;
  ibv_port_attr asked{};
  if (const int error = ibv_query_port(context, number, &asked); error != 0) {
    p.failed = failure::from_os(error, "ibv_query_port");
  } else {
    p = to_attributes(asked);
    p.pkeys = ask_pkeys(context, number, asked.pkey_tbl_len);
  }
  p.number = number;
  return p;
}

std::vector<port_attributes> ask_ports(ibv_context* context, unsigned count) {
  std::vector<port_attributes> ports;
  std::size_t places = 0;
  for (unsigned number = 1; number <= count; ++number) {
    ports.push_back(ask_port(context, static_cast<std::uint8_t>(number)));
    places += static_cast<std::size_t>(std::max(ports.back().gid_tbl_len, 0));
  }
  for (const ibv_gid_entry& e : ask_gids(context, places)) {
    const auto port = std::ranges::find(ports, e.port_num, &port_attributes::number);
    if (port != ports.end() && !port->failed) port->gids.push_back(to_attributes(e));
  }
  return ports;
}

device_attributes ask_device(ibv_device* device) {
  device_attributes d;
  const std::string name = ibv_get_device_name(device);
  const owned<ibv_context> context(ibv_open_device(device));
  ibv_device_attr_ex asked{};
  if (context == nullptr) {
    d.failed = verbs::cannot_open(name, device->dev_name, errno);
  } else if (const int error = ibv_query_device_ex(context.get(), nullptr, &asked); error != 0) {
    d.failed = failure::from_os(error, "ibv_query_device_ex of " + name);
  } else {
    d = to_attributes(asked);
    d.board_id = board_of(*device);
    d.transport = static_cast<wire_protocol>(device->transport_type);
    d.num_comp_vectors = context->num_comp_vectors;
    d.fork = static_cast<fork_safety>(ibv_is_fork_initialized());
    d.ports = ask_ports(context.get(), d.phys_port_cnt);
    d.extras = verbs::ask_extras(context.get());
  }
  d.name = name;
  return d;
}

}  // namespace

result<std::vector<device_attributes>> query_devices() {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> all(
      ibv_get_device_list(&count), &ibv_free_device_list);
  if (all == nullptr) {
    const int why = reason_behind(errno);
    if (why != ENOSYS) return failure::from_os(why, "listing the RDMA devices");
  }  // ENOSYS: no driver is loaded, and `count` is 0
  std::vector<device_attributes> found;
  for (int i = 0; i < count; ++i) found.push_back(ask_device(all.get()[i]));
  return found;
}

}  // namespace cordma::transport
