// Locations of files in the syntax of the command line.
#include "../../apps/cp/transfer/place.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace copy;

namespace {

place parse(std::string_view text) { return parse_place(text, default_port); }

std::string refusal(std::string_view text) {
  try {
    (void)parse(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

bool refuses(std::string_view text, std::string_view with) {
  return refusal(text).find(with) != std::string::npos;
}

}  // namespace

TEST_CASE("what has no ':', or a '/' before its first, is here, as it was given") {
  for (const char* text :
       {"a", "/", "/a/b", "a/", "./host:mod/x", "/host:mod/x", "a/b:c", "x/[::1]:mod", "[a]", "[a",
        "a//../b", "~", "a b", "\xff", "-x", "--", "./-"}) {
    CAPTURE(std::string(text));
    const place p = parse(text);
    CHECK(p.here());
    CHECK(p.path == text);
    CHECK(p.module.empty());
    CHECK_FALSE(p.is_standard_stream());
    CHECK(p.text() == text);
  }
}

TEST_CASE("'-' is a standard stream, here alone") {
  CHECK(parse("-").is_standard_stream());
  CHECK_FALSE(parse("host:mod/-").is_standard_stream());
  CHECK_FALSE(parse("host:-").is_standard_stream());
}

TEST_CASE("a host, a module and a path [each way to write them]") {
  for (const char* text :
       {"host:mod/x/y", "host::mod/x/y", "cordma://host/mod/x/y", "host:mod//x/./y"}) {
    CAPTURE(std::string(text));
    const place p = parse(text);
    CHECK(p.host == "host");
    CHECK(p.module == "mod");
    CHECK(p.path == "x/y");
    CHECK(p.port == default_port);
    CHECK_FALSE(p.ends_with_slash);
    CHECK(p.address() == "host:7473");
    CHECK(p.text() == "host:mod/x/y");
  }
}

TEST_CASE("IPv6 stands in brackets") {
  for (const char* text :
       {"[::1]:mod/x", "[::1]::mod/x", "cordma://[::1]/mod/x", "cordma://[::1]:7473/mod/x"}) {
    CAPTURE(std::string(text));
    const place p = parse(text);
    CHECK(p.host == "::1");
    CHECK(p.module == "mod");
    CHECK(p.path == "x");
    CHECK(p.address() == "[::1]:7473");
    CHECK(p.text() == "[::1]:mod/x");
  }
  CHECK(parse("[host]:mod").host == "host");
}

TEST_CASE("a port stands in an address, or is the one that is given beside it") {
  CHECK(parse("cordma://host:1/mod").port == 1);
  CHECK(parse("cordma://host:65535/mod").port == 65535);
  CHECK(parse_place("host:mod", 99).port == 99);
  CHECK(parse_place("cordma://host/mod", 99).port == 99);
  CHECK(parse_place("cordma://host:5/mod", 99).port == 5);
  CHECK(parse_place("host:mod/x/", 99).text() == "cordma://host:99/mod/x/");
  CHECK(parse_place("[::1]:mod", 99).text() == "cordma://[::1]:99/mod");
}

TEST_CASE("what people read can be given again") {
  for (const char* text :
       {"host:mod", "host:mod/x/", "[::1]:mod/x", "cordma://host:9/mod/a b/c:d", "host:mod/-"}) {
    CHECK(parse(text).text() == text);
  }
}

TEST_CASE("it ends with a slash where it names what is in a directory") {
  for (const char* text : {"a/", "/", ".", "..", "a/.", "a/..", "host:mod", "host:mod/",
                           "host:mod/a/", "host:mod/a/.", "cordma://host/mod/a//"}) {
    CAPTURE(std::string(text));
    CHECK(parse(text).ends_with_slash);
  }
  for (const char* text : {"a", "/a", ".a", "a..", "host:mod/a", "host:mod/..a", "-"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse(text).ends_with_slash);
  }
  CHECK(parse("host:mod/a/").path == "a");
  CHECK(parse("host:mod/").path.empty());
}

TEST_CASE("what is no place is refused, saying how it would be right") {
  CHECK(refuses("", "write PATH or HOST:MODULE/PATH"));
  CHECK(refuses(":mod/x", "./:mod/x"));
  CHECK(refuses("::1", "./::1"));
  CHECK(refuses("host:", "write HOST:MODULE/PATH"));
  CHECK(refuses("host::", "write HOST:MODULE/PATH"));
  CHECK(refuses("host:/etc/passwd", "without a '/' before MODULE"));
  CHECK(refuses("host:../x", "\"..\" is none"));
  CHECK(refuses("cordma://", "no host"));
  CHECK(refuses("cordma:///mod", "no host"));
  CHECK(refuses("cordma://host", "write cordma://HOST[:PORT]/MODULE/PATH"));
  CHECK(refuses("cordma://host//x", "write cordma://HOST[:PORT]/MODULE/PATH"));
  CHECK(refuses("http://host/x", "write HOST:MODULE/PATH"));
}

TEST_CASE("a path that leads out of its module is refused") {
  for (const char* text : {"host:mod/..", "host:mod/../x", "host:mod/a/../../b", "host:mod/a/..",
                           "cordma://host/mod/../x"}) {
    CAPTURE(std::string(text));
    CHECK(refuses(text, "leads out of its module"));
  }
  CHECK(refuses("host:mod/" + std::string(256, 'x'), "longer than 255"));
  CHECK(parse("host:mod/..a/b..").path == "..a/b..");
}

TEST_CASE("a port that is none is refused") {
  for (const char* text :
       {"cordma://h:/m", "cordma://h:0/m", "cordma://h:65536/m", "cordma://h:x/m",
        "cordma://h:1x/m", "cordma://h:-1/m", "cordma://::1/m", "cordma://fe80::1/m"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(refusal(text).empty());
  }
  CHECK(refuses("cordma://fe80::1/m", "brackets"));
  CHECK(refuses("cordma://::1/m", "[::1]"));
}

TEST_CASE("IPv6 without brackets, or half in them, is refused") {
  CHECK(refuses("fe80::1:mod/x", "[::1]:MODULE/PATH"));
  CHECK(refuses("host:7473:mod/x", "with a port cordma://"));
  CHECK(refuses("[::1:mod", "no ']' ends"));
  CHECK(refuses("[::1]", "no module"));
  CHECK(refuses("[::1]x:mod", "behind the ']'"));
  CHECK(refuses("cordma://[::1]x/mod", "behind the ']'"));
}

TEST_CASE("a place of an rsync daemon is refused") {
  CHECK(refuses("rsync://host/mod/x", "start cordma-cpd there and write cordma://HOST"));
}

TEST_CASE("a user is refused") {
  CHECK(refuses("me@host:mod/x", "Leave out what ends with '@'"));
  CHECK(refuses("cordma://me@host/mod/x", "Leave out what ends with '@'"));
  CHECK(parse("host:mod/me@there").path == "me@there");
}
