// Counts of one build, kept in a file, and how others compare with them.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "path.hpp"

namespace instructions {

// What has to be alike for two counts to say anything about the code.
struct conditions {
  std::string compiler;   // "Clang 19.1.7"
  std::string build;      // "RelWithDebInfo"
  std::string c_library;  // "2.36"
  // "AuthenticAMD, clock source tsc": what the C library and the vDSO choose their ways by.
  std::string machine;
  plan counted;
};
// Of this program.
[[nodiscard]] conditions of_this_build(const plan& counted);
// Empty where they are alike; else a sentence that says how they differ.
[[nodiscard]] std::string difference(const conditions& baseline, const conditions& now);

struct figure {
  std::string name;
  double median = 0;  // instructions per operation, of the rounds; likewise the others
  double least = 0;
  double most = 0;
  double mean = 0;  // what is rare is in it, and not in the median
};
// REQUIRES a round.
[[nodiscard]] figure summary(const std::string& name, const counted& c);

struct tally {
  std::string date;    // UTC
  std::string commit;  // empty: nobody said
  conditions under;
  std::vector<figure> figures;
};

[[nodiscard]] nlohmann::ordered_json to_json(const tally& t);
// Throws std::runtime_error, with a sentence that names the file: it cannot be read, or is no tally.
[[nodiscard]] tally read_tally(const std::string& file);

enum class verdict : std::uint8_t { same, worse, better, unknown };
struct comparison {
  verdict is = verdict::unknown;  // no such path in the baseline
  figure before;
  double percent = 0;       // how much longer the median is
  double mean_percent = 0;  // ... and the mean
};
// Worse: the median or the mean is. Better: the median, and the mean is not worse.
[[nodiscard]] comparison compare(const tally& baseline, const figure& now,
                                 double tolerance_percent);
// The names of the baseline's paths that are not among `now`.
[[nodiscard]] std::vector<std::string> vanished(const tally& baseline,
                                                const std::vector<path>& now);

}  // namespace instructions
