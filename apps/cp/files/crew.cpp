#include "crew.hpp"

#include <algorithm>
#include <system_error>

namespace copy {

crew_job::crew_job(crew& those, function work, void* context) noexcept
    : operation(&those.loop_),
      inbox_item([](inbox_item& item) noexcept { static_cast<crew_job&>(item).finish(); }),
      crew_(those),
      work_(work),
      context_(context) {}

void crew_job::do_start() noexcept {
  set_phase(phase::posted);
  crew_.add(*this);
}

void crew_job::do_cancel() noexcept {
  canceled_ = true;
  if (!crew_.withdraw(*this)) return;
  failure_.emplace(cordma::errc::canceled);
  finish();
}

std::size_t crew::usual_threads() noexcept {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 8);
}

crew::~crew() {
  {
    const std::scoped_lock held(lock_);
    CORDMA_REQUIRE(waiting_.empty());
    over_ = true;
  }
  something_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void crew::add(crew_job& job) noexcept {
  bool one_more = false;
  {
    const std::scoped_lock held(lock_);
    waiting_.push_back(&job);
    one_more = idle_ < waiting_.size() && threads_.size() < most_;
  }
  if (one_more) {
    try {
      threads_.emplace_back(&crew::work, this, threads_.size());
    } catch (const std::system_error&) {
      // No further thread is available: uses the existing ones, or the present thread.
      if (threads_.empty() && withdraw(job)) {
        job.work_(job.context_, 0, job.canceled_);
        loop_.post(job);
        return;
      }
    }
  }
  something_.notify_one();
}

bool crew::withdraw(const crew_job& job) noexcept {
  const std::scoped_lock held(lock_);
  return std::erase(waiting_, &job) != 0;
}

void crew::work(std::size_t number) noexcept {
  std::unique_lock held(lock_);
  for (;;) {
    ++idle_;
    something_.wait(held, [this] { return over_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    crew_job& job = *waiting_.front();
    waiting_.pop_front();
    held.unlock();
    job.work_(job.context_, number, job.canceled_);
    loop_.post(job);  // the job may be destroyed after this call
    held.lock();
  }
}

}  // namespace copy
