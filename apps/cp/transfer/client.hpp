// The client side of a transfer. It reconnects after a lost connection while there is progress.
#pragma once

#include "ledger.hpp"
#include "reconnect.hpp"
#include "request.hpp"
#include "session.hpp"
#include "work.hpp"

#include <cordma/cordma.hpp>

#include <functional>
#include <optional>
#include <string>

namespace copy {

// Receives the events of a transfer. Called on the thread of the client.
struct observer {
  progress& counted;
  item_sink tell;
  std::function<void(const connection&)> connected;
  // A connection is lost. Called once for each interruption, before the first attempt to reconnect.
  std::function<void(const std::string& why)> lost;
};

// The error of a transfer that gave up after a lost connection. Its condition, and so its exit
// code, is that of the first cause. The text also contains the attempts.
class lost_connection : public cordma::error {
 public:
  lost_connection(const cordma::failure& why, std::string text)
      : cordma::error(why), text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Runs one transfer. Bound to the thread of its Worker.
class client {
 public:
  // REQUIRES: all arguments outlive the client. `tls` is null without TLS.
  client(cordma::Context& context, cordma::Worker& worker, const request& r, const tls_context* tls,
         observer& seen);
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // Connects to a server inside this program, once, and never reconnects.
  void use_own(std::string address, std::string token);

  // Runs the transfer to its end. Returns the result of all connections together. Throws lost_connection after
  // `request::reconnect` without progress, or if the transfer cannot be resumed; failed_place; and the errors of
  // connect(), send_all() and receive_all(). Cancellation ends the present connection or pause.
  [[nodiscard]] cordma::task<outcome> run();

 private:
  [[nodiscard]] bool is_pull() const noexcept { return !request_.sources.front().here(); }
  [[nodiscard]] bool may_reconnect() const noexcept;
  [[nodiscard]] hello what_to_ask() const;
  [[nodiscard]] cordma::task<outcome> session();
  [[nodiscard]] cordma::task<outcome> push(lanes* ways, transfer_options options);
  [[nodiscard]] cordma::task<outcome> pull(connection* c, transfer_options options);
  void begin_connection(const connection& c);
  [[nodiscard]] cordma::duration pause_after(const cordma::error& e);
  [[noreturn]] void give_up(const cordma::error& last) const;
  [[nodiscard]] const char* why_final(const cordma::error& e) const noexcept;

  cordma::Context& context_;
  cordma::Worker& worker_;
  const request& request_;
  const tls_context* tls_;
  observer& seen_;
  std::string own_address_;  // empty: the server is a daemon
  std::string own_token_;
  nonce transfer_ = random_nonce();
  reconnect_policy policy_;
  ledger ledger_;
  stage stage_ = stage::first_connect;
  std::optional<cordma::error> first_;  // first error of the present interruption
};

}  // namespace copy
