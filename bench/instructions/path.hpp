// The counted paths: each is an operation that is repeated in rounds.
#pragma once

#include <cordma/cordma.hpp>

#include <functional>
#include <string>
#include <vector>

#include "../stepping/stepping.hpp"

namespace instructions {

// Rounds before the counted ones, so that no counted code runs for the first time.
inline constexpr int warm_rounds = 32;

// The number of counted rounds, and of operations in each; operations in batches of 32 or 64 use
// whole batches.
struct plan {
  int rounds = 0;
  int operations = 0;
};

struct counted {
  std::vector<double> each;  // instructions per operation, of every round
  stepping::profile where;
};

struct path {
  std::string name;   // shm.round_trip_8
  std::string about;  // one operation of it, in words
  std::function<counted(const plan&)> count;
};

[[nodiscard]] counted per_operation(stepping::counted c, int operations_of_a_round);

// Paths of the reactor alone.
[[nodiscard]] std::vector<path> runtime_paths();
// Paths between two Workers that are run by one thread, alternately or each when it is woken: the
// same operations take the same passes each time, independent of the load of the machine. Both
// sides are counted.
[[nodiscard]] std::vector<path> transport_paths(cordma::transport::kind over);
// Paths on a device that answers at once and is not counted. All operations are one round, after a
// round of warm-up; empty if the build has no verbs.
[[nodiscard]] std::vector<path> verbs_paths();

}  // namespace instructions
