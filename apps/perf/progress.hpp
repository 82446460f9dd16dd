// A line on the terminal for runs that take longer than people wait without wondering.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace perf {

// Watches a counter from a thread of its own, so that the measured one need not look up. Says
// nothing unless told to, and nothing in the first two seconds.
class progress_line {
 public:
  enum class mode : std::uint8_t { silent, on_terminal };
  explicit progress_line(mode m) noexcept : mode_(m) {}
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  ~progress_line() { stop(); }

  // `done` outlives the next stop().
  void start(std::string what, const std::atomic<std::uint64_t>& done, std::uint64_t of);
  void stop();

 private:
  void watch(const std::string& what, const std::atomic<std::uint64_t>& done, std::uint64_t of);

  mode mode_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace perf
