// The server of a local copy: a thread of this process.
#pragma once

#include "session.hpp"

#include <cordma/cordma.hpp>

#include <string>
#include <thread>

namespace copy {

// Serves one client, which presents the token. The token is random and known only to this process.
class local_server {
 public:
  // Throws cordma::error if it cannot listen.
  local_server(cordma::Context& context, const cordma::reactor_options& waiting);
  local_server(const local_server&) = delete;
  local_server& operator=(const local_server&) = delete;
  // Stops the server if its client did not end it.
  ~local_server();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& token() const noexcept { return token_; }
  // Stops the server. Returns the reason why it ended, if that was not the client's fault; else
  // empty.
  [[nodiscard]] const std::string& end();

 private:
  std::string address_;
  std::string token_;
  std::string why_;  // written by the thread
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace copy
