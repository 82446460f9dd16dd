// The message of a check that fails.
#pragma once

#include <array>
#include <csignal>
#include <functional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace cordma::testing {

// Runs `broken` in a separate process and returns its stderr if it was aborted, otherwise an empty
// string. All objects of cordma that it uses are created there.
[[nodiscard]] inline std::string last_words(const std::function<void()>& broken) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);
    broken();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 512> part{};
  for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;) {
    said.append(part.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return aborted ? said : std::string();
}

// True if `words` contains `what`.
[[nodiscard]] inline bool says(const std::string& words, const std::string& what) {
  return words.find(what) != std::string::npos;
}

}  // namespace cordma::testing
