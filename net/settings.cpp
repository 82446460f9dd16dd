#include <cordma/net/settings.hpp>
#include <cordma/runtime/units.hpp>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdlib>

namespace cordma {
namespace {

constexpr std::uint64_t least_buffer = 4096;          // bytes
constexpr std::uint64_t largest_buffer = 1ULL << 30;  // bytes
constexpr std::uint64_t largest_ring = 1ULL << 28;    // bytes
constexpr std::uint64_t largest_backlog = 65535;      // connections
constexpr int most_gid_index = 255;                   // a path has 8 bits for it
constexpr std::uint64_t largest_depth = 65536;        // requests
constexpr std::uint64_t least_queue = 256;            // completions
constexpr std::uint64_t largest_queue = 1ULL << 22;   // completions
constexpr const char* file_variable = "CORDMA_CONFIG";

void demand(const result<void>& outcome) {
  if (!outcome) throw_error(outcome.why());
}

std::string joined(const std::vector<transport::kind>& kinds) {
  std::string text;
  for (const transport::kind k : kinds) {
    text += (text.empty() ? "" : ",") + std::string(transport::name(k));
  }
  return text;
}

constexpr const char* by_route = "route";

// Parses "route", or an index into the GID table.
result<int> parse_gid_index(const std::string& text) {
  if (text == by_route) return -1;
  int value = -1;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  if (status == std::errc{} && end == last && value >= 0 && value <= most_gid_index) return value;
  return failure{errc::invalid_value, "verbs.gid_index: \"" + text +
                                          "\" will not do: write route, or a number from 0 to " +
                                          std::to_string(most_gid_index)};
}

std::string format_gid_index(int index) { return index == -1 ? by_route : std::to_string(index); }

using calls = transport::verbs_calls;

// The text of the value in the environment.
const char* text_of(calls which) {
  switch (which) {
    case calls::automatic: return "auto";
    case calls::extended: return "extended";
    case calls::plain: return "plain";
  }
  return "?";
}
const char* text_of(bool flag) { return flag ? "true" : "false"; }
const std::string& text_of(const std::string& text) { return text; }
std::string text_of(std::integral auto number) { return std::to_string(number); }

// Parses 0x8001, as subnet managers print it, or decimal.
result<std::uint16_t> parse_pkey(const std::string& text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  unsigned value = 0;
  const char* const first = text.data() + (hex ? 2 : 0);
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(first, last, value, hex ? 16 : 10);
  if (first != last && status == std::errc{} && end == last && value <= 0xFFFF) {
    return static_cast<std::uint16_t>(value);
  }
  return failure{errc::invalid_value,
                 "verbs.pkey: \"" + text + "\" is no partition key: write it as 0x8001 or 32769"};
}

}  // namespace

settings::settings(const context_options& from_code) : code_(from_code) {
  const context_options initial;
  transport_ =
      table_.add_list("transport", {"auto"}, "the transports to use, in the order of preference",
                      {"auto", "shm", "tcp", "verbs"}, "auto");
  trace_ = table_.add_text("trace", initial.trace.get(),
                           "file for a trace of this process, as Chrome JSON; %p is its id");
  shm_directory_ = table_.add_text("shm.directory", initial.shm.directory.get(),
                                   "where processes meet; empty: a folder of this user");
  shm_ring_bytes_ = table_.add_size("shm.ring_bytes", initial.shm.ring_bytes,
                                    "ring of a connection, per direction; a power of two",
                                    least_buffer, largest_ring);
  shm_eager_bytes_ =
      table_.add_size("shm.eager_bytes", initial.shm.eager_bytes,
                      "longer messages are fetched from the sender's memory", 0, largest_buffer);
  shm_any_user_ = table_.add_flag("shm.any_user", initial.shm.any_user,
                                  "accept peers that belong to other users");
  shm_group_ = table_.add_text("shm.group", initial.shm.group.get(),
                               "accept members of this group too; shm.directory is theirs");
  tcp_buffer_bytes_ = table_.add_size("tcp.buffer_bytes", initial.tcp.buffer_bytes,
                                      "staging of a connection", least_buffer, largest_buffer);
  tcp_backlog_ = table_.add_number("tcp.backlog", static_cast<std::uint64_t>(initial.tcp.backlog),
                                   "connections that may wait to be accepted", 1, largest_backlog);
  declare_verbs();
  table_.ignore_variable(file_variable);
  if (const char* const file = std::getenv(file_variable); file != nullptr && *file != '\0') {
    demand(table_.read_file(file));
  }
  demand(table_.read_environment());
  take_from_code();
  static_cast<void>(parse_gid_index(table_.get(verbs_gid_index_)).value());
  static_cast<void>(parse_pkey(table_.get(verbs_pkey_)).value());
}

void settings::declare_verbs() {
  const transport::verbs_options initial;
  verbs_device_ = table_.add_text("verbs.device", initial.device.get(),
                                  "as in mlx5_0 or mlx5_0:1; empty: the first with an active port");
  verbs_gid_index_ =
      table_.add_text("verbs.gid_index", format_gid_index(initial.gid_index),
                      "place in the port's table of GIDs; route: by the way to the peer");
  verbs_pkey_ = table_.add_text("verbs.pkey", "0xffff", "the partition, as in 0x8001");
  verbs_service_level_ = table_.add_number("verbs.service_level", initial.service_level,
                                           "priority on InfiniBand, 802.1p on Ethernet", 0, 15);
  verbs_traffic_class_ = table_.add_number("verbs.traffic_class", initial.traffic_class,
                                           "DSCP and ECN bits of RoCE v2", 0, 255);
  verbs_mtu_ = table_.add_size("verbs.mtu", initial.mtu,
                               "path MTU at most, 256 to 4k; 0: what the path carries", 0, 4096);
  verbs_timeout_ = table_.add_number(
      "verbs.timeout", initial.timeout,
      "wait for an acknowledgement, 4.096 us * 2^n; 0: from the endpoint's peer_timeout", 0, 31);
  verbs_retry_count_ = table_.add_number("verbs.retry_count", initial.retry_count,
                                         "repetitions without acknowledgement", 0, 7);
  verbs_rnr_timer_ = table_.add_number(
      "verbs.rnr_timer", initial.rnr_timer,
      "code of the pause where no receive is posted; 0: from the endpoint's rnr_timer", 0, 31);
  verbs_send_depth_ = table_.add_number("verbs.send_depth", initial.send_depth,
                                        "of every endpoint, at least", 0, largest_depth);
  verbs_recv_depth_ = table_.add_number("verbs.recv_depth", initial.recv_depth,
                                        "of every endpoint, at least", 0, largest_depth);
  verbs_max_inline_ = table_.add_size("verbs.max_inline", initial.max_inline,
                                      "carried within a request, at most", 0, least_buffer);
  verbs_cq_entries_ =
      table_.add_number("verbs.cq_entries", initial.cq_entries,
                        "of a completion queue, when it is made", least_queue, largest_queue);
  verbs_cq_limit_ = table_.add_number(
      "verbs.cq_limit", initial.cq_limit,
      "a completion queue grows to, at most, before another is made", least_queue, largest_queue);
  verbs_calls_ =
      table_.add_choice("verbs.calls", initial.calls.get(),
                        "extended: ibv_wr_* and ibv_cq_ex; plain: ibv_post_send and ibv_poll_cq",
                        {{text_of(calls::automatic), calls::automatic},
                         {text_of(calls::extended), calls::extended},
                         {text_of(calls::plain), calls::plain}});
  verbs_rails_ =
      table_.add_number("verbs.rails", initial.rails,
                        "ports of RDMA devices; those behind the first carry long messages", 1, 8);
  verbs_relaxed_ordering_ =
      table_.add_flag("verbs.relaxed_ordering", initial.relaxed_ordering,
                      "let the device reorder its writes to registered memory");
}

template <class T>
void settings::take(std::string_view key, const defaulted<T>& from_code) {
  if (from_code.assigned()) demand(table_.set(key, text_of(from_code.get())));
}

void settings::take_from_code() {
  const auto handed_in = std::ranges::find_if_not(code_.transports, transport::has_setting);
  if (handed_in != code_.transports.end()) {
    throw_error(failure::of(
        errc::not_supported,
        {"the transport ", transport::name(*handed_in),
         " is not chosen by name: pass a domain of it in context_options::domains, as those of "
         "sim::network"}));
  }
  if (!code_.transports.empty()) demand(table_.set("transport", joined(code_.transports)));
  take("trace", code_.trace);
  take("shm.directory", code_.shm.directory);
  take("shm.ring_bytes", code_.shm.ring_bytes);
  take("shm.eager_bytes", code_.shm.eager_bytes);
  take("shm.any_user", code_.shm.any_user);
  take("shm.group", code_.shm.group);
  take("tcp.buffer_bytes", code_.tcp.buffer_bytes);
  take("tcp.backlog", code_.tcp.backlog);
  const transport::verbs_options& o = code_.verbs;
  take("verbs.device", o.device);
  if (o.gid_index.assigned()) demand(table_.set("verbs.gid_index", format_gid_index(o.gid_index)));
  take("verbs.pkey", o.pkey);
  take("verbs.service_level", o.service_level);
  take("verbs.traffic_class", o.traffic_class);
  take("verbs.mtu", o.mtu);
  take("verbs.timeout", o.timeout);
  take("verbs.retry_count", o.retry_count);
  take("verbs.rnr_timer", o.rnr_timer);
  take("verbs.send_depth", o.send_depth);
  take("verbs.recv_depth", o.recv_depth);
  take("verbs.max_inline", o.max_inline);
  take("verbs.cq_entries", o.cq_entries);
  take("verbs.cq_limit", o.cq_limit);
  take("verbs.calls", o.calls);
  take("verbs.rails", o.rails);
  take("verbs.relaxed_ordering", o.relaxed_ordering);
}

transport::verbs_options settings::verbs() const {
  transport::verbs_options o;
  o.device = table_.get(verbs_device_);
  o.gid_index = parse_gid_index(table_.get(verbs_gid_index_)).value();
  o.pkey = parse_pkey(table_.get(verbs_pkey_)).value();
  o.service_level = static_cast<std::uint8_t>(table_.get(verbs_service_level_));
  o.traffic_class = static_cast<std::uint8_t>(table_.get(verbs_traffic_class_));
  o.mtu = static_cast<std::uint32_t>(table_.get(verbs_mtu_));
  o.timeout = static_cast<std::uint8_t>(table_.get(verbs_timeout_));
  o.retry_count = static_cast<std::uint8_t>(table_.get(verbs_retry_count_));
  o.rnr_timer = static_cast<std::uint8_t>(table_.get(verbs_rnr_timer_));
  o.send_depth = static_cast<std::uint32_t>(table_.get(verbs_send_depth_));
  o.recv_depth = static_cast<std::uint32_t>(table_.get(verbs_recv_depth_));
  o.max_inline = static_cast<std::uint32_t>(table_.get(verbs_max_inline_));
  o.cq_entries = static_cast<std::uint32_t>(table_.get(verbs_cq_entries_));
  o.cq_limit = static_cast<std::uint32_t>(table_.get(verbs_cq_limit_));
  o.calls = table_.get(verbs_calls_);
  o.rails = static_cast<std::uint8_t>(table_.get(verbs_rails_));
  o.relaxed_ordering = table_.get(verbs_relaxed_ordering_);
  o.pd = code_.verbs.pd;  // a pointer: only code can set it
  return o;
}

context_options settings::options() const {
  context_options o = code_;
  const std::vector<std::string> names = table_.get(transport_);
  o.transports.clear();
  for (const std::string& name : names) {
    if (name == "auto") continue;
    const transport::kind k = parse_transport(name).value();
    // Duplicates count once.
    if (std::ranges::count(o.transports, k) == 0) o.transports.push_back(k);
  }
  o.trace = table_.get(trace_);
  o.shm.directory = table_.get(shm_directory_);
  o.shm.ring_bytes = static_cast<std::uint32_t>(table_.get(shm_ring_bytes_));
  o.shm.eager_bytes = static_cast<std::uint32_t>(table_.get(shm_eager_bytes_));
  o.shm.any_user = table_.get(shm_any_user_);
  o.shm.group = table_.get(shm_group_);
  o.tcp.buffer_bytes = static_cast<std::uint32_t>(table_.get(tcp_buffer_bytes_));
  o.tcp.backlog = static_cast<int>(table_.get(tcp_backlog_));
  o.verbs = verbs();
  return o;
}

}  // namespace cordma
