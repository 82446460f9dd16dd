// What all samples have in common: the command line, how the two sides meet and part, and how a
// program ends. What is left in a sample is its lesson.
#pragma once

#include <cordma/cordma.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sample {

inline constexpr std::size_t region_bytes = 4096;  // of memory a text lies in, its zero included

// What a sample takes on its command line; --transport, and --wait where it is left open, come on top.
enum class option : std::uint8_t {
  listen,
  connect,
  descriptor,
  connections,
  text,
  immediate,
  withhold,
  done,
  receive,
  rnr_retry,
};

struct lesson {
  const char* name;  // the program is sample-<name>; its last word is the role of this side
  const char* other = nullptr;  // the name of the peer's program; null: it has both sides in itself
  const char* says;             // for --help: what happens here, and what there is to learn
  std::vector<option> options = {};
  bool drives_its_loop = false;  // it waits in a way of its own: there is no --wait
};

// As the command line gives them.
struct options {
  std::string listen;                // HOST:PORT
  std::vector<std::string> connect;  // HOST:PORT of each peer
  std::string descriptor;            // FILE, of FILE.requester and the like
  std::uint32_t connections = 1;
  std::string text = "Hi cordma!";
  std::uint32_t immediate = 42;
  std::string withhold;          // "memory", "connection", or empty
  std::string done = "message";  // or "enter"
  std::string receive = "now";   // or "late", or "never"
  std::uint8_t rnr_retry = 7;
  bool hold = false;
  cordma::context_options context;
  cordma::reactor_options reactor;
};

// What a lesson works with. Bound to the thread of main().
struct session {
  session(const lesson& what, options how)
      : about(what),
        given(std::move(how)),
        context(given.context),
        worker(context, given.reactor) {}

  const lesson& about;
  const options given;
  cordma::Context context;
  cordma::Worker worker;
  std::vector<std::byte> lent;      // exported memory: goes to the peer with the connection
  std::vector<std::byte> borrowed;  // the same from the peer; empty where it lends none
};

// The whole of main(). 0; 1 where something failed, having said what failed first; 2 where the command
// line is wrong.
int run(const lesson& about, int argc, char** argv, void (*teach)(session&));
int run(const lesson& about, int argc, char** argv, cordma::task<void> (*teach)(session&));

// A connection to the peer, by the way that the command line names. Throws cordma::error.
[[nodiscard]] cordma::task<cordma::Endpoint> meet(session& s, cordma::endpoint_options terms = {});
// As many as the command line asks for.
[[nodiscard]] cordma::task<std::vector<cordma::Endpoint>> meet_all(
    session& s, cordma::endpoint_options terms = {});
// Whoever can tell that all went well closes; the other side awaits this. Throws why the connection
// ended, where it ended in another way: the peer failed, or died.
[[nodiscard]] cordma::task<void> peer_closes(cordma::Endpoint& peer);

// A right has to be granted on the memory and on the connection. --withhold grants another in one place.
struct grants {
  cordma::access memory;
  cordma::endpoint_options connection;
};
[[nodiscard]] grants grant(const session& s, cordma::access right);

// Returns when --receive wants the receive to be posted: now, or late. With never it throws once the
// peer is gone.
[[nodiscard]] cordma::task<void> time_to_receive(const session& s, cordma::Endpoint& peer);

// Writes `text` and a zero; gives the part of `room` that they take. Throws where there is no room.
cordma::Slice put_text(const cordma::Slice& room, const std::string& text);
// What stands before the first zero.
[[nodiscard]] std::string text_in(std::span<const std::byte> bytes);
// Prints "<what>: "<text>""; throws where it is not the text that --text wants.
void check_text(const session& s, const char* what, const std::string& text);

// Ends the sample as failed.
[[noreturn]] void fail(const std::string& sentence);

}  // namespace sample
