// The RDMA devices of this machine for people: of each what `ibv_devinfo -v` prints, to the letter, and last what
// there is to say beyond that.
#include <cordma/net/transport/verbs/device.hpp>
#include <cordma/net/transport/verbs/extras.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/net/transport/verbs/report.hpp>
#include <cordma/net/transport/verbs/report_lines.hpp>
#include <cordma/runtime/text_file.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace cordma::transport {
namespace {

using verbs::device_facts;
using verbs::owned;
using verbs::port_facts;
using verbs::report_lines;

const char* fork_rule() noexcept {
  switch (ibv_is_fork_initialized()) {
    case IBV_FORK_DISABLED: return "not safe: set RDMAV_FORK_SAFE=1";
    case IBV_FORK_ENABLED: return "safe, by marking registered pages";
    case IBV_FORK_UNNEEDED: return "safe, the kernel copies for the child";
  }
  return "?";
}

void add_partitions(report_lines& out, ibv_context* context, unsigned ports) {
  for (unsigned number = 1; number <= ports; ++number) {
    const auto port = static_cast<std::uint8_t>(number);
    ibv_port_attr a{};
    if (ibv_query_port(context, port, &a) != 0) continue;
    for (int i = 0; i < a.pkey_tbl_len; ++i) {
      __be16 key = 0;
      if (ibv_query_pkey(context, port, i, &key) != 0 || key == 0) continue;
      const std::string name = "P_Key " + std::to_string(i) + " of port " + std::to_string(number);
      out.field(2, name.c_str(), verbs::pkey_text(be16toh(key)));
    }
  }
}

void add_extras(report_lines& out, ibv_context* context, unsigned ports) {
  out.line(1, "cordma:");
  add_partitions(out, context, ports);
  for (const device_extra& e : verbs::ask_extras(context)) {
    out.field(2, std::string(e.name).c_str(),
              !e.on_device ? "no"
              : e.offered  ? "yes"
                           : "on the device, not offered");
  }
  out.field(2, "fork", fork_rule());
}

// Empty where the driver does not say.
std::string board_of(const ibv_device& device) {
  const std::string text = read_text(std::string(device.ibdev_path) + "/board_id");
  return text.substr(0, text.find('\n'));
}

// Of all ports, whose tables have so many places. Where the room is too small the call gives none at all.
std::vector<ibv_gid_entry> ask_gids(ibv_context* context, std::size_t places) {
  std::vector<ibv_gid_entry> found(std::max(places, verbs::most_gids));
  const ssize_t n = ibv_query_gid_table(context, found.data(), found.size(), 0);
  found.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return found;
}

void add_ports(report_lines& out, ibv_context* context, unsigned count) {
  std::size_t places = 0;
  std::vector<port_facts> ports;
  for (unsigned number = 1; number <= count; ++number) {
    port_facts p;
    p.number = number;
    p.transport = context->device->transport_type;
    const auto port = static_cast<std::uint8_t>(number);
    if (const int error = ibv_query_port(context, port, &p.attributes); error != 0) {
      out.line(2, "port:\t%u cannot be asked: %s", number, std::strerror(error));
      continue;
    }
    places += static_cast<std::size_t>(std::max(p.attributes.gid_tbl_len, 0));
    ports.push_back(std::move(p));
  }
  const std::vector<ibv_gid_entry> gids = ask_gids(context, places);
  for (port_facts& p : ports) {
    std::ranges::copy_if(gids, std::back_inserter(p.gids),
                         [&p](const ibv_gid_entry& e) { return e.port_num == p.number; });
    out.append(report_of(p));
  }
}

void add_device(report_lines& out, ibv_device* device) {
  const owned<ibv_context> context(ibv_open_device(device));
  device_facts d;
  std::string why;
  if (context == nullptr) {
    why = verbs::cannot_open("it", device->dev_name, errno).message();
  } else if (const int error = ibv_query_device_ex(context.get(), nullptr, &d.attributes);
             error != 0) {
    why = std::string("it cannot be asked: ") + std::strerror(error);
  }
  if (!why.empty()) {
    out.line(0, "hca_id:\t%s", ibv_get_device_name(device));
    out.line(1, "%s", why.c_str());
    return;
  }
  d.name = ibv_get_device_name(device);
  d.transport = device->transport_type;
  d.board = board_of(*device);
  d.completion_vectors = context->num_comp_vectors;
  out.append(report_of(d));
  add_ports(out, context.get(), d.attributes.orig_attr.phys_port_cnt);
  add_extras(out, context.get(), d.attributes.orig_attr.phys_port_cnt);
}

}  // namespace

std::string describe_rdma_devices() {
  report_lines out;
  int count = 0;
  ibv_device** const all = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) add_device(out, all[i]);
  if (all != nullptr) ibv_free_device_list(all);
  return out.take();
}

}  // namespace cordma::transport
