#include "modules.hpp"

#include "../cp/tree/describe.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>

#include <arpa/inet.h>
#include <sys/stat.h>

namespace copy {
namespace {

using nlohmann::json;

constexpr std::size_t v4 = 4;
constexpr std::size_t v6 = 16;

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

std::vector<std::uint8_t> address_of(const std::string& text) {
  std::vector<std::uint8_t> bytes(v6);
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    bytes.resize(v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) {
    return {};
  }
  constexpr std::uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
  if (bytes.size() == v6 && std::equal(std::begin(mapped), std::end(mapped), bytes.begin())) {
    bytes.erase(bytes.begin(), bytes.begin() + std::size(mapped));
  }
  return bytes;
}

std::string host_of(std::string_view peer) {
  const std::size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos) return std::string(peer);
  peer = peer.substr(0, colon);
  if (peer.starts_with('[') && peer.ends_with(']')) peer = peer.substr(1, peer.size() - 2);
  return std::string(peer.substr(0, peer.find('%')));
}

// True if every user of this machine may read the file.
bool is_for_all(const std::string& file) noexcept {
  struct stat s{};
  return ::stat(file.c_str(), &s) == 0 && (s.st_mode & S_IROTH) != 0;
}

std::string read_token_file(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  if (!in) fail("module \"" + name + "\": token_file: " + file + ": " + std::strerror(errno));
  std::string token;
  if (!std::getline(in, token) || token.empty())  // an empty token gives access to every client
    fail("module \"" + name + "\": token_file: " + file + " has no token in its first line");
  return token;
}

void check(const served_module& m, bool whole_disk) {
  const std::string where = "module \"" + m.what.name + "\": ";
  const bool is_name = !m.what.name.empty() && m.what.name != "." && m.what.name != ".." &&
                       m.what.name.find_first_of(std::string_view("/:\0", 3)) == std::string::npos;
  if (!is_name) {
    fail(where + "a name is not empty, nor \".\", and without '/' and ':'");
  }
  constexpr std::size_t shortest_token = 8;
  if (!m.what.token.empty() && m.what.token.size() < shortest_token) {
    fail(where + "a token of less than 8 bytes is soon guessed");
  }
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(m.what.path.c_str(), nullptr),
                                                         &std::free);
  struct stat s{};
  if (!real || ::stat(real.get(), &s) != 0) {
    fail(where + "path: " + m.what.path + ": " + std::strerror(errno));
  }
  if (!S_ISDIR(s.st_mode)) fail(where + "path: " + m.what.path + " is no directory");
  struct stat top{};
  const bool is_all = ::stat("/", &top) == 0 && copy::same_file(top, s);
  if (is_all && !whole_disk) {
    fail(where + "serves the whole disk; if that is meant, say \"whole_disk\": true, too");
  }
}

std::string text_of(const json& value, const std::string& key) {
  if (!value.is_string()) fail(key + ": a text, in quotes");
  return value.get<std::string>();
}

bool flag_of(const json& value, const std::string& key) {
  if (!value.is_boolean()) fail(key + ": true or false");
  return value.get<bool>();
}

std::vector<network> networks_of(const json& value, const std::string& key) {
  // An empty list is an error: to permit all hosts the key is left out.
  if (!value.is_array() || value.empty()) fail(key + ": a list such as [\"10.0.0.0/8\"]");
  std::vector<network> all;
  for (const json& h : value) all.push_back(parse_network(text_of(h, key)));
  return all;
}

served_module decode_module(const json& j) {
  served_module m;
  bool whole_disk = false;
  if (!j.is_object() || !j.contains("name"))
    fail("modules: each is {\"name\": ..., \"path\": ...}");
  m.what.name = text_of(j["name"], "name");
  const std::string where = "module \"" + m.what.name + "\": ";
  if (!j.contains("path")) fail(where + "it has no path");
  for (const auto& [key, value] : j.items()) {
    if (key == "name") continue;
    if (key == "path") {
      m.what.path = text_of(value, where + key);
    } else if (key == "read_only") {
      m.what.read_only = flag_of(value, where + key);
    } else if (key == "devices") {
      m.what.devices = flag_of(value, where + key);
    } else if (key == "hosts") {
      m.hosts = networks_of(value, where + key);
    } else if (key == "token") {
      m.what.token = text_of(value, where + key);
      if (m.what.token.empty()) fail(where + "an empty token lets anybody in: leave it out");
    } else if (key == "token_file") {
      m.token_file = text_of(value, where + key);
      m.what.token = read_token_file(m.token_file, m.what.name);
    } else if (key == "whole_disk") {
      whole_disk = flag_of(value, where + key);
    } else {
      fail(where + "there is no key \"" + key + "\"");
    }
  }
  check(m, whole_disk);
  return m;
}

void decode_tls(const json& j, daemon_configuration& into) {
  for (const auto& [key, value] : j.items()) {
    if (key == "required") {
      into.tls_required = value.get<bool>();
    } else if (key != "certificate" && key != "key") {
      fail("tls: there is no key \"" + key + "\"");
    }
  }
  if (!j.contains("certificate") || !j.contains("key")) {
    fail("tls: needs a \"certificate\" and its \"key\", both files");
  }
  try {
    into.tls.emplace(
        tls_context::server(j["certificate"].get<std::string>(), j["key"].get<std::string>()));
  } catch (const std::invalid_argument& e) {
    fail(std::string("tls: ") + e.what());
  }
}

}  // namespace

network parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  network n;
  n.bytes = address_of(text.substr(0, slash));
  if (n.bytes.empty())
    fail("hosts: \"" + text + "\" is no address, and no network such as 10.0.0.0/8");
  const auto most = static_cast<unsigned>(n.bytes.size() * 8);
  n.bits = most;
  if (slash == std::string::npos) return n;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + slash + 1, end, n.bits);
  if (error != std::errc() || stopped != end || n.bits > most) {
    fail("hosts: \"" + text + "\" has a length of network that cannot be");
  }
  return n;
}

bool network::contains(std::string_view peer) const {
  // Clients over shared memory are on this host.
  const bool is_here = peer.starts_with("shm:");
  const char* const loopback = bytes.size() == 4 ? "127.0.0.1" : "::1";
  const std::vector<std::uint8_t> theirs = address_of(is_here ? loopback : host_of(peer));
  if (theirs.size() != bytes.size()) return false;
  for (unsigned bit = 0; bit < bits; ++bit) {
    const auto mask = static_cast<std::uint8_t>(128U >> bit % 8);
    if ((theirs[bit / 8] & mask) != (bytes[bit / 8] & mask)) return false;
  }
  return true;
}

std::vector<std::string> doubts_of(const daemon_configuration& c) {
  std::vector<std::string> doubts;
  for (const served_module& m : c.modules) {
    const std::string where = "module \"" + m.what.name + "\": ";
    if (is_for_all(m.token_file)) {
      doubts.push_back(where + "everybody on this machine may read its token: chmod 600 " +
                       m.token_file);
    }
    if (!m.what.read_only && m.hosts.empty() && m.what.token.empty()) {
      doubts.push_back(where + "whoever reaches " + c.listen +
                       " may write, change and delete in it: give it a token, or hosts");
    }
  }
  return doubts;
}

served_module module_of(const std::string& text, bool read_only, std::string token) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail("--module: NAME=PATH, and not " + text);
  served_module m;
  m.what.name = text.substr(0, equals);
  m.what.path = text.substr(equals + 1);
  m.what.read_only = read_only;
  m.what.token = std::move(token);
  check(m, false);
  return m;
}

daemon_configuration read_configuration(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail(file + ": " + std::strerror(errno));
  daemon_configuration c;
  try {
    const json j = json::parse(in, nullptr, true, true);
    if (!j.is_object()) fail("an object is needed: {\"modules\": [...]}");
    bool has_tokens = false;
    for (const auto& [key, value] : j.items()) {
      if (key == "listen") {
        c.listen = text_of(value, key);
        const cordma::result<cordma::transport::address> at = cordma::parse_address(c.listen);
        if (!at) fail("listen: " + std::string(at.why().message()));
      } else if (key == "tls") {
        decode_tls(value, c);
      } else if (key == "modules") {
        if (!value.is_array()) fail("modules: a list of them");
        for (const json& m : value) {
          c.modules.push_back(decode_module(m));
          has_tokens = has_tokens || m.contains("token");
        }
      } else {
        fail("there is no key \"" + key + "\"");
      }
    }
    struct stat s{};
    if (has_tokens && ::stat(file.c_str(), &s) == 0 && (s.st_mode & 077) != 0) {
      fail("others may read it, and it has tokens: chmod 600, or use token_file");
    }
  } catch (const json::exception& e) {
    fail(file + ": " + e.what());
  } catch (const std::invalid_argument& e) {
    fail(file + ": " + e.what());
  }
  return c;
}

}  // namespace copy
