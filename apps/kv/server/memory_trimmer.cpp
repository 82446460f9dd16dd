#include "memory_trimmer.hpp"

#include <cstddef>
#include <utility>

#include <malloc.h>

namespace kv {

memory_trimmer::memory_trimmer() : thread_([this] { run(); }) {}

memory_trimmer::~memory_trimmer() {
  {
    const std::scoped_lock hold(guard_);
    ends_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

void memory_trimmer::ask() noexcept {
  {
    const std::scoped_lock hold(guard_);
    wanted_ = true;
  }
  asked_.notify_one();
}

void memory_trimmer::run() {
  constexpr std::size_t kept_bytes = std::size_t{16} << 20;  // for later allocations
  std::unique_lock hold(guard_);
  for (;;) {
    asked_.wait(hold, [this] { return wanted_ || ends_; });
    if (ends_) return;
    wanted_ = false;
    hold.unlock();
    ::malloc_trim(kept_bytes);
    hold.lock();
  }
}

}  // namespace kv
