#include "facts.hpp"

#include <sstream>

namespace info {
namespace {

namespace transport = cordma::transport;

// 1536 as "1536", 1048576 as "1 Mi".
std::string amount(std::uint64_t value) {
  constexpr std::string_view units = " KMGTPE";
  std::size_t unit = 0;
  while (value >= 1024 && value % 1024 == 0 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  std::string text = std::to_string(value);
  if (unit != 0) text += std::string(" ") + units[unit] + "i";
  return text;
}

void show(std::ostream& out, const transport::capabilities& c) {
  out << "  " << transport::name(c.transport) << '\n';
  for (const auto s : {transport::service::rc, transport::service::uc, transport::service::ud}) {
    const std::vector<std::string> ops = operations(c, s);
    if (ops.empty()) continue;
    out << "    " << transport::name(s) << ":";
    for (const std::string& op : ops) out << ' ' << op;
    out << '\n';
  }
  out << "    message " << amount(c.max_message) << "B, inline " << c.max_inline << " B, slices "
      << c.max_segments << ", queue " << c.max_send_depth << " sends and " << c.max_recv_depth
      << " receives, reads in flight " << c.max_read_depth
      << (c.rate != 0 ? ", port " + std::to_string(c.rate) + " Mb/s" : std::string()) << '\n'
      << "    waits " << (c.event_driven ? "polling or sleeping" : "polling only")
      << (c.wakes_selectively ? ", through all but solicited messages if told so" : "")
      << "; one-sided operations "
      << (c.needs_target_progress ? "may need the target's worker to run"
                                  : "do not involve the target's program")
      << '\n';
}

std::string ports_line(const facts& f) {
  if (f.ports.empty()) return f.no_device;
  std::string text;
  for (const rdma_port& p : f.ports) {
    text += (text.empty() ? "" : "; ") + p.device + ":" + std::to_string(p.number) + " (" + p.link +
            ", " + p.state + ")";
  }
  return text;
}

}  // namespace

std::string to_text(const facts& f) {
  std::ostringstream out;
  out << "cordma " CORDMA_VERSION " on " << f.kernel << ", " << f.machine << ", " << f.cpus
      << " CPUs\n\nTransports, in the order of preference\n";
  for (const auto& c : f.transports) show(out, c);
  for (const auto& [kind, why] : f.missing) {
    out << "  " << transport::name(kind) << ": not here: " << why << '\n';
  }
  out << "\nRDMA ports\n  " << ports_line(f) << "\n\nLimits\n";
  for (const limit& l : f.limits) {
    out << "  " << l.name << ": " << (l.value ? amount(*l.value) + " " + l.unit : "unlimited")
        << "\n    " << l.why << '\n';
  }
  out << "\nConfiguration: code, then the environment, then the file CORDMA_CONFIG names\n";
  for (const cordma::config_entry& e : f.settings) {
    out << "  " << e.key << " = " << (e.value.empty() ? "\"\"" : e.value) << "  ("
        << cordma::name(e.source) << (e.place.empty() ? "" : " " + e.place) << ")\n    " << e.help
        << "; " << e.environment << (e.allowed.empty() ? "" : ": " + e.allowed) << '\n';
  }
  for (const std::string& w : f.warnings) out << "  note: " << w << '\n';
  return out.str();
}

std::string to_brief_text(const facts& f) {
  std::ostringstream out;
  out << "cordma " CORDMA_VERSION " on " << f.kernel << ", " << f.machine << ", " << f.cpus
      << " CPUs\ntransports:";
  for (const auto& c : f.transports) out << ' ' << transport::name(c.transport);
  for (const auto& [kind, why] : f.missing) out << "; not " << transport::name(kind) << ": " << why;
  out << "\nRDMA: " << ports_line(f) << '\n';
  for (const std::string& w : f.warnings) out << "note: " << w << '\n';
  return out.str();
}

}  // namespace info
