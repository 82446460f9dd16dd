// Names from a peer do not lead out of the target.
#include "../../apps/cp/tree/entry.hpp"

#include <doctest/doctest.h>

using copy::problem;
using copy::problem_log;
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

TEST_CASE(
    "of problems without end as many are remembered as memory is for them, and of all what they "
    "come to") {
  problem_log all;
  CHECK_FALSE(all.any_failed());
  const problem long_one{problem::kind::left_out, std::string(4000, 'x'), std::string(60'000, 'y')};
  for (int i = 0; i < 1100; ++i) all.add(long_one);
  CHECK(all.size() < 1100);
  CHECK(all.size() > 1000);
  CHECK(all.size() + all.not_remembered() == 1100);
  CHECK_FALSE(all.any_failed());
  all.add({problem::kind::vanished, "a", "b"});
  CHECK(all.any_failed());
  CHECK_FALSE(all.has(problem::kind::failed));
}
