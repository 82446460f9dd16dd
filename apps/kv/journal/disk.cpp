#include "disk.hpp"

#include <bit>
#include <cerrno>
#include <csignal>

#include <sys/eventfd.h>
#include <unistd.h>

namespace kv {
namespace {

constexpr std::uint64_t sync_mark = 1;  // in the lowest bit of a job's address

int carry_out_sync(int fd) noexcept {
  while (::fdatasync(fd) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

int carry_out_write(int fd, std::span<const iovec> pieces, std::uint64_t offset) noexcept {
  for (;;) {
    const ssize_t n =
        ::pwritev(fd, pieces.data(), static_cast<int>(pieces.size()), static_cast<off_t>(offset));
    if (n >= 0) return static_cast<int>(n);
    if (errno != EINTR) return -errno;
  }
}

std::size_t total(std::span<const iovec> pieces) noexcept {
  std::size_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
}

}  // namespace

struct disk::nudge_item final : cordma::inbox_item {
  explicit nudge_item(disk& d) noexcept
      : inbox_item([](inbox_item& i) noexcept { static_cast<nudge_item&>(i).arrived(); },
                   [](inbox_item& i) noexcept { static_cast<nudge_item&>(i).arrived(); }),
        owner(&d) {}
  void arrived() noexcept {
    if (owner == nullptr) {
      delete this;
    } else {
      owner->nudged_.store(false);
    }
  }
  disk* owner;
};

disk::disk(cordma::reactor& home, const disk_options& options)
    : home_(home), nudge_(new nudge_item(*this)) {
  const int failed =
      options.io_uring ? ring_.open(ring_depth, support::io_ring::work::in_passing) : ENOSYS;
  if (failed != 0) {
    idle_fd_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    obstacle_ = "the journal is written by threads, for " +
                support::why_no_ring(cordma::failure::from_os(failed, "io_uring_setup"));
  }
  home_.add(*this).value();
}

disk::~disk() {
  CORDMA_REQUIRE_OP(under_way_, ==, 0U);
  {
    const std::lock_guard lock(guard_);
    ending_ = true;
  }
  wanted_.notify_all();
  for (std::thread& t : threads_) t.join();
  home_.remove(*this);
  nudge_->owner = nullptr;
  if (!nudged_.load()) delete nudge_;
}

void disk::write(job& j, int fd, std::span<const iovec> pieces, std::uint64_t offset,
                 bool then_sync) noexcept {
  CORDMA_REQUIRE(!pieces.empty() && pieces.size() <= most_pieces);
  j.what_ = job::what::write;
  j.fd_ = fd;
  j.pieces_ = pieces;
  j.offset_ = offset;
  j.then_sync_ = then_sync;
  j.outcome_ = 0;
  j.sync_outcome_ = 0;
  ++under_way_;
  if (!ring_.is_open()) return hand_over(j);
  io_uring_sqe& writing = entry();
  ::io_uring_prep_writev(&writing, fd, pieces.data(), static_cast<unsigned>(pieces.size()), offset);
  writing.user_data = std::bit_cast<std::uintptr_t>(&j);
  j.awaited_ = 1;
  if (then_sync) {
    writing.flags |= IOSQE_IO_LINK;
    io_uring_sqe& syncing = entry();
    ::io_uring_prep_fsync(&syncing, fd, IORING_FSYNC_DATASYNC);
    syncing.user_data = std::bit_cast<std::uintptr_t>(&j) | sync_mark;
    j.awaited_ = 2;
  }
  in_ring_ += j.awaited_;
}

void disk::sync(job& j, int fd) noexcept {
  j.what_ = job::what::sync;
  j.fd_ = fd;
  j.outcome_ = 0;
  ++under_way_;
  if (!ring_.is_open()) return hand_over(j);
  io_uring_sqe& syncing = entry();
  ::io_uring_prep_fsync(&syncing, fd, IORING_FSYNC_DATASYNC);
  syncing.user_data = std::bit_cast<std::uintptr_t>(&j);
  j.awaited_ = 1;
  ++in_ring_;
}

void disk::run(job& j, std::function<void()> call) noexcept {
  j.what_ = job::what::call;
  j.call_ = std::move(call);
  j.outcome_ = 0;
  ++under_way_;
  hand_over(j);
}

// Ensures free entries for two, as linked entries must be adjacent in the ring.
io_uring_sqe& disk::entry() noexcept {
  if (::io_uring_sq_space_left(&ring_.kernel()) < 2) submit();
  io_uring_sqe* const free = ring_.entry();
  CORDMA_ASSERT(free != nullptr);
  return *free;
}

void disk::submit() noexcept {
  while (ring_.has_entries()) {
    if (!ring_.enter(0)) return;  // the rest is submitted in the next pass
  }
}

void disk::hand_over(job& j) noexcept {
  const std::lock_guard lock(guard_);
  jobs_.push_back(&j);
  if (idle_threads_ < jobs_.size() && threads_.size() < most_threads) {
    // Blocks all signals: they are for the threads that handle them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    threads_.emplace_back([this] { work_on_jobs(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  wanted_.notify_one();
}

void disk::work_on_jobs() noexcept {
  std::unique_lock lock(guard_);
  for (;;) {
    ++idle_threads_;
    wanted_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    --idle_threads_;
    if (jobs_.empty()) return;
    job& j = *jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    switch (j.what_) {
      case job::what::call: std::exchange(j.call_, nullptr)(); break;
      case job::what::sync: j.outcome_ = carry_out_sync(j.fd_); break;
      case job::what::write: {
        j.outcome_ = carry_out_write(j.fd_, j.pieces_, j.offset_);
        const bool whole =
            j.outcome_ >= 0 && static_cast<std::size_t>(j.outcome_) == total(j.pieces_);
        if (j.then_sync_) j.sync_outcome_ = whole ? -carry_out_sync(j.fd_) : ECANCELED;
        break;
      }
    }
    lock.lock();
    done_.push_back(&j);
    some_done_.notify_all();
    nudge();
  }
}

void disk::nudge() noexcept {
  if (!nudged_.exchange(true)) home_.post(static_cast<cordma::inbox_item&>(*nudge_));
}

std::size_t disk::poll() noexcept {
  std::size_t happened = reap(false) + take_done();
  for (client* c : clients_) happened += c->work() ? 1U : 0U;
  if (ring_.is_open()) submit();
  return happened;
}

cordma::arm_state disk::arm() noexcept {
  for (const client* c : clients_) {
    if (c->has_work()) return cordma::arm_state::busy;
  }
  if (!ring_.is_open()) return cordma::arm_state::armed;
  return ring_.has_entries() || ring_.has_completions() ? cordma::arm_state::busy
                                                        : cordma::arm_state::armed;
}

std::size_t disk::reap(bool wait) noexcept {
  std::size_t happened = 0;
  while (in_ring_ != 0) {
    if (wait && happened == 0) ring_.enter(1);
    const std::size_t n = ring_.reap([this](const io_uring_cqe& outcome) { completed(outcome); });
    if (n == 0) break;
    happened += n;
  }
  return happened;
}

void disk::completed(const io_uring_cqe& outcome) noexcept {
  job& j = *std::bit_cast<job*>(static_cast<std::uintptr_t>(outcome.user_data & ~sync_mark));
  if ((outcome.user_data & sync_mark) != 0) {
    j.sync_outcome_ = -outcome.res;
  } else {
    j.outcome_ = outcome.res;
  }
  --in_ring_;
  if (--j.awaited_ == 0) finished(j);
}

std::size_t disk::take_done() noexcept {
  if (under_way_ == 0) return 0;
  std::vector<job*> done;
  {
    const std::lock_guard lock(guard_);
    done.swap(done_);
  }
  for (job* j : done) finished(*j);
  return done.size();
}

void disk::finished(job& j) noexcept {
  --under_way_;
  j.done_(j);
}

void disk::settle() noexcept {
  while (under_way_ != 0) {
    if (in_ring_ != 0) {
      (void)reap(true);
    } else if (take_done() == 0) {
      std::unique_lock lock(guard_);
      some_done_.wait(lock, [this] { return !done_.empty(); });
    }
    (void)take_done();
  }
}

}  // namespace kv
