// Warnings about the environment of a program.
#pragma once

#include <cordma/net/context.hpp>
#include <cordma/net/listener.hpp>

#include <cstdio>
#include <string>
#include <utility>

namespace support {

// A mistyped CORDMA_ variable is no error, but is hard to find without a note. Printed once, for
// any number of contexts.
inline void say_what_is_odd(const char* program, const cordma::Context& context) {
  static bool said = false;
  if (std::exchange(said, true)) return;
  for (const std::string& warning : context.configuration_warnings()) {
    std::fprintf(stderr, "%s: note: %s\n", program, warning.c_str());
  }
}

// Without this transport, local clients may reach a different service, or none.
inline void say_what_is_missing(const char* program, const cordma::Listener& listener) {
  for (const auto& [kind, why] : listener.missing()) {
    std::fprintf(stderr, "%s: note: not listening over %s: %s\n", program, name(kind).data(),
                 why.describe().c_str());
  }
}

}  // namespace support
