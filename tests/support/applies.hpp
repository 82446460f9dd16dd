// The transports to which a conformance case applies. Other cases do not run. Each is reported with
// its reason: as a skipped test of ctest, and in the last lines of the program.
#pragma once

#include <cordma/net/transport/types.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

namespace cordma::test {

// A decorator of a case, behind its name: "..." * not_on(transport::kind::sim, "its time is virtual")
class applies {
 public:
  applies(bool here, const char* otherwise) noexcept : here_(here), reason_(otherwise) {}
  void fill(doctest::detail::TestCase& about) const;

 private:
  bool here_;
  const char* reason_;
};

[[nodiscard]] applies not_on(transport::kind where, const char* reason);
[[nodiscard]] applies not_on(std::initializer_list<transport::kind> where, const char* reason);
[[nodiscard]] applies only_on(transport::kind where, const char* reason);

// The complete run of main() around doctest; see tests/README.md.
[[nodiscard]] int run_cases(int argc, char** argv);

}  // namespace cordma::test
