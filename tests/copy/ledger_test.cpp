// The finished files and the totals of a transfer that takes several connections.
#include "../../apps/cp/transfer/ledger.hpp"

#include <doctest/doctest.h>

using namespace copy;

namespace {

entry a_file() {
  entry e;
  e.path = "sub/file";
  e.size = 7;
  e.modified = {1000, 5};
  e.version = 3;
  return e;
}

tally a_tally(std::uint64_t n) {
  tally t;
  t.files = n;
  t.bytes = 10 * n;
  t.same = 100;
  t.directories = t.links = t.specials = t.deleted = t.damaged = n;
  t.resumed_bytes = 3 * n;
  t.manifest = 77;
  return t;
}

}  // namespace

TEST_CASE("a finished file is known by its path, size, time and version") {
  ledger done;
  CHECK_FALSE(done.has_finished(a_file()));
  done.add_finished(a_file());
  CHECK(done.has_finished(a_file()));
  entry other = a_file();
  other.mode = 0600;
  CHECK(done.has_finished(other));
  for (int what = 0; what < 5; ++what) {
    CAPTURE(what);
    other = a_file();
    if (what == 0) other.path += 'x';
    if (what == 1) ++other.size;
    if (what == 2) ++other.modified.s;
    if (what == 3) ++other.modified.ns;
    if (what == 4) ++other.version;
    CHECK_FALSE(done.has_finished(other));
  }
}

TEST_CASE(
    "the total adds up all connections; the unchanged files are those of the last connection") {
  ledger done;
  done.note(a_tally(1), 50);
  done.note(a_tally(2), 60);  // replaces that of the same connection
  CHECK(done.durable() == 60);
  done.end_connection();
  CHECK(done.durable() == 60);
  done.note(a_tally(4), 1);
  CHECK(done.durable() == 61);
  done.end_connection();
  done.end_connection();  // a failed attempt
  CHECK(done.durable() == 61);
  tally all = a_tally(4 + 2 + 8);
  all.same = 9;
  all.manifest = 5;
  tally last = a_tally(8);
  last.same = 9;
  last.manifest = 5;
  CHECK(done.total(last) == all);
}

TEST_CASE("progress never falls, even if a receiver reports less") {
  ledger done;
  done.note(a_tally(1), 50);
  done.note(a_tally(1), 20);
  CHECK(done.durable() == 50);
  done.end_connection();
  done.note(a_tally(1), 0);
  CHECK(done.durable() == 50);
}

TEST_CASE("each connection starts without deletions") {
  ledger done;
  done.note_deleting(true);
  CHECK(done.may_be_deleting());
  done.end_connection();
  CHECK_FALSE(done.may_be_deleting());
}
