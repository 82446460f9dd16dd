// disk: writes and fsyncs that nobody waits for, on a reactor: by io_uring, or by threads where there is none.
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
  bool io_uring = true;  // false: threads, as where the kernel or its rules give out none
};

// Bound to the thread of its reactor, save nudge(). Its owner destroys it last: REQUIRES that nothing is under way.
class disk final : public cordma::poller {
 public:
  // Something to be done, and its outcome. Stays where it is until `done` was called, on the reactor's thread.
  class job {
   public:
    using function = void (*)(job&) noexcept;
    explicit job(function done) noexcept : done_(done) {}
    job(const job&) = delete;
    job& operator=(const job&) = delete;
    // Of a write the bytes, which may be fewer; 0. Negative: an errno.
    [[nodiscard]] int outcome() const noexcept { return outcome_; }
    // Of what followed a write: 0, an errno, or ECANCELED where the write was short or failed.
    [[nodiscard]] int sync_outcome() const noexcept { return sync_outcome_; }

   private:
    friend class disk;
    enum class what : std::uint8_t { write, sync, call };
    function done_;
    what what_ = what::call;
    bool then_sync_ = false;
    std::uint8_t awaited_ = 0;  // completions to come
    int fd_ = -1;
    int outcome_ = 0;
    int sync_outcome_ = 0;
    std::span<const iovec> pieces_;
    std::uint64_t offset_ = 0;
    std::function<void()> call_;
  };
  // Whoever has more to do when the reactor comes by.
  class client {
   public:
    virtual ~client() = default;
    // Whether anything was begun. Called in every pass.
    virtual bool work() noexcept = 0;
    [[nodiscard]] virtual bool has_work() const noexcept = 0;
  };

  // Throws cordma::error: what the reactor says.
  explicit disk(cordma::reactor& home, const disk_options& options = {});
  ~disk() override;
  disk(const disk&) = delete;
  disk& operator=(const disk&) = delete;

  [[nodiscard]] cordma::reactor& home() const noexcept { return home_; }
  // What it had to do without, in a sentence; empty: nothing.
  [[nodiscard]] const std::string& obstacle() const noexcept { return obstacle_; }

  static constexpr std::size_t most_pieces = 256;
  // REQUIRES at most that many pieces, of 2^30 bytes together. `then_sync`: what is written then is on the disk, by
  // fdatasync(), when it is done.
  void write(job& j, int fd, std::span<const iovec> pieces, std::uint64_t offset,
             bool then_sync) noexcept;
  void sync(job& j, int fd) noexcept;  // fdatasync()
  // On another thread. What it throws ends the process.
  void run(job& j, std::function<void()> call) noexcept;
  // Waits, not turning the reactor, until nothing is under way.
  void settle() noexcept;

  void add(client& c) { clients_.push_back(&c); }
  void remove(client& c) noexcept { std::erase(clients_, &c); }
  // Any thread: there is work for a client.
  void nudge() noexcept;

  std::size_t poll() noexcept override;
  cordma::arm_state arm() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override {
    return ring_.is_open() ? ring_.wait_fd() : idle_fd_.get();
  }
  [[nodiscard]] const char* name() const noexcept override { return "disk"; }

 private:
  static constexpr unsigned ring_depth = 64;
  static constexpr std::size_t most_threads =
      3;  // one per file that is written, and one for the rest
  // Where it is on its way when the disk ends, it ends itself.
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
  support::io_ring ring_;      // not open: threads
  cordma::unique_fd idle_fd_;  // without a ring: nothing ever happens there
  std::string obstacle_;
  std::size_t in_ring_ = 0;  // completions to come
  std::size_t under_way_ = 0;
  std::vector<client*> clients_;

  std::mutex guard_;  // of the threads, and of what goes to and fro
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

// Awaitable: a call that may wait, carried out on another thread. Not canceled; destroyed before it has ended, it
// waits for that.
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
