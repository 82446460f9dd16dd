// Entries that a client accepts from a server, and entries that it refuses.
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "../../apps/cp/protocol/asked.hpp"

using namespace copy;

namespace {

entry entry_at(std::string path, entry_kind kind = entry_kind::file) {
  entry e;
  e.kind = kind;
  e.path = std::move(path);
  return e;
}
entry directory_at(std::string path) { return entry_at(std::move(path), entry_kind::directory); }

}  // namespace

TEST_CASE("of a list what it names may come, what leads there, and with -r what is in it") {
  transfer_options o;
  o.listed = true;
  for (const bool recursive : {false, true}) {
    CAPTURE(recursive);
    o.recursive = recursive;
    const filter all;
    asked a(o, all);
    a.only({{}, {"f", "d/e/x", "d/e-y", "whole"}});
    for (const char* const path : {"d", "d/e"}) CHECK(a.what_is_wrong(directory_at(path)).empty());
    for (const char* const path : {"f", "d/e/x", "d/e-y", "whole"}) {
      CHECK(a.what_is_wrong(entry_at(path)).empty());
    }
    CHECK(a.what_is_wrong(directory_at("whole")).empty());
    CHECK(a.what_is_wrong(entry_at("whole/in/it")).empty() == recursive);
    for (const char* const path : {"d", "d/e", "d/e/y", "g", "fe", "who", "wholes/x", "d/e-"}) {
      CHECK(a.what_is_wrong(entry_at(path)) == "a name");
    }
    for (const char* const path : {"g", "d/f", "d/e/z", "."}) {
      CHECK(a.what_is_wrong(directory_at(path)) == "a name");
    }
  }
}

TEST_CASE("nothing may come of a directory that a rule excludes, whatever came before") {
  transfer_options o;
  o.recursive = true;
  filter rules;
  rules.add(filter::decision::include, "/d/in/keep.o");
  rules.add(filter::decision::exclude, "*.o");
  rules.add(filter::decision::exclude, "/d/out/");
  asked a(o, rules);
  CHECK(a.what_is_wrong(entry_at("a.o")).empty());  // without only(), the sender applies the rules
  a.only({});
  constexpr std::string_view excluded = "what the rules exclude";
  for (int again = 0; again < 2; ++again) {
    CHECK(a.what_is_wrong(directory_at(".")).empty());
    CHECK(a.what_is_wrong(directory_at("d")).empty());
    CHECK(a.what_is_wrong(entry_at("d/in/keep.o")).empty());
    CHECK(a.what_is_wrong(entry_at("d/in/other.o")) == excluded);
    CHECK(a.what_is_wrong(directory_at("d/out")) == excluded);
    CHECK(a.what_is_wrong(entry_at("d/out")).empty());  // the rule is for directories
    CHECK(a.what_is_wrong(entry_at("d/out/x")) == excluded);
    CHECK(a.what_is_wrong(entry_at("d/out/deep/x")) == excluded);
    CHECK(a.what_is_wrong(entry_at("d/in/x")).empty());
    CHECK(a.what_is_wrong(entry_at("x.o/y")) == excluded);
    CHECK(a.what_is_wrong(entry_at("y")).empty());
  }
}
