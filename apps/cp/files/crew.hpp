// Threads for what blocks: listing, the system calls of many small files, and digests of long ones.
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

// Resolves when a thread of the crew has run what it was given. On cancellation: what has not begun is withdrawn
// (canceled); what has is told, and goes on until it ends. REQUIRES that it is not destroyed, nor its home, while it is
// under way.
class [[nodiscard]] crew_job final : public cordma::operation<crew_job, void>,
                                     private cordma::inbox_item {
 public:
  // Called with the number of the thread, from 0 on, and whether the job is canceled, to be looked at now and then. Does
  // not throw.
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

// Its threads begin when there is work for them, one by one, and end with it; where none can be had a job is run by who
// starts it. Jobs begin in the order in which they
// are started. Used by one thread, that of a reactor which outlives it.
class crew {
 public:
  // As many as there are processors, from 2 to 8: more files than that under way at once gain nothing on any file
  // system that was tried.
  [[nodiscard]] static std::size_t usual_threads() noexcept;

  explicit crew(cordma::reactor& loop, std::size_t threads = usual_threads())
      : loop_(loop), most_(threads) {}
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  // REQUIRES that nothing is under way.
  ~crew();

  [[nodiscard]] std::size_t threads() const noexcept { return most_; }

  // `work(thread, canceled)` stays where it is until the job is done.
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
  std::mutex lock_;  // of what is below
  std::condition_variable something_;
  std::deque<crew_job*> waiting_;
  std::size_t idle_ = 0;
  bool over_ = false;
};

}  // namespace copy
