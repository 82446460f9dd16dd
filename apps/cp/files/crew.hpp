// Threads for blocking work: listing, system calls for many small files, and digests of long files.
#pragma once

#include <cordma/runtime/operation.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace copy {

class crew;

// Completes when a thread of the crew has run the job. On cancellation a job that has not begun is
// withdrawn (canceled); a running one is notified, and runs to its end. REQUIRES: neither the job
// nor its crew is destroyed while it runs.
class [[nodiscard]] crew_job final : public cordma::operation<crew_job, void>,
                                     private cordma::inbox_item {
 public:
  // Called with the number of the thread, from 0, and a flag for the cancellation, which it checks
  // repeatedly. Does not throw.
  using function = void (*)(void* context, std::size_t thread,
                            const std::atomic<bool>& canceled) noexcept;
  crew_job(crew& those, function work, void* context) noexcept;
  ~crew_job() { CORDMA_REQUIRE(state() != phase::posted); }

 private:
  template <class, class, class>
  friend class cordma::operation;
  friend class crew;

  void do_start() noexcept;
  void do_cancel() noexcept;
  void take() noexcept {}

  crew& crew_;
  function work_;
  void* context_;
  std::atomic<bool> canceled_{false};
};

// A pool of threads, which are started one by one when there is work, and end with the crew. If no
// thread can be started the caller runs the job itself. Jobs begin in the order of their start.
// Used by the thread of one reactor, which outlives the crew.
class crew {
 public:
  // Returns the number of processors, from 2 to 8. More files in flight gained nothing on all file
  // systems that were measured.
  [[nodiscard]] static std::size_t usual_threads() noexcept;

  explicit crew(cordma::reactor& loop, std::size_t threads = usual_threads())
      : loop_(loop), most_(threads) {}
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  // REQUIRES: no job is running.
  ~crew();

  [[nodiscard]] std::size_t threads() const noexcept { return most_; }

  // `work(thread, canceled)` must not be moved or destroyed until the job is done.
  template <class Work>
  [[nodiscard]] crew_job run(Work& work) noexcept {
    static_assert(std::is_nothrow_invocable_v<Work&, std::size_t, const std::atomic<bool>&>);
    const crew_job::function call = [](void* context, std::size_t thread,
                                       const std::atomic<bool>& canceled) noexcept {
      (*static_cast<Work*>(context))(thread, canceled);
    };
    return crew_job(*this, call, &work);
  }

 private:
  friend class crew_job;
  void add(crew_job& job) noexcept;
  [[nodiscard]] bool withdraw(const crew_job& job) noexcept;
  void work(std::size_t number) noexcept;

  cordma::reactor& loop_;
  const std::size_t most_;
  std::vector<std::thread> threads_;
  std::mutex lock_;  // protects the members below
  std::condition_variable something_;
  std::deque<crew_job*> waiting_;
  std::size_t idle_ = 0;
  bool over_ = false;
};

}  // namespace copy
