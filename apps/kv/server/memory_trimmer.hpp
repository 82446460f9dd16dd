// memory_trimmer: returns freed memory to the system, outside of the workers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace kv {

// Walking the heap of malloc() takes long, so a separate thread does it and sleeps otherwise.
class memory_trimmer {
 public:
  memory_trimmer();
  ~memory_trimmer();
  memory_trimmer(const memory_trimmer&) = delete;
  memory_trimmer& operator=(const memory_trimmer&) = delete;

  // Any thread. Does not wait. Calls before the thread has begun count as one.
  void ask() noexcept;

 private:
  void run();

  std::mutex guard_;
  std::condition_variable asked_;
  bool wanted_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace kv
