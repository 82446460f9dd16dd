// disk: asynchronous writes and fsyncs on a reactor, by io_uring, or by threads if io_uring is
// unavailable.
#pragma once

#include "../../support/io_ring.hpp"

#include <cordma/runtime/reactor.hpp>

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sys/uio.h>

namespace kv {

struct disk_options {
  bool io_uring = true;  // false: uses threads, as if the kernel refused io_uring
};

// Bound to the reactor's thread, except nudge(). REQUIRES at destruction that no job is in flight;
// its owner destroys it last.
class disk final : public cordma::poller {
 public:
  // One operation and its outcome. Must not move until `done` was called; `done` runs on the
  // reactor's thread.
  class job {
   public:
    using function = void (*)(job&) noexcept;
    explicit job(function done) noexcept : done_(done) {}
    job(const job&) = delete;
    job& operator=(const job&) = delete;
    // Of a write: bytes written, possibly fewer than requested. Of other jobs: 0. Negative: an
    // errno.
    [[nodiscard]] int outcome() const noexcept { return outcome_; }
    // Outcome of the fsync after a write: 0, an errno, or ECANCELED if the write was short or
    // failed.
    [[nodiscard]] int sync_outcome() const noexcept { return sync_outcome_; }

   private:
    friend class disk;
    enum class what : std::uint8_t { write, sync, call };
    function done_;
    what what_ = what::call;
    bool then_sync_ = false;
    std::uint8_t awaited_ = 0;  // completions still expected
    int fd_ = -1;
    int outcome_ = 0;
    int sync_outcome_ = 0;
    std::span<const iovec> pieces_;
    std::uint64_t offset_ = 0;
    std::function<void()> call_;
  };
  // Object that the reactor polls for more work.
  class client {
   public:
    virtual ~client() = default;
    // Called in every pass of the reactor. Returns true if it began anything.
    virtual bool work() noexcept = 0;
    [[nodiscard]] virtual bool has_work() const noexcept = 0;
  };

  // Throws cordma::error: any error of the reactor.
  explicit disk(cordma::reactor& home, const disk_options& options = {});
  ~disk() override;
  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;

  [[nodiscard]] cordma::reactor& home() const noexcept { return home_; }
  // A sentence about the missing kernel feature; empty if nothing is missing.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }

  static constexpr std::size_t most_pieces = 256;
  // REQUIRES at most `most_pieces` pieces, at most 2^30 bytes in total. With `then_sync` the job
  // completes after fdatasync(): the written bytes are then on the disk.
  void write(job& j, int fd, std::span<const iovec> pieces, std::uint64_t offset,
             bool then_sync) noexcept;
  void sync(job& j, int fd) noexcept;  // fdatasync()
  // Calls it on another thread. An exception from it terminates the process.
  void run(job& j, std::function<void()> call) noexcept;
  // Blocks the thread, without running the reactor, until no job is in flight.
  void settle() noexcept;

  void add(client& c) { clients_.push_back(&c); }
  void remove(client& c) noexcept { std::erase(clients_, &c); }
  // Notifies the reactor that a client has work. Any thread.
  void nudge() noexcept;

  std::size_t poll() noexcept override;
  cordma::arm_state arm() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override {
    return ring_.is_open() ? ring_.wait_fd() : idle_fd_.get();
  }
  [[nodiscard]] const char* name() const noexcept override { return "disk"; }

 private:
  static constexpr unsigned ring_depth = 64;
  static constexpr std::size_t most_threads = 3;  // one per file being written, one for other calls
  // If it is queued when the disk is destroyed, it deletes itself.
  struct nudge_item;
  void hand_over(job& j) noexcept;
  void submit() noexcept;
  [[nodiscard]] std::size_t reap(bool wait) noexcept;
  [[nodiscard]] std::size_t take_done() noexcept;
  void completed(const io_uring_cqe& outcome) noexcept;
  void finished(job& j) noexcept;
  void work_on_jobs() noexcept;
  [[nodiscard]] io_uring_sqe& entry() noexcept;

  cordma::reactor& home_;
  support::io_ring ring_;      // not open: threads are used
  cordma::unique_fd idle_fd_;  // without a ring: a descriptor that is never ready
  std::string obstacle_;
  std::size_t in_ring_ = 0;  // completions still expected
  std::size_t under_way_ = 0;
  std::vector<client*> clients_;

  std::mutex guard_;  // of the threads and of the queues to and from them
  std::condition_variable wanted_;
  std::condition_variable some_done_;
  std::deque<job*> jobs_;
  std::vector<job*> done_;
  std::vector<std::thread> threads_;
  std::size_t idle_threads_ = 0;
  bool ending_ = false;

  nudge_item* nudge_;
  std::atomic<bool> nudged_{false};
};

// Awaitable: runs a blocking call on another thread. It cannot be canceled; if it is destroyed
// early, its destructor waits for the call to end.
///   disk_call create(of, [&] { ... });
///   co_await create;
class [[nodiscard]] disk_call final : private disk::job {
 public:
  disk_call(disk& of, std::function<void()> call)
      : job([](job& j) noexcept { static_cast<disk_call&>(j).ended(); }),
        disk_(of),
        call_(std::move(call)) {}
  ~disk_call() {
    if (under_way_) disk_.settle();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept {
    item_.handle = h;
    under_way_ = true;
    disk_.run(*this, std::move(call_));
  }
  void await_resume() const noexcept {}

 private:
  void ended() noexcept {
    under_way_ = false;
    disk_.home().ready(item_);
  }
  disk& disk_;
  std::function<void()> call_;
  cordma::resume_item item_;
  bool under_way_ = false;
};

}  // namespace kv
