#include <support/applies.hpp>
#include <support/stage.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fnmatch.h>

namespace cordma::test {
namespace {

constexpr int skipped_status = 77;  // ctest's SKIP_RETURN_CODE

struct left_out {
  std::string name;
  std::string file;
  std::string reason;
};

std::vector<left_out>& all_left_out() {
  static std::vector<left_out> all;
  return all;
}

int cases_run = 0;

struct counting : doctest::IReporter {
  explicit counting(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override { ++cases_run; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

std::string here() { return std::string(transport::name(transport_under_test())); }

void print(const left_out& one) {
  std::printf("not applicable on %s: %s (%s)\n", here().c_str(), one.name.c_str(),
              one.reason.c_str());
}

// "process" of ".../process_test.cpp".
std::string stem_of(const std::string& file) {
  const std::size_t slash = file.rfind('/') + 1;
  return file.substr(slash, file.rfind("_test.cpp") - slash);
}

// `files` is a pattern of the shell, with its alternatives: "*/@(atomic|order)_test.cpp".
bool is_of(const std::string& files, const left_out& one) {
  return ::fnmatch(files.c_str(), one.file.c_str(), FNM_EXTMATCH) == 0;
}

// Declares a ctest test for each case left out of these files, in ctest's language, with the name
// and label of the file on this transport.
int declare(const char* program, const char* into, const std::string& files) {
  std::FILE* const out = std::fopen(into, "w");
  if (out == nullptr) return 1;
  const bool emulated = transport_under_test() == transport::kind::verbs;
  const std::string area =
      emulated ? "soft-roce." + here() + ".conformance." : "conformance." + here() + ".";
  const std::string labels = emulated ? "rdma-verbs;soft-roce" : "host;conformance;" + here();
  for (const left_out& one : all_left_out()) {
    if (!is_of(files, one)) continue;
    const std::string test = area + stem_of(one.file) + ": " + one.name;
    std::fprintf(out, "add_test([==[%s]==] \"%s\" [==[--left-out=%s]==])\n", test.c_str(), program,
                 one.name.c_str());
    std::fprintf(out,
                 "set_tests_properties([==[%s]==] PROPERTIES SKIP_RETURN_CODE %d "
                 "LABELS \"%s\" ENVIRONMENT CORDMA_TEST_TRANSPORT=%s)\n",
                 test.c_str(), skipped_status, labels.c_str(), here().c_str());
  }
  return std::fclose(out) == 0 ? 0 : 1;
}

int tell(std::string_view name) {
  for (const left_out& one : all_left_out()) {
    if (one.name != name) continue;
    print(one);
    return skipped_status;
  }
  std::printf("no case of this name is left out on %s\n", here().c_str());
  return 1;
}

}  // namespace

REGISTER_LISTENER("counting", 1, counting);

void applies::fill(doctest::detail::TestCase& about) const {
  if (here_) return;
  about.m_skip = true;
  all_left_out().push_back({about.m_name, about.m_file.c_str(), reason_});
}

applies not_on(transport::kind where, const char* reason) {
  return {transport_under_test() != where, reason};
}

applies not_on(std::initializer_list<transport::kind> where, const char* reason) {
  const bool among = std::find(where.begin(), where.end(), transport_under_test()) != where.end();
  return {!among, reason};
}

applies only_on(transport::kind where, const char* reason) {
  return {transport_under_test() == where, reason};
}

int run_cases(int argc, char** argv) {
  std::string files = "*";
  const char* declare_in = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view option) -> const char* {
      return argument.starts_with(option) ? argv[i] + option.size() : nullptr;
    };
    if (const char* into = value("--declare-left-out=")) declare_in = into;
    if (const char* name = value("--left-out=")) return tell(name);
    if (const char* pattern = value("--source-file=")) files = pattern;
  }
  if (declare_in != nullptr) return declare(argv[0], declare_in, files);
  doctest::Context context(argc, argv);
  const int status = context.run();
  bool any = false;
  for (const left_out& one : all_left_out()) {
    if (!is_of(files, one)) continue;
    print(one);
    any = true;
  }
  if (status != 0 || cases_run != 0 || context.shouldExit()) return status;
  if (any) return skipped_status;
  std::printf("no case matches: nothing was tested\n");
  return 1;
}

}  // namespace cordma::test
