// A client for programs without coroutines: each call blocks until it has completed.
#pragma once

#include "client.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Owns a Context and a Worker. Bound to one thread. Calls throw like those of client.
class blocking_client {
 public:
  blocking_client(const std::string& server, const client_options& options,
                  cordma::wait_mode mode = cordma::wait_mode::adaptive);
  ~blocking_client();
  blocking_client(const blocking_client&) = delete;
  blocking_client& operator=(const blocking_client&) = delete;

  reply get(std::string_view key, std::string& into);
  reply set(std::string_view key, std::string_view value, const set_options& options = {});
  reply erase(std::string_view key);
  void run(batch& of);
  void read(batch& of);
  std::string info(std::string_view section = {});
  std::uint64_t scan(std::uint64_t cursor, const scan_options& options,
                     std::vector<scanned_key>& into);
  [[nodiscard]] client& inner() noexcept { return *client_; }
  [[nodiscard]] cordma::Worker& worker() noexcept { return worker_; }

 private:
  cordma::Context context_;
  cordma::Worker worker_;
  std::unique_ptr<client> client_;
};

}  // namespace kv
