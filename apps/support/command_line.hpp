// Common parts of the programs' command line parsing.
#pragma once

#include "standard_output.hpp"

#include <cordma/cordma.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

namespace support {

// Returns the exit code if there is nothing more to do: 0 after --help, 2 after an error message.
[[nodiscard]] inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return finish_output(app.get_name().c_str(), app.exit(e));
    std::fprintf(stderr, "%s: %s; --help lists all options\n", app.get_name().c_str(), e.what());
    return 2;
  }
  return std::nullopt;
}

// Returns the token in the first line of `file`. If `file` is empty, returns the value of the
// environment variable and unsets it, because it is no setting of the library. Throws
// std::invalid_argument.
[[nodiscard]] inline std::string read_token(const std::string& file, const char* variable) {
  if (file.empty()) {
    const char* const told = std::getenv(variable);
    std::string token = told != nullptr ? told : "";
    ::unsetenv(variable);
    return token;
  }
  std::ifstream in(file);
  if (!in) throw std::invalid_argument("--token-file: " + file + ": " + std::strerror(errno));
  std::string token;
  if (!std::getline(in, token) || token.empty()) {
    throw std::invalid_argument("--token-file: " + file + " has no token in its first line");
  }
  return token;
}

// For CLI::Option::check(): HOST:PORT.
[[nodiscard]] inline std::string check_address(const std::string& text) {
  const cordma::result<cordma::transport::address> a = cordma::parse_address(text);
  return a ? std::string() : a.why().message();
}

}  // namespace support
