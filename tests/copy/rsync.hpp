// The real rsync, which defines the meaning of the patterns.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace copy::test {

inline constexpr const char* no_rsync = "rsync is not installed: apt-get install rsync";

struct outcome {
  int status = -1;     // exit status; -1: not started, or ended by a signal
  std::string output;  // standard output
};

// Runs rsync to its end, in the C locale, as a child process.
[[nodiscard]] inline outcome run_rsync(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "rsync");
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const char* const searched = std::getenv("PATH");
  std::string path = "PATH=" + std::string(searched != nullptr ? searched : "/usr/bin:/bin");
  std::string locale = "LC_ALL=C";
  char* const environment[] = {path.data(), locale.data(), nullptr};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), environment);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  outcome o;
  char bytes[4096];
  for (ssize_t n = 0; failed == 0 && (n = ::read(ends[0], bytes, sizeof bytes)) > 0;) {
    o.output.append(bytes, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  if (failed == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status)) {
    o.status = WEXITSTATUS(status);
  }
  return o;
}

[[nodiscard]] inline bool has_rsync() { return run_rsync({"--version"}).status == 0; }

}  // namespace copy::test
