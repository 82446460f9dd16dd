// Passes every file in the folders named on the command line to a fuzz target, once: the corpus as
// a regression test for builds without libFuzzer. Exits with 0 if the target survived all of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::filesystem::path& file) {
  // Printed before the run, so that the last line before a crash names the input.
  std::printf("%s\n", file.c_str());
  std::fflush(stdout);
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::uint8_t> bytes(chars.begin(), chars.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> folders(argv + 1, argv + argc);
  // The empty input is part of every corpus.
  LLVMFuzzerTestOneInput(nullptr, 0);
  std::size_t inputs = 1;
  for (const std::string& folder : folders) {
    if (!std::filesystem::is_directory(folder)) {
      std::fprintf(stderr, "%s is not a folder: the fuzz target has no corpus\n", folder.c_str());
      return 1;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      replay(entry.path());
      ++inputs;
    }
  }
  std::printf("%zu inputs replayed\n", inputs);
  return 0;
}
