#include "../verbs_instructions/on_cordma.hpp"
#include "path.hpp"

namespace instructions {
namespace {

// All in one round: the device behaves the same each time.
int whole_batches(const plan& p, int at_a_time) {
  return (p.rounds * p.operations + at_a_time - 1) / at_a_time * at_a_time;
}

path made(stand_in::what op, const char* suffix, const char* how, const stand_in::plan& shape) {
  const std::string word = stand_in::names[static_cast<std::size_t>(op)];
  stand_in::plan of = shape;
  of.op = op;
  return {.name = "verbs." + word + "_64" + suffix,
          .about = word + " of 64 bytes, " + how,
          .count = [of](const plan& p) {
            stand_in::plan counted = of;
            counted.operations = whole_batches(p, of.at_a_time);
            return per_operation(stand_in::count_cordma(counted), counted.operations);
          }};
}

}  // namespace

std::vector<path> verbs_paths() {
  const stand_in::plan alone{.op = {}, .operations = 0, .at_a_time = 1, .keeps = false};
  const stand_in::plan kept{
      .op = {}, .operations = 0, .at_a_time = stand_in::side_by_side, .keeps = true};
  std::vector<path> all;
  for (const stand_in::what op :
       {stand_in::what::write, stand_in::what::send, stand_in::what::recv}) {
    all.push_back(made(op, "", "made, awaited and gone", alone));
    all.push_back(made(op, "_kept", "64 objects again and again", kept));
  }
  return all;
}

}  // namespace instructions
