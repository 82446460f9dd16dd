// Functions shared by several benches: the median, and options by their names on the command line.
#pragma once

#include <cordma/cordma.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace bench {

// REQUIRES that `values` is not empty. For an even number, the upper of the two middle values.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Throws cordma::error if there is no such transport.
inline cordma::context_options only(std::string_view transport) {
  cordma::context_options o;
  o.transports = {cordma::parse_transport(transport).value()};
  return o;
}

// "polling" or "event"; anything else is adaptive.
inline cordma::reactor_options waiting(std::string_view how) {
  cordma::reactor_options o;
  o.mode = how == "polling" ? cordma::wait_mode::polling
           : how == "event" ? cordma::wait_mode::event
                            : cordma::wait_mode::adaptive;
  return o;
}

}  // namespace bench
