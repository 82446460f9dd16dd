// bench-instructions: counts the instructions in user space of an operation on selected paths, and
// compares them with a baseline. The counts do not depend on the load of the machine, so that a
// test can check them.
#include "instructions/baseline.hpp"
#include "instructions/path.hpp"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

namespace {

using namespace instructions;

constexpr int exit_worse = 1;
constexpr int exit_usage = 2;
constexpr int exit_cannot_count = 77;  // the exit code that marks a test as skipped
constexpr const char* program = "bench-instructions";

struct options {
  plan how{.rounds = 3, .operations = 30};
  std::string only;
  std::string json_to;
  std::string profile_to;
  std::string baseline;
  std::string write_baseline_to;
  std::string commit;
  double tolerance_percent = 2;
  bool lists = false;
};

constexpr const char* footer =
    R"help(Each path is counted in a process of its own, which traps after each instruction: exact, and the same
beside other programs, but ten thousand times as slow. Both sides of a connection are in it and are
counted; the figure is the median of the rounds. Compare it only with the same path of the same
compiler, build type and C library: it is no time, and a path with fewer instructions can be slower.
Over verbs all that is counted is one round, after one like it that is not.

Hold to a baseline, as the test bench.instructions does: neither median nor mean of the rounds, which
has what is rare in it, may be longer, and without --only each path of the baseline must be there:
  bench-instructions --baseline bench/baseline/instructions.json
After a change that is worth what it costs, or that made paths shorter, replace it:
  bench-instructions --write-baseline bench/baseline/instructions.json --commit "$(git rev-parse --short HEAD)"
Find out what grew: the profiles of two builds, by instruction, for llvm-symbolizer or addr2line:
  bench-instructions --only '^shm\.tag' --profile FILE

Ends with 0; with 1 where a path has become longer, is new or is gone, or something failed; with 2
where the options are wrong; with 77 where nothing can be counted, or the baseline is of another
compiler, build type, C library or number of rounds or operations.)help";

void declare(CLI::App& app, options& o) {
  app.add_flag("--list", o.lists, "the paths, each with what an operation of it is");
  CLI::Option* const only =
      app.add_option("--only", o.only, "the paths whose name this regular expression is found in")
          ->type_name("REGEX");
  app.add_option("-n,--operations", o.how.operations,
                 "operations of a round; of those in flight together always 32")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--rounds", o.how.rounds, "rounds, after 32 that are not counted; verbs: one")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--json", o.json_to, "write the figures as JSON; - is standard output")
      ->type_name("FILE|-");
  app.add_option("--profile", o.profile_to,
                 "write how often which instruction was carried out: times, file and address")
      ->type_name("FILE|-");
  CLI::Option* const baseline =
      app.add_option("--baseline", o.baseline, "compare with the figures of that file")
          ->type_name("FILE")
          ->check(CLI::ExistingFile);
  app.add_option("--tolerance", o.tolerance_percent, "percent that a path may be longer")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str()
      ->needs(baseline);
  CLI::Option* const write = app.add_option("--write-baseline", o.write_baseline_to,
                                            "write the figures of all paths there")
                                 ->type_name("FILE")
                                 ->excludes(only);
  app.add_option("--commit", o.commit, "what the new baseline was built of, to be noted in it")
      ->needs(write);
  app.footer(footer);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  (void)std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

std::vector<path> all_paths() {
  std::vector<path> all = runtime_paths();
  for (std::vector<path> more : {transport_paths(cordma::transport::kind::shm),
                                 transport_paths(cordma::transport::kind::tcp), verbs_paths()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<path> matching(const std::string& regex) {
  std::vector<path> chosen = all_paths();
  const std::regex wanted(regex);
  std::erase_if(chosen, [&wanted](const path& p) { return !std::regex_search(p.name, wanted); });
  return chosen;
}

bool write_file(const std::string& name, const std::function<void(std::ostream&)>& content) {
  if (name.empty()) return true;
  std::ofstream file;
  if (name != "-") file.open(name);
  std::ostream& out = name == "-" ? std::cout : file;
  content(out);
  out.flush();
  if (!out) std::fprintf(stderr, "%s: cannot write %s\n", program, name.c_str());
  return static_cast<bool>(out);
}

// The stream for the readable table: not the one of the JSON output.
std::FILE* table(const options& o) {
  return o.json_to == "-" || o.profile_to == "-" ? stderr : stdout;
}

void print(std::FILE* to, const figure& f, const path& p) {
  std::fprintf(to, "%-22s %9.1f  %s", f.name.c_str(), f.median, p.about.c_str());
  if (f.least != f.most) std::fprintf(to, " (%.1f to %.1f)", f.least, f.most);
  std::fprintf(to, "\n");
  std::fflush(to);
}

const char* word(verdict v) {
  switch (v) {
    case verdict::same: return "";
    case verdict::worse: return "LONGER";
    case verdict::better: return "better: commit a new baseline";
    case verdict::unknown: return "NOT IN THE BASELINE";
  }
  return "?";
}

void print(std::FILE* to, const figure& f, const comparison& c) {
  std::fprintf(to, "%-22s %9.1f before %9.1f now %+7.2f %%  %s", f.name.c_str(), c.before.median,
               f.median, c.percent, word(c.is));
  if (c.is == verdict::worse && c.mean_percent > c.percent) {
    std::fprintf(to, " in the mean: %.1f before, %.1f now, %+.2f %%", c.before.mean, f.mean,
                 c.mean_percent);
  }
  std::fprintf(to, "\n");
  std::fflush(to);
}

// Reports paths of the baseline that cannot be counted: a missing path is no longer checked. A
// build without verbs may lack those of verbs.
bool are_missing(const tally& baseline) {
  std::vector<std::string> names = vanished(baseline, all_paths());
  if (verbs_paths().empty()) {
    std::erase_if(names, [](const std::string& name) { return name.starts_with("verbs."); });
  }
  if (names.empty()) return false;
  std::string all;
  for (const std::string& name : names) all += ' ' + name;
  std::fprintf(
      stderr,
      "%s: the baseline of %s (%s) has paths that are not counted any more:%s\n"
      "Bring them back; or, where they are gone or renamed for good, commit a new baseline "
      "(%s --help has the command). To compare some paths only: --only REGEX.\n",
      program, baseline.date.c_str(), baseline.commit.c_str(), all.c_str(), program);
  return true;
}

// True if the program succeeds.
bool judge(const options& o, const tally& baseline, const std::vector<std::string>& failed) {
  if (failed.empty()) return true;
  std::string names;
  for (const std::string& name : failed) names += ' ' + name;
  std::fprintf(stderr,
               "%s: longer than the baseline of %s (%s) by more than %g %%, or not in it:%s\n"
               "Where the change is worth that, or the path is new, commit a new baseline; else "
               "see what grew "
               "by --profile.\n%s --help has both commands.\n",
               program, baseline.date.c_str(), baseline.commit.c_str(), o.tolerance_percent,
               names.c_str(), program);
  return false;
}

int run(const options& o, const std::vector<path>& chosen) {
  const conditions here = of_this_build(o.how);
  tally baseline;
  if (!o.baseline.empty()) {
    baseline = read_tally(o.baseline);
    const std::string differs = difference(baseline.under, here);
    if (!differs.empty()) {
      std::fprintf(stderr, "%s: %s\n", program, differs.c_str());
      return exit_cannot_count;
    }
    if (o.only.empty() && are_missing(baseline)) return exit_worse;
  }
  tally now{.date = today(), .commit = o.commit, .under = here, .figures = {}};
  stepping::profile where;
  std::vector<std::string> failed;
  for (const path& p : chosen) {
    const counted c = p.count(o.how);
    for (const auto& [address, times] : c.where) where[address] += times;
    const figure& f = now.figures.emplace_back(summary(p.name, c));
    if (o.baseline.empty()) {
      print(table(o), f, p);
      continue;
    }
    const comparison against = compare(baseline, f, o.tolerance_percent);
    print(table(o), f, against);
    if (against.is == verdict::worse || against.is == verdict::unknown) failed.push_back(f.name);
  }
  const auto as_json = [&now](std::ostream& to) { to << to_json(now).dump(2) << '\n'; };
  bool written = write_file(o.json_to, as_json);
  written = write_file(o.write_baseline_to, as_json) && written;
  written = write_file(o.profile_to, [&where](std::ostream& to) { stepping::write(to, where); }) &&
            written;
  return judge(o, baseline, failed) && written ? 0 : exit_worse;
}

// The C library then copies as the oldest x86-64 processor does, so that all machines count alike;
// it reads the setting once, before main. Returns if the setting is present.
void use_common_instructions(char** argv) {
  constexpr const char* name = "GLIBC_TUNABLES";
  constexpr const char* value =
      "glibc.cpu.hwcaps=-AVX512VL,-AVX512BW,-AVX512F,-AVX2,-AVX,-SSSE3,-ERMS,-FSRM,-RTM";
  const char* const set = std::getenv(name);
  if (set != nullptr && std::string(set) == value) return;
  ::setenv(name, value, 1);
  ::execv("/proc/self/exe", argv);
  std::fprintf(stderr, "%s: it cannot start itself anew, so that others may count otherwise\n",
               program);
}

int usage_error(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program, why.c_str());
  return exit_usage;
}

int start(int argc, char** argv) {
  CLI::App app("How many instructions in user space an operation takes, path by path.", program);
  options o;
  declare(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return usage_error(std::string(e.what()) + "; --help explains the options");
  }
  std::vector<path> chosen;
  try {
    chosen = matching(o.only);
  } catch (const std::regex_error&) {
    return usage_error("--only: '" + o.only + "' is no regular expression");
  }
  if (chosen.empty()) return usage_error("no path is called '" + o.only + "'; --list names them");
  if (o.lists) {
    for (const path& p : chosen) std::printf("%-22s %s\n", p.name.c_str(), p.about.c_str());
    return 0;
  }
  use_common_instructions(argv);
  if (const char* const missing = stepping::missing(); missing != nullptr) {
    std::fprintf(stderr, "%s: %s\n", program, missing);
    return exit_cannot_count;
  }
  return run(o, chosen);
}

}  // namespace

int main(int argc, char** argv) try { return start(argc, argv); } catch (const std::exception& e) {
  std::fprintf(stderr, "%s: %s\n", program, e.what());
  return exit_worse;
}
