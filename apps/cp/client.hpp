// A transfer as its client makes it: over one connection after another, as long as it gets on.
#pragma once

#include "ledger.hpp"
#include "options.hpp"
#include "reconnect.hpp"
#include "session.hpp"
#include "work.hpp"

#include <cordma/cordma.hpp>

#include <functional>
#include <optional>
#include <string>

namespace copy {

// Gets to see a transfer while it goes.
struct observer {
  progress& counted;
  item_sink tell;
  std::function<void(const connection&)> connected;
  // An interruption, once for each, before the first attempt to connect again.
  std::function<void(const std::string& why)> lost;
};

// What a transfer ends with whose connection was lost: its condition, and so its exit code, is that of the error which says
// most; the text is for people.
class lost_connection : public cordma::error {
 public:
  lost_connection(const cordma::failure& why, std::string text)
      : cordma::error(why), text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// Bound to the thread of its Worker.
class client {
 public:
  // All of it outlives this; `tls` is null without TLS.
  client(cordma::Context& context, cordma::Worker& worker, const request& r, const tls_context* tls,
         observer& seen);
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // From here to here: to a server of this program's own, to which one connection is made and no other.
  void use_own(std::string address, std::string token);

  // To the end; what comes of all connections together. Throws lost_connection where there was no progress for as long as
  // the request has it, or no further connection may be made; failed_place; else what connect(), send_all() and
  // receive_all() do.
  [[nodiscard]] cordma::task<outcome> run();

 private:
  [[nodiscard]] bool is_pull() const noexcept { return !request_.sources.front().here(); }
  [[nodiscard]] bool may_reconnect() const noexcept;
  [[nodiscard]] hello what_to_ask() const;
  [[nodiscard]] cordma::task<outcome> session();
  [[nodiscard]] cordma::task<outcome> push(lanes* ways, transfer_options options);
  [[nodiscard]] cordma::task<outcome> pull(connection* c, transfer_options options);
  void begin_connection(const connection& c);
  [[nodiscard]] transfer_options options_now() const noexcept;
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
  std::optional<cordma::error> first_;  // of the present interruption
};

}  // namespace copy
