// What is counted: paths, each an operation that is carried out again and again in rounds.
#pragma once

#include <cordma/cordma.hpp>

#include <functional>
#include <string>
#include <vector>

#include "../stepping/stepping.hpp"

namespace instructions {

// Rounds before those that are counted, so that nothing in them is done for the first time.
inline constexpr int warm_rounds = 32;

// So many rounds of so many operations are counted; of what comes 32 or 64 at a time, whole ones.
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

// The reactor by itself.
[[nodiscard]] std::vector<path> runtime_paths();
// Between two Workers that are turned by one thread, one after the other, or each when it is woken: the same
// operations take the same passes each time, however busy the machine is. Both sides are counted.
[[nodiscard]] std::vector<path> transport_paths(cordma::transport::kind over);
// On a device that answers at once and is not counted, all operations in one round, after one like it;
// none where the build has no verbs.
[[nodiscard]] std::vector<path> verbs_paths();

}  // namespace instructions
