// From an address to lanes: the client's and the server's half of shaking hands.
#pragma once

#include "../protocol/auth.hpp"
#include "../protocol/lane.hpp"
#include "../protocol/wire.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/scope.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace copy {

using lanes = std::vector<std::unique_ptr<lane>>;

struct connection {
  lanes ways;
  std::string transport;
  std::string reason;  // why this one
  std::string cipher;  // of TLS; empty: without
  // Of a pull: the one source is not a directory.
  bool single_file = false;
};

// With `tls`, unless that is null, and then only with it. Throws cordma::error: rejected (with what the server says, or
// what is wrong with its certificate), and what connecting throws.
[[nodiscard]] cordma::task<connection> connect(cordma::Context& context, cordma::Worker& worker,
                                               std::string address, hello asked, std::string token,
                                               std::optional<cordma::transport::kind> only,
                                               const tls_context* tls = nullptr);

// What a server lets its clients have.
struct module {
  std::string name;
  std::string path;
  std::string token;  // empty: whoever asks
  bool read_only = true;
  bool devices = false;  // clients may make them
};

// What a server does with TLS; it is over tcp.
struct server_tls {
  const tls_context* with = nullptr;  // null: nothing
  bool required = false;              // who comes without is rejected, on whatever transport
};

// What was asked for by somebody who may.
struct client_request {
  hello asked;
  const module* where = nullptr;
  std::string peer;
};
// Carries a request out, on lanes that are there. What it throws is told by whoever called.
using carry_out = std::function<cordma::task<void>(client_request, lanes&)>;

struct greeting;

// Takes requests from a Listener. Bound to the thread of the Worker.
class server {
 public:
  // Looks at what is asked for before anything is promised; says whether a pull is of a single file. Throws
  // std::exception to refuse, with a reason for the client.
  using examine = std::function<bool(const client_request&)>;
  // Null: there is no such module (or none for that peer).
  using find_module =
      std::function<const module*(const std::string& name, const std::string& peer)>;
  struct handlers {
    find_module find;
    examine look;
    carry_out carry;
    std::function<void(const std::string& peer, const std::string& what)> log;
  };
  server(cordma::Context& context, handlers h, server_tls tls = {})
      : context_(context), handlers_(std::move(h)), tls_(tls) {}

  // Ends after `most` clients (0: never), or by cancellation.
  [[nodiscard]] cordma::task<void> serve(cordma::Listener& listener, int most);

 private:
  struct waiting;  // a session whose further lanes are still to come
  struct running;  // a session of a client that may reconnect
  class registration;

  [[nodiscard]] cordma::task<void> accept_all(cordma::Listener* listener, cordma::scope* clients,
                                              int most);
  [[nodiscard]] bool is_unfit(cordma::ConnectionRequest& request, const greeting& g);
  [[nodiscard]] cordma::task<std::unique_ptr<lane>> accept(cordma::ConnectionRequest request,
                                                           bool secured);
  [[nodiscard]] cordma::task<void> serve_one(cordma::ConnectionRequest request, greeting g);
  [[nodiscard]] cordma::task<void> talk(lanes* ways, std::string peer);
  [[nodiscard]] cordma::task<client_request> shake_hands(lane* way, std::string peer, nonce* id);
  [[nodiscard]] cordma::task<void> carry_out_alone(lanes* ways, client_request r, nonce id);
  [[nodiscard]] cordma::task<void> end_earlier(std::string transfer);
  [[nodiscard]] cordma::task<void> gather_and_carry_out(lanes* ways, client_request r, nonce id);
  [[nodiscard]] cordma::task<void> gather_lanes(lanes* ways, std::uint32_t count, nonce id);
  [[nodiscard]] waiting& session_of(const greeting& g);
  [[nodiscard]] cordma::task<void> take_lane(cordma::ConnectionRequest request, greeting g);
  [[nodiscard]] cordma::task<void> hear_join(lane* way, greeting g);

  cordma::Context& context_;
  handlers handlers_;
  server_tls tls_;
  int left_ = 0;
  cordma::scope* clients_ = nullptr;
  std::unordered_map<std::string, waiting*> waiting_;  // by the session's id
  std::unordered_map<std::string, running*> running_;  // by module and transfer
};

}  // namespace copy
