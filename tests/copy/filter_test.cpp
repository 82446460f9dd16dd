// Patterns, tested alone and compared with the real rsync.
#include "../../apps/cp/tree/filter.hpp"

#include "rsync.hpp"
#include "seeds.hpp"
#include "temporary_tree.hpp"

#include <doctest/doctest.h>
#include <support/applies.hpp>

#include <algorithm>
#include <iterator>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

using namespace copy;
using namespace copy::test;
using cordma::test::applies;

namespace {

filter only(std::string_view pattern) {
  filter f;
  f.add(filter::decision::exclude, pattern);
  return f;
}

bool file_matches(std::string_view pattern, std::string_view path) {
  return only(pattern).excludes(path, false);
}

bool directory_matches(std::string_view pattern, std::string_view path) {
  return only(pattern).excludes(path, true);
}

std::string refusal(std::string_view pattern) {
  try {
    (void)only(pattern);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

// ---- compared with rsync ----

class dice {
 public:
  explicit dice(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return random_() % n; }
  template <std::size_t N>
  const char* one_of(const char* const (&all)[N]) {
    return all[below(N)];
  }

 private:
  std::mt19937_64 random_;
};

// Few letters, so that patterns often match, and the special characters of patterns.
constexpr const char* names[] = {"a", "b",    "ab", "ba", "aab", "a.o", "b.o", "c-d", "[ab]", "a*",
                                 "?", "a\\b", "-",  "!a", "B",   "a b", "]",   "**",  "^",    "7"};
constexpr const char* pieces[] = {"a",     "b",    "ab",      ".o",          "*",
                                  "*",     "*",    "**",      "**",          "***",
                                  "?",     "/",    "/",       "/",           "[ab]",
                                  "[!a]",  "[^b]", "[a-c]",   "[]a]",        "[!]-]",
                                  "\\*",   "\\a",  "\\\\",    "a/b",         "-",
                                  " ",     "[a-]", "c-d",     "[[:alpha:]]", "[[:digit:][:upper:]]",
                                  "[\\]]", "[[:]", "[a\\-c]", "**/",         "/**/",
                                  "/*/",   "]"};

void grow(dice& d, const temporary_tree& tree, const std::string& in, int depth) {
  const std::size_t count = 3 + d.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = in + '/' + d.one_of(names);
    if (std::filesystem::exists(tree.at(path))) continue;
    if (depth > 0 && d.below(2) == 0) {
      tree.directory(path);
      grow(d, tree, path, depth - 1);
    } else {
      tree.file(path);
    }
  }
}

std::string random_pattern(dice& d) {
  std::string p = d.below(4) == 0 ? "/" : "";
  for (std::size_t n = 1 + d.below(4); n > 0; --n) {
    p += d.below(3) == 0 ? d.one_of(names) : d.one_of(pieces);
  }
  switch (d.below(8)) {
    case 0: return p + '/';
    case 1: return p + "/***";
    case 2: return p + "/**";
    default: return p;
  }
}

struct rules {
  filter chosen;
  std::vector<std::string> for_rsync;
};

// A pattern that cannot match is an error here and ignored by rsync, so it is left out for both.
rules random_rules(dice& d) {
  rules r;
  for (std::size_t n = 1 + d.below(6); n > 0; --n) {
    const bool in = d.below(3) == 0;
    const std::string pattern = random_pattern(d);
    try {
      r.chosen.add(in ? filter::decision::include : filter::decision::exclude, pattern);
    } catch (const std::invalid_argument&) {
      continue;
    }
    r.for_rsync.push_back((in ? "--filter=+ " : "--filter=- ") + pattern);
  }
  return r;
}

using lines = std::vector<std::string>;

void walk(const filter& chosen, const std::string& directory, const std::string& prefix,
          lines& into) {
  for (const auto& e : std::filesystem::directory_iterator(directory)) {
    const std::string path = prefix + e.path().filename().string();
    if (chosen.excludes(path, e.is_directory())) continue;
    into.push_back(e.is_directory() ? path + '/' : path);
    if (e.is_directory()) walk(chosen, e.path().string(), path + '/', into);
  }
}

std::string sorted(lines all) {
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& line : all) text += line + '\n';
  return text;
}

std::string listed_by_rsync(lines arguments, const std::string& source, const std::string& target) {
  arguments.insert(arguments.begin(), {"-rn", "--out-format=%n"});
  arguments.insert(arguments.end(), {source, target});
  const outcome o = run_rsync(std::move(arguments));
  CHECK(o.status == 0);
  std::istringstream in(o.output);
  lines all;
  for (std::string line; std::getline(in, line);) {
    if (line != "./") all.push_back(line);
  }
  return sorted(std::move(all));
}

}  // namespace

TEST_CASE("a pattern without '/' is matched with the last name") {
  CHECK(file_matches("a", "a"));
  CHECK(file_matches("a", "x/y/a"));
  CHECK_FALSE(file_matches("a", "ba"));
  CHECK_FALSE(file_matches("a", "a/b"));
  CHECK(file_matches("*.o", "x/y.o"));
  CHECK(directory_matches("*.o", "y.o"));
  CHECK(file_matches("*", "x/y"));
}

TEST_CASE("a pattern with a '/' inside is matched with as many names at the end") {
  CHECK(file_matches("a/b", "a/b"));
  CHECK(file_matches("a/b", "x/a/b"));
  CHECK_FALSE(file_matches("a/b", "xa/b"));
  CHECK_FALSE(file_matches("a/b", "b"));
  CHECK(file_matches("a/*", "x/a/b"));
  CHECK_FALSE(file_matches("a/*", "a/x/b"));
}

TEST_CASE("a pattern with a '/' in front is matched from the top") {
  CHECK(file_matches("/a", "a"));
  CHECK_FALSE(file_matches("/a", "x/a"));
  CHECK(file_matches("/a*", "ab"));
  CHECK_FALSE(file_matches("/a*", "x/ab"));
  CHECK_FALSE(file_matches("/a*c", "ab/c"));
  CHECK(file_matches("/a/**", "a/x/b"));
  CHECK_FALSE(directory_matches("/a/**", "a"));
}

TEST_CASE("a pattern with a '/' behind is matched with directories") {
  CHECK(directory_matches("a/", "x/a"));
  CHECK_FALSE(file_matches("a/", "a"));
  CHECK(directory_matches("*/", "x/a"));
  CHECK_FALSE(file_matches("*/", "a"));
}

TEST_CASE("'**' goes over '/', and '***' behind a '/' has the directory itself") {
  CHECK(file_matches("a**b", "a/x/b"));
  CHECK(file_matches("x/**", "w/x/a"));
  CHECK(file_matches("**/a", "a"));
  CHECK(file_matches("**/a", "x/y/a"));
  CHECK(directory_matches("a/***", "a"));
  CHECK_FALSE(file_matches("a/***", "a"));
  CHECK(file_matches("a/***", "a/x/y"));
  CHECK(directory_matches("a/***/", "a"));
  CHECK(directory_matches("a/***/", "a/x"));
  CHECK_FALSE(file_matches("a/***/", "a/x"));
}

TEST_CASE("'?' and brackets are one byte, and no '/'") {
  CHECK(file_matches("?", "x/\xff"));
  CHECK_FALSE(file_matches("/x?y", "x/y"));
  CHECK_FALSE(file_matches("/x[!a]y", "x/y"));
  CHECK(file_matches("[a-c]", "b"));
  CHECK_FALSE(file_matches("[!a-c]", "b"));
  CHECK(file_matches("[^a-c]", "d"));
  CHECK(file_matches("[]]", "]"));
  CHECK(file_matches("[a-]", "-"));
  CHECK(file_matches("[[:digit:]x]", "7"));
  CHECK(file_matches("[\\]]", "]"));
}

TEST_CASE("'\\' takes the next byte as it is, where there is a wildcard at all") {
  CHECK(file_matches("\\*a*", "*ab"));
  CHECK_FALSE(file_matches("\\*a*", "xab"));
  CHECK(file_matches("a\\b", "a\\b"));
  CHECK_FALSE(file_matches("a\\b", "ab"));
}

TEST_CASE("the first rule that matches decides, and what none matches is in") {
  filter f;
  CHECK(f.empty());
  CHECK_FALSE(f.excludes("a", false));
  f.add(filter::decision::include, "*.c");
  f.add(filter::decision::exclude, "/t*");
  f.add(filter::decision::exclude, "*.c");
  CHECK_FALSE(f.empty());
  CHECK_FALSE(f.excludes("t.c", false));
  CHECK(f.excludes("t.o", false));
  CHECK_FALSE(f.excludes("a.o", false));
}

TEST_CASE("the target itself is never excluded") { CHECK_FALSE(directory_matches("*", ".")); }

TEST_CASE("a pattern that cannot match is refused, saying why") {
  CHECK(refusal("").find("empty") != std::string::npos);
  CHECK(refusal("/").find("no name") != std::string::npos);
  CHECK(refusal("//").find("no name") != std::string::npos);
  CHECK(refusal("a[b").find("\"a[b\" has a '['") != std::string::npos);
  CHECK(refusal("[[:nothing:]]").find("class") != std::string::npos);
  CHECK(refusal("*\\").find("ends with a '\\'") != std::string::npos);
  CHECK(refusal(std::string(4096, 'x')).find("longer") != std::string::npos);
  CHECK(refusal(std::string(4095, 'x')).empty());
  CHECK(refusal("a\\").empty());
  CHECK(refusal("[]a]").empty());
}

TEST_CASE("a pattern of many runs is decided at once") {
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a**a";
  const std::string path(4000, 'a');
  CHECK(file_matches(stars, path));
  CHECK_FALSE(file_matches(stars + 'b', path));
  CHECK_FALSE(file_matches('x' + stars, path));
}

TEST_CASE("what patterns leave is what rsync leaves [random trees and patterns]" *
          applies(has_rsync(), no_rsync)) {
  const seed_range seeds = seeds_under_test(100);
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const std::string replay = "CORDMA_TEST_SEEDS=" + std::to_string(seed);
    CAPTURE(replay);
    dice d(seed);
    const temporary_tree tree;
    tree.directory("to");
    tree.directory("ab");
    grow(d, tree, "ab", 3);
    const rules r = random_rules(d);
    const std::string patterns = sorted(r.for_rsync);
    CAPTURE(patterns);

    lines inside;
    walk(r.chosen, tree.at("ab"), "", inside);
    REQUIRE(sorted(inside) == listed_by_rsync(r.for_rsync, tree.at("ab/"), tree.at("to")));

    lines itself;
    if (!r.chosen.excludes("ab", true)) {
      itself.push_back("ab/");
      walk(r.chosen, tree.at("ab"), "ab/", itself);
    }
    REQUIRE(sorted(itself) == listed_by_rsync(r.for_rsync, tree.at("ab"), tree.at("to")));
  }
}
