// Compares reports of RDMA devices with the expected lines.
#pragma once

#include "../../apps/info/report.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace reported {

using lines = std::vector<std::string>;

// Splits `text` into lines and normalizes their white space.
inline lines lines_of(const std::string& text) {
  lines all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string plain;
    for (std::string word; words >> word;) plain += (plain.empty() ? "" : " ") + word;
    all.push_back(plain);
  }
  return all;
}

inline lines operator+(lines a, const lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Compares line by line, so that a failure names the wrong line.
inline void are(const lines& got, const lines& expected) {
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    CAPTURE(i);
    CHECK(got[i] == expected[i]);
  }
  CHECK(got.size() == expected.size());
}

}  // namespace reported
