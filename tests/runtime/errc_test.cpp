#include <cordma/runtime/errc.hpp>
#include <cordma/runtime/result.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace cordma;

TEST_CASE("every code has a name and a sentence of its own") {
  std::set<std::string_view> names;
  std::set<std::string_view> sentences;
  for (int i = 0; i < errc_count; ++i) {
    const errc code = static_cast<errc>(i);
    CAPTURE(i);
    CHECK(!name(code).empty());
    CHECK(!sentence(code).empty());
    CHECK(sentence(code).back() != '.');
    CHECK(names.insert(name(code)).second);
    CHECK(sentences.insert(sentence(code)).second);
    CHECK(make_error_code(code).message() == sentence(code));
    CHECK(std::error_code(code).category() == category());
  }
  CHECK(name(static_cast<errc>(200)) == "unknown");
}

TEST_CASE("every errno maps to one code, the unlisted ones to operating_system") {
  CHECK(from_errno(0) == errc::ok);
  int unlisted = 0;
  for (int e = 1; e < 200; ++e) {
    const errc code = from_errno(e);
    CHECK(code != errc::ok);
    CHECK(code == from_errno(e));
    unlisted += code == errc::operating_system ? 1 : 0;
  }
  CHECK(unlisted > 0);
  CHECK(from_errno(ECONNREFUSED) == errc::unreachable);
  CHECK(from_errno(EMFILE) == errc::no_memory);
  CHECK(from_errno(EACCES) == errc::not_permitted);
  CHECK(from_errno(ECONNRESET) == errc::connection_reset);
  CHECK(from_errno(EADDRINUSE) == errc::in_use);
  CHECK(from_errno(ETIMEDOUT) == errc::timed_out);
  CHECK(from_errno(123456) == errc::operating_system);
}

TEST_CASE("a failure keeps its first cause, its operation and the original codes") {
  failure first = failure::from_os(ECONNRESET, "reading from 10.0.0.1:4791");
  first.with_operation("read");
  failure second(errc::flushed);
  second.with_operation("send").with_status(5, 0x42).with_cause(
      std::make_shared<const failure>(first));
  CHECK(second.first_cause().code() == errc::connection_reset);
  CHECK(second.first_cause().os_errno() == ECONNRESET);
  CHECK(second.describe() ==
        "send: flushed: cut off, or never begun, because the connection ended first (completion "
        "status 5, "
        "vendor code 66); because: read: connection_reset: reading from 10.0.0.1:4791: Connection "
        "reset by peer");
  CHECK(std::string(error(second).what()) == second.describe());
  CHECK(error(second).code() == errc::flushed);
}

TEST_CASE("a sentence is made of texts and numbers") {
  const std::uint64_t most = ~std::uint64_t{0};
  const failure f = failure::of(errc::truncated, {"a message of ", most, std::string(" bytes, "),
                                                  std::uint16_t{0}, std::string_view(" fit")});
  CHECK(f.message() == "a message of 18446744073709551615 bytes, 0 fit");
}

TEST_CASE("a result holds a value or a failure, and throws where the value is missing") {
  result<std::unique_ptr<int>> good(std::make_unique<int>(3));
  CHECK(good.ok());
  CHECK(good.code() == errc::ok);
  CHECK(*std::move(good).value() == 3);
  const result<int> bad(errc::full);
  CHECK(!bad);
  CHECK(bad.code() == errc::full);
  CHECK_THROWS_AS((void)bad.value(), error);
  CHECK(result<void>(errc::ok).ok());
  CHECK_THROWS_AS(result<void>(errc::again).value(), std::system_error);
  CHECK(is_canceled(std::make_exception_ptr(error(errc::canceled))));
  CHECK(!is_canceled(std::make_exception_ptr(error(errc::timed_out))));
  CHECK(!is_canceled(std::make_exception_ptr(3)));
  CHECK(!is_canceled(nullptr));
}
