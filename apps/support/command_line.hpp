// What the programs have in common in reading their command lines.
#pragma once

#include "standard_output.hpp"

#include <cordma/cordma.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <optional>
#include <string>

namespace support {

// The code to end with, where there is nothing more to do: 0 after --help, 2 after a sentence that
// says what is wrong.
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

// For CLI::Option::check(): HOST:PORT.
[[nodiscard]] inline std::string check_address(const std::string& text) {
  const cordma::result<cordma::transport::address> a = cordma::parse_address(text);
  return a ? std::string() : a.why().message();
}

}  // namespace support
