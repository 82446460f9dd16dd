// Counts of one build, stored in a file, and their comparison with others.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "path.hpp"

namespace instructions {

// Conditions that must be equal for two counts to be comparable.
struct conditions {
  std::string compiler;   // "Clang 19.1.7"
  std::string build;      // "RelWithDebInfo"
  std::string c_library;  // "2.36"
  // "AuthenticAMD, clock source tsc": the properties by which the C library and the vDSO select
  // their code.
  std::string machine;
  plan counted;
};
// The conditions of this program.
[[nodiscard]] conditions of_this_build(const plan& counted);
// Empty if they are equal; else a sentence with the difference.
[[nodiscard]] std::string difference(const conditions& baseline, const conditions& now);

struct figure {
  std::string name;
  double median = 0;  // instructions per operation, over the rounds; so are the others
  double least = 0;
  double most = 0;
  double mean = 0;  // includes rare work, which the median does not
};
// REQUIRES a round.
[[nodiscard]] figure summary(const std::string& name, const counted& c);

struct tally {
  std::string date;    // UTC
  std::string commit;  // empty: not specified
  conditions under;
  std::vector<figure> figures;
};

[[nodiscard]] nlohmann::ordered_json to_json(const tally& t);
// Throws std::runtime_error, with a sentence that names the file, if it cannot be read or is no
// tally.
[[nodiscard]] tally read_tally(const std::string& file);

enum class verdict : std::uint8_t { same, worse, better, unknown };
struct comparison {
  verdict is = verdict::unknown;  // no such path in the baseline
  figure before;
  double percent = 0;       // increase of the median
  double mean_percent = 0;  // increase of the mean
};
// Worse: the median or the mean is worse. Better: the median is, and the mean is not worse.
[[nodiscard]] comparison compare(const tally& baseline, const figure& now,
                                 double tolerance_percent);
// The names of the baseline's paths that are not among `now`.
[[nodiscard]] std::vector<std::string> vanished(const tally& baseline,
                                                const std::vector<path>& now);

}  // namespace instructions
