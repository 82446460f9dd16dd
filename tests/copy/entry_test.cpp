// Names from a peer stay where they are put.
#include "../../apps/cp/entry.hpp"

#include <doctest/doctest.h>

using copy::stays_inside;

TEST_CASE("a name that leads out of the target is refused") {
  for (const char* bad :
       {"", "/", "/etc/passwd", "..", "../a", "a/..", "a/../b", "./a", "a/.", "a//b", "a/"}) {
    CAPTURE(bad);
    CHECK_FALSE(stays_inside(bad));
  }
  CHECK_FALSE(stays_inside(std::string("a\0b", 3)));
  CHECK_FALSE(stays_inside(std::string(256, 'x')));
  CHECK_FALSE(stays_inside(std::string(4096, 'x')));
}

TEST_CASE("odd names are fine") {
  for (const char* good : {".", "a", "...", "..a", "-rf", "a\nb", "\xff\xfe", "a/b/c", " "}) {
    CAPTURE(good);
    CHECK(stays_inside(good));
  }
  CHECK(stays_inside(std::string(255, 'x')));
}
