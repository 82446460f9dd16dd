// The settings of a Context: the values from code, the environment and a file, in this priority,
// and the source of each value. Programs use it through Context::configuration().
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/runtime/config.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace cordma {

// A value. The keys are `transport`, `shm.*`, `tcp.*`, `verbs.*`; CORDMA_SHM_RING_BYTES is
// shm.ring_bytes, and so on.
class settings {
 public:
  // Priority: a field of `from_code` that the program assigned, even if to its default; then the
  // environment; then the file that CORDMA_CONFIG names; then the default. For `transports`, which
  // is a plain list, an empty one counts as not assigned. Throws cordma::error, naming key, value,
  // place and the allowed values: invalid_value, not_found, not_permitted.
  explicit settings(const context_options& from_code);

  // `from_code` with all fields filled in that code did not assign.
  [[nodiscard]] context_options options() const;
  [[nodiscard]] std::vector<config_entry> effective() const { return table_.effective(); }
  // CORDMA_* variables that name no setting.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept {
    return table_.warnings();
  }

 private:
  void declare_verbs();
  void take_from_code();
  template <class T>
  void take(std::string_view key, const defaulted<T>& from_code);
  [[nodiscard]] transport::verbs_options verbs() const;

  context_options code_;
  config table_;
  config_key<std::vector<std::string>> transport_;
  config_key<std::string> trace_;
  config_key<std::string> shm_directory_;
  config_key<std::uint64_t> shm_ring_bytes_;
  config_key<std::uint64_t> shm_eager_bytes_;
  config_key<bool> shm_any_user_;
  config_key<std::string> shm_group_;
  config_key<std::uint64_t> tcp_buffer_bytes_;
  config_key<std::uint64_t> tcp_backlog_;
  config_key<std::string> verbs_device_;
  config_key<std::string> verbs_gid_index_;
  config_key<std::string> verbs_pkey_;
  config_key<std::uint64_t> verbs_service_level_;
  config_key<std::uint64_t> verbs_traffic_class_;
  config_key<std::uint64_t> verbs_mtu_;
  config_key<std::uint64_t> verbs_timeout_;
  config_key<std::uint64_t> verbs_retry_count_;
  config_key<std::uint64_t> verbs_rnr_timer_;
  config_key<std::uint64_t> verbs_send_depth_;
  config_key<std::uint64_t> verbs_recv_depth_;
  config_key<std::uint64_t> verbs_max_inline_;
  config_key<std::uint64_t> verbs_cq_entries_;
  config_key<std::uint64_t> verbs_cq_limit_;
  config_key<transport::verbs_calls> verbs_calls_;
  config_key<std::uint64_t> verbs_rails_;
  config_key<bool> verbs_relaxed_ordering_;
};

}  // namespace cordma
