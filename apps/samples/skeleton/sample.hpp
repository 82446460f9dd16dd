// Common parts of all samples: the command line, connecting and closing, and the end of the
// program. A sample itself contains only its lesson.
#pragma once

#include <cordma/cordma.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sample {

// size of a text's memory, including the terminating zero
inline constexpr std::size_t region_bytes = 4096;

// Options that a sample accepts, in addition to --transport, and to --wait unless drives_its_loop
// is set.
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
  // The name of the peer's program; null: this program contains both sides.
  const char* other = nullptr;
  const char* says;  // for --help: a description, and the lesson
  std::vector<option> options = {};
  bool drives_its_loop = false;  // it waits in a different way: there is no --wait
};

// Values of the command line.
struct options {
  std::string listen;                // HOST:PORT
  std::vector<std::string> connect;  // HOST:PORT of each peer
  std::string descriptor;            // FILE, the prefix of FILE.requester and similar names
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

// Objects that a lesson uses. Bound to the thread of main().
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
  std::vector<std::byte> lent;      // exported memory, sent to the peer with the connection
  std::vector<std::byte> borrowed;  // exported memory of the peer; empty: none
};

// The complete main(). Returns 0; 1 after a failure, with the first error printed; 2 if the command
// line is invalid.
int run(const lesson& about, int argc, char** argv, void (*teach)(session&));
int run(const lesson& about, int argc, char** argv, cordma::task<void> (*teach)(session&));

// Connects to the peer in the way that the command line selects. Throws cordma::error.
[[nodiscard]] cordma::task<cordma::Endpoint> meet(session& s, cordma::endpoint_options terms = {});
// As many connections as the command line requests.
[[nodiscard]] cordma::task<std::vector<cordma::Endpoint>> meet_all(
    session& s, cordma::endpoint_options terms = {});
// The side that can confirm success closes the connection; the other side awaits this function.
// Throws the reason if the connection ended in another way: the peer failed or died.
[[nodiscard]] cordma::task<void> peer_closes(cordma::Endpoint& peer);

// A right must be granted on the memory and on the connection. --withhold grants a different one in
// one of them.
struct grants {
  cordma::access memory;
  cordma::endpoint_options connection;
};
[[nodiscard]] grants grant(const session& s, cordma::access right);

// Returns when the receive is to be posted by --receive: now, or late. With never, throws when the
// peer has disconnected.
[[nodiscard]] cordma::task<void> time_to_receive(const session& s, cordma::Endpoint& peer);

// Writes `text` and a zero, and returns the part of `room` that they occupy. Throws if they do not
// fit.
cordma::Slice put_text(const cordma::Slice& room, const std::string& text);
// The text before the first zero.
[[nodiscard]] std::string text_in(std::span<const std::byte> bytes);
// Prints "<what>: "<text>""; throws if the text differs from --text.
void check_text(const session& s, const char* what, const std::string& text);

// Ends the sample as failed.
[[noreturn]] void fail(const std::string& sentence);

}  // namespace sample
