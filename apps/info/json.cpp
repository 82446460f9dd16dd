#include "facts.hpp"

#include <nlohmann/json.hpp>

namespace info {
namespace {

namespace transport = cordma::transport;
using nlohmann::ordered_json;

ordered_json to_object(const transport::capabilities& c) {
  ordered_json services = ordered_json::object();
  for (const auto s : {transport::service::rc, transport::service::uc, transport::service::ud}) {
    const std::vector<std::string> ops = operations(c, s);
    if (!ops.empty()) services[std::string(transport::name(s))] = ops;
  }
  return {{"transport", transport::name(c.transport)},
          {"services", services},
          {"max_message", c.max_message},
          {"rate", c.rate},
          {"max_inline", c.max_inline},
          {"max_segments", c.max_segments},
          {"max_send_depth", c.max_send_depth},
          {"max_recv_depth", c.max_recv_depth},
          {"max_read_depth", c.max_read_depth},
          {"max_queue_pairs", c.max_queue_pairs},
          {"shared_receive_queues", c.shared_receive_queues},
          {"in_place", c.in_place},
          {"plain_in_place", c.plain_in_place},
          {"posts_now", c.posts_now},
          {"max_shared_depth", c.max_shared_depth},
          {"max_connect_data", c.max_connect_data},
          {"max_accept_data", c.max_accept_data},
          {"max_datagram", c.max_datagram},
          {"event_driven", c.event_driven},
          {"needs_target_progress", c.needs_target_progress},
          {"remote_access_is_copy", c.remote_access_is_copy},
          {"whole_words", c.whole_words},
          {"ordered_path", c.ordered_path},
          {"atomic_with_cpu", c.atomic_with_cpu},
          {"locks_memory", c.locks_memory},
          {"own_ports", c.own_ports},
          {"every_address", c.every_address},
          {"plain_peers", c.plain_peers},
          {"wakes_selectively", c.wakes_selectively},
          {"tells_device_events", c.tells_device_events},
          {"has_native_handles", c.has_native_handles}};
}

}  // namespace

std::string to_json(const facts& f) {
  ordered_json j{
      {"version", CORDMA_VERSION}, {"kernel", f.kernel}, {"machine", f.machine}, {"cpus", f.cpus}};
  j["transports"] = ordered_json::array();
  for (const auto& c : f.transports) j["transports"].push_back(to_object(c));
  j["missing"] = ordered_json::array();
  for (const auto& [kind, why] : f.missing) {
    j["missing"].push_back({{"transport", transport::name(kind)}, {"why", why}});
  }
  j["rdma_ports"] = ordered_json::array();
  for (const rdma_port& p : f.ports) {
    j["rdma_ports"].push_back(
        {{"device", p.device}, {"port", p.number}, {"link", p.link}, {"state", p.state}});
  }
  if (!f.no_device.empty()) j["no_rdma_device"] = f.no_device;
  j["limits"] = ordered_json::array();
  for (const limit& l : f.limits) {
    ordered_json one{{"name", l.name}, {"unit", l.unit}};
    one["value"] = l.value ? ordered_json(*l.value) : ordered_json(nullptr);
    j["limits"].push_back(std::move(one));
  }
  j["configuration"] = ordered_json::array();
  for (const cordma::config_entry& e : f.settings) {
    j["configuration"].push_back({{"key", e.key},
                                  {"environment", e.environment},
                                  {"value", e.value},
                                  {"default", e.default_value},
                                  {"allowed", e.allowed},
                                  {"source", cordma::name(e.source)},
                                  {"place", e.place},
                                  {"help", e.help}});
  }
  j["warnings"] = f.warnings;
  // Values of environment variables are not necessarily UTF-8.
  return j.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace info
