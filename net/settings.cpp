#include <cordma/net/settings.hpp>
#include <cordma/runtime/units.hpp>

#include <cstdlib>

namespace cordma {
namespace {

constexpr std::uint64_t least_buffer = 4096;          // bytes
constexpr std::uint64_t largest_buffer = 1ULL << 30;  // bytes
constexpr std::uint64_t largest_backlog = 65535;      // connections
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

}  // namespace

settings::settings(const context_options& from_code) : code_(from_code) {
  const context_options initial;
  transport_ =
      table_.add_list("transport", {"auto"}, "the transports to use, in the order of preference",
                      {"auto", "shm", "tcp", "sim", "verbs"});
  shm_directory_ = table_.add_text("shm.directory", initial.shm.directory,
                                   "where processes meet; empty: a folder of this user in /tmp");
  shm_ring_bytes_ = table_.add_size("shm.ring_bytes", initial.shm.ring_bytes,
                                    "ring of a connection, per direction; a power of two",
                                    least_buffer, largest_buffer);
  shm_eager_bytes_ =
      table_.add_size("shm.eager_bytes", initial.shm.eager_bytes,
                      "longer messages are fetched from the sender's memory", 0, largest_buffer);
  shm_any_user_ = table_.add_flag("shm.any_user", initial.shm.any_user,
                                  "accept peers that belong to other users");
  tcp_buffer_bytes_ = table_.add_size("tcp.buffer_bytes", initial.tcp.buffer_bytes,
                                      "staging of a connection", least_buffer, largest_buffer);
  tcp_backlog_ = table_.add_number("tcp.backlog", static_cast<std::uint64_t>(initial.tcp.backlog),
                                   "connections that may wait to be accepted", 1, largest_backlog);
  table_.ignore_variable(file_variable);
  if (const char* const file = std::getenv(file_variable); file != nullptr && *file != '\0') {
    demand(table_.read_file(file));
  }
  demand(table_.read_environment());
  take_from_code();
}

void settings::take_from_code() {
  const context_options initial;
  if (!code_.transports.empty()) demand(table_.set("transport", joined(code_.transports)));
  if (code_.shm.directory != initial.shm.directory) {
    demand(table_.set("shm.directory", code_.shm.directory));
  }
  if (code_.shm.ring_bytes != initial.shm.ring_bytes) {
    demand(table_.set("shm.ring_bytes", format_size(code_.shm.ring_bytes)));
  }
  if (code_.shm.eager_bytes != initial.shm.eager_bytes) {
    demand(table_.set("shm.eager_bytes", format_size(code_.shm.eager_bytes)));
  }
  if (code_.shm.any_user != initial.shm.any_user) {
    demand(table_.set("shm.any_user", code_.shm.any_user ? "true" : "false"));
  }
  if (code_.tcp.buffer_bytes != initial.tcp.buffer_bytes) {
    demand(table_.set("tcp.buffer_bytes", format_size(code_.tcp.buffer_bytes)));
  }
  if (code_.tcp.backlog != initial.tcp.backlog) {
    demand(table_.set("tcp.backlog", std::to_string(code_.tcp.backlog)));
  }
}

context_options settings::options() const {
  context_options o = code_;
  const std::vector<std::string> names = table_.get(transport_);
  o.transports.clear();
  for (const std::string& name : names) {
    if (name != "auto") o.transports.push_back(parse_transport(name).value());
  }
  o.shm.directory = table_.get(shm_directory_);
  o.shm.ring_bytes = static_cast<std::uint32_t>(table_.get(shm_ring_bytes_));
  o.shm.eager_bytes = static_cast<std::uint32_t>(table_.get(shm_eager_bytes_));
  o.shm.any_user = table_.get(shm_any_user_);
  o.tcp.buffer_bytes = static_cast<std::uint32_t>(table_.get(tcp_buffer_bytes_));
  o.tcp.backlog = static_cast<int>(table_.get(tcp_backlog_));
  return o;
}

}  // namespace cordma
