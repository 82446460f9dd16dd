// The progress line of a transfer, for terminals of any width.
#include "../../apps/cp/cli/progress_line.hpp"

#include <doctest/doctest.h>

using namespace copy;

namespace {

progress_figures a_third() {
  progress_figures f;
  f.done = 13.1e6;
  f.found = 41.9e6;
  f.all_found = true;
  f.rate = 1.0e6;
  f.files_found = 1;
  return f;
}

}  // namespace

TEST_CASE("what matters most stays where there is no room for all") {
  const progress_figures f = a_third();
  CHECK(progress_text(f) == " 31 %  13.1 MB of 41.9 MB, 1.0 MB/s, 28 s left, 0/1 files");
  CHECK(progress_line(f, 57) == progress_text(f));
  CHECK(progress_line(f, 56) == " 31 %  13.1 MB of 41.9 MB, 1.0 MB/s, 28 s left");
  CHECK(progress_line(f, 39) == " 31 %  1.0 MB/s, 28 s left");
  CHECK(progress_line(f, 19) == "31% 1.0MB/s 28s");
  CHECK(progress_line(f, 14) == "31% 1.0MB/s");
  CHECK(progress_line(f, 10) == "31%");
  CHECK(progress_line(f, 2).empty());
}

TEST_CASE("no line is longer than its terminal, and 20 columns have share, rate and time") {
  for (const double rate : {0.5, 999.0, 123e3, 99.9e6, 999e6, 12e9}) {
    for (const double found : {1.0, 41.9e6, 999e9, 1e15}) {
      progress_figures f = a_third();
      f.rate = rate;
      f.found = found;
      f.done = found * 0.999;
      for (std::size_t width = 0; width < 200; ++width) {
        CHECK(progress_line(f, width).size() <= width);
      }
      const std::string line = progress_line(f, 19);
      CHECK_MESSAGE(line.starts_with("100% "), line);
      CHECK_MESSAGE(line.find("B/s ") != std::string::npos, line);
    }
  }
}

TEST_CASE("a wide terminal has a bar") {
  progress_figures f = a_third();
  CHECK(progress_line(f, 79) ==
        " 31 %  [=====>            ]  13.1 MB of 41.9 MB, 1.0 MB/s, 28 s left, 0/1 files");
  CHECK(progress_line(f, 300).size() == 57 + 4 + 40);
  f.done = f.found;
  CHECK(progress_line(f, 300).find('>') == std::string::npos);
}

TEST_CASE("nothing is said of what is not known") {
  progress_figures f = a_third();
  f.all_found = false;
  CHECK(progress_text(f) == " 31 %  13.1 MB of at least 41.9 MB, 1.0 MB/s, 0/1 files");
  CHECK(progress_line(f, 14) == "31% 1.0MB/s");
  f.found = f.done = 0;
  CHECK(progress_line(f, 79) == "0 B of at least 0 B, 1.0 MB/s, 0/1 files");
}
