// From an address to lanes: the client's and the server's half of shaking hands.
#pragma once

#include "auth.hpp"
#include "lane.hpp"
#include "wire.hpp"

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
  // Of a pull: the one source is not a directory.
  bool single_file = false;
};

// Throws cordma::error: rejected (with what the server says), and what connecting throws.
[[nodiscard]] cordma::task<connection> connect(cordma::Context& context, cordma::Worker& worker,
                                               std::string address, hello asked, std::string token,
                                               std::optional<cordma::transport::kind> only);

// What a server lets its clients have.
struct module {
  std::string name;
  std::string path;
  std::string token;  // empty: whoever asks
  bool read_only = true;
};

// What was asked for by somebody who may.
struct client_request {
  hello asked;
  const module* where = nullptr;
  std::string peer;
};
// Carries a request out, on lanes that are there. What it throws is told by whoever called.
using carry_out = std::function<cordma::task<void>(client_request, lanes&)>;

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
  server(cordma::Context& context, handlers h) : context_(context), handlers_(std::move(h)) {}

  // Ends after `most` clients (0: never), or by cancellation.
  [[nodiscard]] cordma::task<void> serve(cordma::Listener& listener, int most);

 private:
  // A session whose further lanes are still to come.
  struct waiting {
    std::vector<std::optional<cordma::ConnectionRequest>> requests;  // by lane, from 1 on
    std::size_t missing = 0;
    cordma::event complete;
  };

  [[nodiscard]] cordma::task<void> accept_all(cordma::Listener* listener, cordma::scope* clients,
                                              int most);
  [[nodiscard]] cordma::task<void> serve_one(cordma::ConnectionRequest request);
  [[nodiscard]] cordma::task<void> talk(lanes* ways, std::string peer);
  [[nodiscard]] cordma::task<client_request> shake_hands(lane* l, std::string peer, nonce* id);
  [[nodiscard]] cordma::task<void> take_lanes(lanes* ways, std::uint32_t count, nonce id);
  [[nodiscard]] cordma::task<std::unique_ptr<lane>> accept(cordma::ConnectionRequest request);
  void assign(cordma::ConnectionRequest request);

  cordma::Context& context_;
  handlers handlers_;
  int left_ = 0;
  cordma::event served_;
  std::unordered_map<std::string, waiting*> waiting_;  // by the session's id
};

}  // namespace copy
