#include <support/counts.hpp>
#include <support/stage.hpp>

#include <cstdlib>
#include <string>

namespace cordma::test {

std::uint64_t times(std::uint64_t full, std::uint64_t emulated) {
  const char* const named = std::getenv("CORDMA_TEST_COUNTS");
  const std::string counts = named != nullptr ? named : "emulated";
  if (counts != "full" && counts != "emulated") {
    throw_error({errc::invalid_value, "counts \"" + counts + "\" are unknown: use full"});
  }
  const bool shorter = counts == "emulated" && transport_under_test() == transport::kind::verbs;
  return shorter ? emulated : full;
}

}  // namespace cordma::test
