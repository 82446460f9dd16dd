// Connects an address to lanes: the handshake of client and server.
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
  std::string reason;  // why this transport was chosen
  std::string cipher;  // of TLS; empty without TLS
  // In a pull: the one source is not a directory.
  bool single_file = false;
};

// Connects and completes the handshake. Requires TLS if `tls` is not null. Throws cordma::error:
// rejected, with the server's reason or the fault of its certificate; and the errors of
// Worker::connect().
[[nodiscard]] cordma::task<connection> connect(cordma::Context& context, cordma::Worker& worker,
                                               std::string address, hello asked, std::string token,
                                               std::optional<cordma::transport::kind> only,
                                               const tls_context* tls = nullptr);

// A directory that a server offers to its clients.
struct module {
  std::string name;
  std::string path;
  std::string token;  // empty: any client
  bool read_only = true;
  bool devices = false;  // clients may create devices
};

// TLS of a server; over tcp only.
struct server_tls {
  const tls_context* with = nullptr;  // null: no TLS
  bool required = false;              // clients without TLS are rejected, on every transport
};

// A request of a client that is permitted to make it.
struct client_request {
  hello asked;
  const module* where = nullptr;
  std::string peer;
};
// Carries out a request on connected lanes. The caller reports exceptions.
using carry_out = std::function<cordma::task<void>(client_request, lanes&)>;

struct greeting;

// Serves requests from a Listener. Bound to the thread of the Worker.
class server {
 public:
  // Checks a request before it is accepted. Returns true if a pull is of a single file. Throws
  // std::exception to refuse, with a reason for the client.
  using examine = std::function<bool(const client_request&)>;
  // Returns null if no such module exists, or none for this peer.
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

  // Serves clients until `most` have been served (0: no limit) or it is canceled.
  [[nodiscard]] cordma::task<void> serve(cordma::Listener& listener, int most);

 private:
  struct waiting;  // a session that waits for its further lanes
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
