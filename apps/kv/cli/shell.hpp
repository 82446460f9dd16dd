// Commands one after the other: typed at a terminal, or from a pipe.
#pragma once

#include "service.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kv::cli {

enum class style : std::uint8_t { raw, pretty, json };

// The code to end with: 1 where one of them failed and nobody was there to see it.
[[nodiscard]] int run_shell(const service& s, style as);
// One command: 0, 1: an error, 3: nil. `last_from_stdin`: what standard input has is one word more. `exact`: nothing
// is printed but the bytes of the value.
struct once_options {
  style as = style::raw;
  bool last_from_stdin = false;
  bool exact = false;
};
[[nodiscard]] int run_once(const service& s, std::vector<std::string> words,
                           const once_options& how);

}  // namespace kv::cli
