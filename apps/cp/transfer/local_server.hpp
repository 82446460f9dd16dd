// The other side of a copy from here to here: a thread of this process.
#pragma once

#include "session.hpp"

#include <cordma/cordma.hpp>

#include <string>
#include <thread>

namespace copy {

// Serves one client, which knows the token; nobody else does.
class local_server {
 public:
  // Throws cordma::error where it cannot listen.
  local_server(cordma::Context& context, const cordma::reactor_options& waiting);
  local_server(const local_server&) = delete;
  local_server& operator=(const local_server&) = delete;
  // Ends it, where its client did not.
  ~local_server();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& token() const noexcept { return token_; }
  // Ends it. What it ended for, where that was no fault of its client's; else empty.
  [[nodiscard]] const std::string& end();

 private:
  std::string address_;
  std::string token_;
  std::string why_;  // written by the thread
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace copy
