#include "progress.hpp"

#include <chrono>
#include <cstdio>

namespace perf {

using namespace std::chrono_literals;

void progress_line::start(std::string what, const std::atomic<std::uint64_t>& done,
                          std::uint64_t of) {
  if (mode_ == mode::silent) return;
  stop();
  stopping_ = false;
  watcher_ = std::thread([this, what = std::move(what), &done, of] { watch(what, done, of); });
}

void progress_line::stop() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  watcher_.join();
}

void progress_line::watch(const std::string& what, const std::atomic<std::uint64_t>& done,
                          std::uint64_t of) {
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (auto pause = 2000ms; !changed_.wait_for(lock, pause, [this] { return stopping_; });
       pause = 250ms) {
    const double share = static_cast<double>(done.load(std::memory_order_relaxed)) /
                         static_cast<double>(of == 0 ? 1 : of);
    std::fprintf(stderr, "\r%s: %3.0f %% \x1b[K", what.c_str(), share * 100);
    shown = true;
  }
  if (shown) std::fputs("\r\x1b[K", stderr);
}

}  // namespace perf
