#include "../../support/command_line.hpp"

#include "../../support/environment.hpp"
#include "sample.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace sample {
namespace {

constexpr std::uint32_t most_connections = 1024;

// Values as given on the command line, if they have another type.
struct raw {
  std::string transport = "auto";
  std::string wait = "adaptive";
  unsigned rnr_retry = 7;
};

bool takes(const lesson& about, option o) {
  return std::ranges::find(about.options, o) != about.options.end();
}

void declare_meeting(CLI::App& app, option which, options& o, bool several) {
  switch (which) {
    case option::listen:
      app.add_option("--listen", o.listen, "wait for the peer here; port 0: any, and it is printed")
          ->type_name("HOST:PORT")
          ->check(support::check_address);
      break;
    case option::connect:
      app.add_option("--connect", o.connect,
                     several ? "the peers that wait there" : "the peer that waits there")
          ->type_name(several ? "HOST:PORT,..." : "HOST:PORT")
          ->delimiter(',')
          ->expected(1, several ? static_cast<int>(most_connections) : 1)
          ->check(support::check_address);
      break;
    case option::descriptor:
      app.add_option("--descriptor", o.descriptor,
                     "instead: exchange descriptors through files whose names begin so")
          ->type_name("FILE");
      break;
    case option::connections:
      app.add_option("--connections", o.connections, "with --listen and --descriptor: how many")
          ->type_name("N")
          ->check(CLI::Range(1U, most_connections));
      break;
    default: break;
  }
}

void declare_own(CLI::App& app, option which, options& o, raw& r) {
  switch (which) {
    case option::text:
      app.add_option("--text", o.text, "what is sent, and expected")->capture_default_str();
      break;
    case option::immediate:
      app.add_option("--immediate", o.immediate, "the 32 bits that are sent, and expected")
          ->type_name("N")
          ->capture_default_str();
      break;
    case option::withhold:
      app.add_option("--withhold", o.withhold,
                     "do not grant the right on the memory, or on the connection: both sides fail")
          ->check(CLI::IsMember({"memory", "connection"}));
      break;
    case option::done:
      app.add_option("--done", o.done, "how the responder learns it; the same on both sides")
          ->check(CLI::IsMember({"message", "enter"}))
          ->capture_default_str();
      break;
    case option::receive:
      app.add_option("--receive", o.receive, "when the receive is posted")
          ->check(CLI::IsMember({"now", "late", "never"}))
          ->capture_default_str();
      break;
    case option::rnr_retry:
      app.add_option("--rnr-retry", r.rnr_retry,
                     "how often what finds no receive is offered again, after 1 ms; 7: for ever")
          ->type_name("0..7")
          ->check(CLI::Range(0, 7))
          ->capture_default_str();
      break;
    default: break;
  }
}

void declare(CLI::App& app, const lesson& about, options& o, raw& r) {
  for (const option which : about.options) {
    declare_meeting(app, which, o, takes(about, option::connections));
    declare_own(app, which, o, r);
  }
  app.add_option("--transport", r.transport, "what carries it")
      ->check(CLI::IsMember({"auto", "shm", "tcp", "verbs"}))
      ->capture_default_str();
  if (!about.drives_its_loop) {
    app.add_option("--wait", r.wait, "for what comes")
        ->check(CLI::IsMember({"polling", "event", "adaptive"}))
        ->capture_default_str();
  }
  if (about.other != nullptr) {
    app.add_flag("--hold", o.hold, "connect and do nothing more: to see the peer end");
  }
}

std::string footer(const lesson& about) {
  std::string text;
  if (about.other != nullptr) {
    // The side that exports memory listens: its blob is too long for a connection request, but fits
    // the response.
    const bool listens = !takes(about, option::connect) ||
                         (takes(about, option::listen) && std::strstr(about.name, "receiver"));
    const std::string first = listens ? about.name : about.other;
    const std::string second = listens ? about.other : about.name;
    text = "Example\n  sample-" + first + " --listen 127.0.0.1:18710 &\n  sample-" + second +
           " --connect 127.0.0.1:18710\nor both with --descriptor /tmp/pair.\n\n";
  }
  return text +
         "Ends with 0; with 1 where something failed, here or at the peer, having said what "
         "failed\n"
         "first; with 2 where the command line is wrong.";
}

// Checks combinations of options; returns an empty string if they are valid.
std::string objection(const lesson& about, options& o) {
  if (o.text.size() >= region_bytes) {
    return "--text: longer than " + std::to_string(region_bytes - 1) + " bytes";
  }
  if (about.other == nullptr) return {};
  const int ways =
      (o.listen.empty() ? 0 : 1) + (o.connect.empty() ? 0 : 1) + (o.descriptor.empty() ? 0 : 1);
  if (ways != 1) {
    std::string all;
    for (const auto& [which, name] :
         {std::pair(option::listen, "--listen"), std::pair(option::connect, "--connect"),
          std::pair(option::descriptor, "--descriptor")}) {
      if (takes(about, which)) all += (all.empty() ? "" : " or ") + std::string(name);
    }
    return "give one of " + all;
  }
  if (o.connect.empty()) return {};
  if (o.connections != 1) return "--connections: with --connect, name each peer";
  o.connections = static_cast<std::uint32_t>(o.connect.size());
  return {};
}

options completed(options o, const raw& r) {
  if (r.transport != "auto") {
    o.context.transports = {cordma::parse_transport(r.transport).value()};
  }
  o.reactor.mode = cordma::parse_wait_mode(r.wait).value();
  o.rnr_retry = static_cast<std::uint8_t>(r.rnr_retry);
  return o;
}

template <class Teach>
int run_lesson(const lesson& about, int argc, char** argv, Teach teach) {
  const std::string program = std::string("sample-") + about.name;
  try {
    CLI::App app(about.says, program);
    options o;
    raw r;
    declare(app, about, o, r);
    app.footer(footer(about));
    if (const std::optional<int> ended = support::parse(app, argc, argv)) return *ended;
    if (const std::string wrong = objection(about, o); !wrong.empty()) {
      std::fprintf(stderr, "%s: %s; --help lists all options\n", program.c_str(), wrong.c_str());
      return 2;
    }
    session s(about, completed(std::move(o), r));
    support::say_what_is_odd(program.c_str(), s.context);
    teach(s);
    return support::finish_output(program.c_str(), 0);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), e.what());
    return 1;
  }
}

}  // namespace

int run(const lesson& about, int argc, char** argv, void (*teach)(session&)) {
  return run_lesson(about, argc, argv, teach);
}

int run(const lesson& about, int argc, char** argv, cordma::task<void> (*teach)(session&)) {
  return run_lesson(about, argc, argv, [teach](session& s) { s.worker.run(teach(s)); });
}

cordma::Slice put_text(const cordma::Slice& room, const std::string& text) {
  const std::size_t bytes = text.size() + 1;
  if (bytes > room.size()) fail("\"" + text + "\" does not fit the memory it should go to");
  std::memcpy(room.data(), text.c_str(), bytes);
  return room.first(bytes);
}

std::string text_in(std::span<const std::byte> bytes) {
  const auto end = std::ranges::find(bytes, std::byte{0});
  return {reinterpret_cast<const char*>(bytes.data()),
          static_cast<std::size_t>(end - bytes.begin())};
}

void check_text(const session& s, const char* what, const std::string& text) {
  std::printf("%s: \"%s\"\n", what, text.c_str());
  if (text != s.given.text) fail("expected \"" + s.given.text + "\"");
}

void fail(const std::string& sentence) { throw std::runtime_error(sentence); }

}  // namespace sample
