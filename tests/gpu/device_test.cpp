#include <cordma/gpu/device.hpp>

#include <doctest/doctest.h>

#include <string>

using cordma::errc;

TEST_CASE("the GPUs of the machine are not known rather than none") {
  const auto found = cordma::gpu::devices();
  REQUIRE(!found.ok());
  CHECK(found.code() == errc::not_supported);
}

TEST_CASE("memory of a GPU cannot be had, and the failure says what to do") {
  const auto memory = cordma::gpu::DeviceMemory::allocate(0, 4096);
  REQUIRE(!memory.ok());
  CHECK(memory.code() == errc::not_supported);
  const std::string text = memory.why().describe();
  CHECK(text.find("gpu allocate") != std::string::npos);
  CHECK(text.find("host memory") != std::string::npos);
}
