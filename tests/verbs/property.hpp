// Properties that a connection reports.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace cordma::test {

// Value of a property of an Endpoint or a queue pair. REQUIRES that the property exists.
template <class From>
std::string property_of(const From& of, std::string_view name) {
  const auto all = of.properties();
  const auto at = std::ranges::find_if(all, [&](const auto& p) { return p.name == name; });
  REQUIRE(at != all.end());
  return at->value;
}

}  // namespace cordma::test
