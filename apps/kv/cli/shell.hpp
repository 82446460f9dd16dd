// Runs commands one after the other, typed at a terminal or read from a pipe.
#pragma once

#include "service.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv::cli {

enum class style : std::uint8_t { raw, pretty, json };

// Returns the exit code: 1 if a command failed and the input is not interactive.
[[nodiscard]] int run_shell(const service& s, style as);
// Runs one command. Exit codes: 0; 1 for an error; 3 for nil. `last_from_stdin`: the content of
// standard input is the last word. `exact`: only the bytes of the value are printed.
struct once_options {
  style as = style::raw;
  bool last_from_stdin = false;
  bool exact = false;
};
[[nodiscard]] int run_once(const service& s, std::vector<std::string> words,
                           const once_options& how);

}  // namespace kv::cli
