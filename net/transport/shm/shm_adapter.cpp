#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_listener.hpp>

namespace cordma::transport::shm {
namespace {

constexpr std::size_t hot_pairs = 8;      // polled every time
constexpr std::size_t cold_per_poll = 8;  // of the others, in turn
// Looking at sockets is a system call: once in so many polls, and in so many while an answer is
// due.
constexpr unsigned polls_per_look = 4096;
constexpr unsigned finds_of_the_wakeful = 16;  // polls that found something, between two arms
constexpr unsigned polls_per_eager_look = 4;

}  // namespace

result<std::unique_ptr<adapter>> shm_adapter::open(std::shared_ptr<shm_domain> of, reactor& home) {
  unique_fd watched(::epoll_create1(EPOLL_CLOEXEC));
  unique_fd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watched || !doorbell) {
    return failure(errc::no_memory,
                   "no file descriptor left for an shm adapter: raise the limit "
                   "with ulimit -n")
        .with_errno(errno);
  }
  result<unique_fd> page = create_shared("cordma-adapter", page_bytes);
  if (!page) return page.why();
  result<mapped_view> view = map_shared((*page).get(), page_bytes, protection::read_write);
  if (!view) return view.why();
  seal_against_writers((*page).get());
  auto made =
      std::make_unique<shm_adapter>(std::move(of), home, std::move(watched), std::move(doorbell),
                                    std::move(*page), std::move(*view));
  const result<void> rings = made->sockets_.add_wake_up(
      made->doorbell_fd(), EPOLLIN | static_cast<std::uint32_t>(EPOLLET));
  if (!rings) return rings.why();
  return std::unique_ptr<adapter>(std::move(made));
}

shm_adapter::shm_adapter(std::shared_ptr<shm_domain> of, reactor& home, unique_fd watched,
                         unique_fd doorbell, unique_fd page_fd, mapped_view page)
    : real_time_(&home.time() == &real_clock()),
      page_(reinterpret_cast<adapter_page*>(page.data())),
      domain_(std::move(of)),
      home_(home),
      sockets_(std::move(watched)),
      doorbell_(std::move(doorbell)),
      page_fd_(std::move(page_fd)),
      page_view_(std::move(page)) {
  CORDMA_REQUIRE_OP(page_view_.size(), >=, sizeof(adapter_page));
  const bool sleeps = home_.mode() != wait_mode::polling;
  page_->may_sleep.store(sleeps ? 1 : 0, std::memory_order_seq_cst);
}

shm_adapter::~shm_adapter() {
  CORDMA_REQUIRE_OP(pairs_.size(), ==, 0U);
  if (home_.inherited()) return;
  CORDMA_ASSERT_OP(expecting_, ==, 0);
  CORDMA_ASSERT_OP(requests_.size(), ==, 0U);
  CORDMA_ASSERT(events_.empty());
  CORDMA_ASSERT(called_.empty() && reporting_.empty());
}

std::size_t shm_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  std::size_t n = 0;
  const std::size_t hot = sweep_ ? pairs_.size() : std::min(pairs_.size(), hot_pairs);
  bool moved = false;
  if (!called_.empty() || !reporting_.empty()) [[unlikely]]
    n = poll_shared(out, moved);
  for (std::size_t i = 0; i < hot && n < out.size(); ++i) {
    if (!pairs_[i]->quiet()) n += pairs_[i]->poll(out.subspan(n), moved);
  }
  if (pairs_.size() > hot_pairs && n < out.size()) {
    if (sweep_) {
      sweep_ = false;
    } else {
      n += poll_cold(out.subspan(n), moved);
    }
  }
  if (time_to_look() && look_at_sockets()) moved = true;
  if (moved) progressed = true;
  if (n != 0 && ++found_since_arm_ == finds_of_the_wakeful) [[unlikely]]
    spare_fences();
  return n;
}

// Who has found so much since it last wanted to sleep will hardly want to soon; then it pays for the
// barrier, and until then its peers for none.
void shm_adapter::spare_fences() noexcept {
  if (home_.mode() == wait_mode::polling) return;  // it never had any to spare, or slept after all
  if (!domain_->barriers() || pairs_.size() > hot_pairs) return;
  for (const shm_queue_pair* q : pairs_) {
    if (!q->peer_takes_barriers()) return;
  }
  page_->may_sleep.store(0, std::memory_order_relaxed);
}

std::size_t shm_adapter::poll_shared(std::span<completion> out, bool& progressed) noexcept {
  std::size_t n = take_reports(reporting_, out);
  progressed = true;
  while (!called_.empty() && n < out.size()) {
    n += called_.pop_front().owner->poll(out.subspan(n), progressed);
  }
  return n;
}

// Whoever has something to do moves among the hot ones.
std::size_t shm_adapter::poll_cold(std::span<completion> out, bool& progressed) noexcept {
  std::size_t n = 0;
  for (std::size_t k = 0; k < cold_per_poll && n < out.size(); ++k) {
    if (++cold_at_ >= pairs_.size()) cold_at_ = hot_pairs;
    shm_queue_pair* const q = pairs_[cold_at_];
    if (q->quiet()) continue;
    bool moved = false;
    const std::size_t got = q->poll(out.subspan(n), moved);
    n += got;
    if (moved) progressed = true;
    if (got != 0 || moved) {
      victim_ = (victim_ + 1) % hot_pairs;
      std::swap(pairs_[victim_], pairs_[cold_at_]);
    }
  }
  return n;
}

bool shm_adapter::time_to_look() noexcept {
  // arm() has just looked. Looking again would take the doorbell's edge away from the sleeper: what
  // rang it may have come after the rings were polled.
  if (page_->nap.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return false;
  const unsigned every = expecting_ > 0 ? polls_per_eager_look : polls_per_look;
  if (++polls_ < every && real_time_) [[likely]]
    return false;
  polls_ = 0;
  return true;
}

bool shm_adapter::look_at_sockets() noexcept { return sockets_.look().called; }

arm_state shm_adapter::arm() noexcept {
  CORDMA_ASSERT_OP(page_->nap.load(std::memory_order_relaxed), ==, 0U);
  found_since_arm_ = 0;
  if (page_->may_sleep.load(std::memory_order_relaxed) == 0) {
    // It sleeps after all, or again: from here on peers fence before they look.
    page_->may_sleep.store(1, std::memory_order_seq_cst);
    barrier_due_ = true;
  }
  if (barrier_due_) {
    const bool all_joined = home_.mode() != wait_mode::polling;
    if (!(all_joined && barrier_joined()) && !barrier_all()) return arm_state::busy;
    barrier_due_ = false;
  }
  if (events_ready_ || look_at_sockets()) return arm_state::busy;
  if (!called_.empty() || !reporting_.empty()) return arm_state::busy;
  for (shm_queue_pair* q : pairs_) q->tell();
  if (++naps_ == 0) ++naps_;
  page_->nap.store(naps_, std::memory_order_relaxed);
  // Pairs with wake_sleeper(): either we see what was published, or they see our nap.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  sweep_ = true;
  for (shm_queue_pair* q : pairs_) {
    if (!q->has_work()) continue;
    page_->nap.store(0, std::memory_order_relaxed);
    return arm_state::busy;
  }
  return arm_state::armed;
}

void shm_adapter::disarm() noexcept {
  page_->nap.store(0, std::memory_order_relaxed);
  sweep_ = true;
}

cm_event shm_adapter::next_event() {
  cm_event e = events_.take();
  events_ready_ = !events_.empty();
  if (e.pair != nullptr) static_cast<shm_queue_pair*>(e.pair)->event_taken(e.what);
  return e;
}

void shm_adapter::push(cm_event e) {
  events_.push(std::move(e));
  events_ready_ = true;
}

void shm_adapter::report(cm_event e) noexcept {
  events_.report(std::move(e));
  events_ready_ = true;
}

void shm_adapter::drop_events(const queue_pair* of) noexcept {
  events_.drop([of](const cm_event& e) { return e.pair == of; });
  events_ready_ = !events_.empty();
}

void shm_adapter::drop_events(const receive_queue& of) noexcept {
  events_.drop([&of](const cm_event& e) { return e.queue == &of; });
  events_ready_ = !events_.empty();
}

result<std::unique_ptr<receive_queue>> shm_adapter::make_receive_queue(std::uint32_t depth,
                                                                       std::uint32_t max_segments) {
  const result<void> fits = check_receive_queue(depth, max_segments, domain_->caps());
  if (!fits) return fits.why();
  return std::unique_ptr<receive_queue>(
      std::make_unique<reporting_receive_queue>(*this, events_, reporting_, depth, max_segments));
}

void shm_adapter::attach(shm_queue_pair& q) {
  CORDMA_REQUIRE(std::ranges::find(pairs_, &q) == pairs_.end());
  pairs_.push_back(&q);
  sweep_ = true;
  // It may be none that barrier_joined() reaches: from here on all fence again. arm() sees to it that
  // those that were spared know.
  if (home_.mode() == wait_mode::polling || page_->may_sleep.load(std::memory_order_relaxed) == 1)
    return;
  page_->may_sleep.store(1, std::memory_order_seq_cst);
  barrier_due_ = true;
}

void shm_adapter::detach(shm_queue_pair& q) noexcept {
  const auto at = std::find(pairs_.begin(), pairs_.end(), &q);
  CORDMA_REQUIRE(at != pairs_.end());
  *at = pairs_.back();
  pairs_.pop_back();
}

}  // namespace cordma::transport::shm
