// memory_trimmer: gives memory that was freed back to the system, beside the workers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace kv {

// Looking through all that malloc() has takes long: a thread of its own does it, and sleeps otherwise.
class memory_trimmer {
 public:
  memory_trimmer();
  ~memory_trimmer();
  memory_trimmer(const memory_trimmer&) = delete;
  memory_trimmer& operator=(const memory_trimmer&) = delete;

  // Any thread. Does not wait; asked again before it has begun, it does it once.
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
