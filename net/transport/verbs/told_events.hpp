// Asynchronous events, passed from the thread that reads them to the thread of an adapter.
#pragma once

#include <cordma/net/transport/verbs/async_event.hpp>
#include <cordma/net/transport/verbs/limits.hpp>
#include <cordma/runtime/unique_fd.hpp>

#include <mutex>
#include <new>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

namespace cordma::transport::verbs {

// Thread-safe, except for the first two functions.
class told_events {
 public:
  // False, with errno set: no descriptor is left.
  [[nodiscard]] bool open() noexcept {
    fd_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return static_cast<bool>(fd_);
  }
  void close() noexcept { fd_.reset(); }
  // Readable while there are events.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  void push(const async_event& event) noexcept {
    {
      const std::lock_guard lock(mutex_);
      const bool needed =
          event.about == async_event::subject::own || event.what == IBV_EVENT_DEVICE_FATAL;
      // Its thread has not polled for a long time.
      if (all_.size() >= most_untold && !needed) return;
      try {
        all_.push_back(event);
      } catch (const std::bad_alloc&) {
        return;  // completions show the effect of the event as well
      }
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_.get(), &one, sizeof one));
  }
  [[nodiscard]] std::vector<async_event> take() noexcept {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_.get(), &count, sizeof count));
    std::vector<async_event> taken;
    const std::lock_guard lock(mutex_);
    taken.swap(all_);
    return taken;
  }
  template <class Predicate>
  void drop_if(Predicate is_stale) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, is_stale);
  }

 private:
  unique_fd fd_;
  std::mutex mutex_;
  std::vector<async_event> all_;
};

}  // namespace cordma::transport::verbs
