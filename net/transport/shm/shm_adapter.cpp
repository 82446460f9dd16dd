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
constexpr std::size_t cold_per_poll = 8;  // of the other pairs, in rotation
// Polling sockets is a system call: made once in this number of polls, and more often while a
// packet is expected.
constexpr unsigned polls_per_look = 4096;
constexpr unsigned polls_per_eager_look = 4;
constexpr std::uint64_t cells_of_the_wakeful = 16;  // cells taken between two arms
constexpr unsigned polls_of_the_wakeful = 64;       // polls until these cells are counted

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
    : reporting_adapter(of->caps()),
      real_time_(&home.time() == &real_clock()),
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
  CORDMA_ASSERT(events().empty());
  CORDMA_ASSERT(called_.empty() && !has_reports());
}

// Takes complete messages from the rings; poll_slowly() does the rest. A single message is passed
// to its taker at the end. There is no call before that, so an idle poll saves no registers.
std::size_t shm_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  arrived_count_ = 0;
  if (--short_polls_ == 0 || out.size() < most_arrived) [[unlikely]]
    return poll_slowly(out, progressed);
  for (std::size_t i = 0; i != hot_; ++i) {
    shm_queue_pair& q = *pairs_[i];
    if (!q.is_plain()) [[unlikely]]
      return poll_on(out, progressed, i);
    if (!q.is_ready()) continue;
    if (arrived_count_ != 0 || !q.takes_one(arrived_[0])) [[unlikely]]
      return poll_on(out, progressed, i);
    arrived_count_ = 1;
    if (q.is_ready()) return poll_on(out, progressed, i);
  }
  if (arrived_count_ == 0) return 0;
  progressed = true;
  arrived_[0].from->in_place()->on_arrived(arrived_[0]);
  release_one();
  arrived_count_ = 0;
  return 0;
}

// Continues from this connection on; one of its messages may be taken already.
[[gnu::noinline]] std::size_t shm_adapter::poll_on(std::span<completion> out, bool& progressed,
                                                   std::size_t i) noexcept {
  for (; i != hot_; ++i) {
    shm_queue_pair& q = *pairs_[i];
    if (q.quiet()) continue;
    const std::size_t before = arrived_count_;
    if (before != most_arrived && q.is_plain() && q.takes_in_place()) {
      arrived_count_ = q.take_in_place(arrived_, before);
    }
    if (arrived_count_ == before) return poll_slowly(out, progressed);
  }
  return 0;
}

// Takes completions and messages of a pair that is not quiet, as far as there is free space.
std::size_t shm_adapter::visit(shm_queue_pair& q, std::span<completion> out, std::size_t have,
                               bool& progressed) noexcept {
  if (q.takes_in_place() && q.is_announced()) {
    const std::size_t most = std::min(out.size() - have, most_arrived);
    const std::size_t before = arrived_count_;
    arrived_count_ = q.take_in_place(std::span(arrived_).first(most), before);
    if (arrived_count_ != before && q.is_plain()) return have;
  }
  return have + q.poll(out.subspan(have, out.size() - have - arrived_count_), progressed);
}

[[gnu::noinline]] std::size_t shm_adapter::poll_slowly(std::span<completion> out,
                                                       bool& progressed) noexcept {
  count_polls();
  std::size_t n = 0;
  if (!called_.empty() || has_reports()) n = poll_shared(out, progressed);
  for (std::size_t i = 0; i < hot_; ++i) {
    shm_queue_pair& q = *pairs_[i];
    if (q.quiet() || (arrived_count_ != 0 && took_in_place(q))) continue;
    if (n + arrived_count_ == out.size()) {
      // Rotates, so that the first pairs do not starve the others.
      std::rotate(pairs_.begin(), pairs_.begin() + static_cast<std::ptrdiff_t>(i),
                  pairs_.begin() + static_cast<std::ptrdiff_t>(hot_));
      break;
    }
    n = visit(q, out, n, progressed);
  }
  if (pairs_.size() > hot_pairs) n = poll_others(out, n, progressed);
  if (polls_to_look_ == 0) look(progressed);
  spare_fences();
  plan_polls();
  return n;
}

// Counts the short polls since the last plan.
void shm_adapter::count_polls() noexcept {
  polls_to_look_ -= std::min(polls_to_look_, planned_polls_ - short_polls_);
  planned_polls_ = short_polls_;
}

// Makes the next poll a full one.
void shm_adapter::hurry() noexcept {
  count_polls();
  planned_polls_ = short_polls_ = 1;
}

// Plans the number of short polls from now on.
void shm_adapter::plan_polls() noexcept {
  const bool has_more = pairs_.size() > hot_pairs || !called_.empty() || has_reports();
  planned_polls_ = has_more ? 1 : std::max(polls_to_look_, 1U);
  if (may_spare_fences()) planned_polls_ = std::min(planned_polls_, polls_of_the_wakeful);
  short_polls_ = planned_polls_;
}

// True if the pair had its turn in this poll.
bool shm_adapter::took_in_place(const shm_queue_pair& q) noexcept {
  return std::ranges::any_of(arrived(), [&q](const arrived_message& m) { return m.from == &q; });
}

void shm_adapter::release_arrived() noexcept {
  if (arrived_count_ == 1) [[likely]] {
    release_one();
  } else {
    release_all();
  }
  arrived_count_ = 0;
}

[[gnu::always_inline]] inline void shm_adapter::release_one() noexcept {
  auto* const q = static_cast<shm_queue_pair*>(arrived_[0].from);
  if (arrived_[0].stays || q == nullptr) [[unlikely]]
    return release_all();
  q->looked_at();
}

void shm_adapter::release_all() noexcept {
  shm_queue_pair* last = nullptr;
  for (const arrived_message& m : arrived()) {
    if (m.from != last) {
      if (last != nullptr) last->looked_at();
      last = static_cast<shm_queue_pair*>(m.from);
    }
    if (m.stays && last != nullptr) last->put_back(m);
  }
  if (last != nullptr) last->looked_at();
}

// False in polling mode, which needs no fences, and once they are spared already.
bool shm_adapter::may_spare_fences() const noexcept {
  return page_->may_sleep.load(std::memory_order_relaxed) != 0 &&
         home_.mode() != wait_mode::polling && domain_->barriers() && pairs_.size() <= hot_pairs;
}

// In cells, for all rings.
std::uint64_t shm_adapter::taken() const noexcept {
  std::uint64_t sum = 0;
  for (const shm_queue_pair* q : pairs_) sum += q->taken();
  return sum;
}

// An adapter that has taken this number of cells since its last attempt to sleep will hardly sleep
// soon. If it does, it pays for the barrier; until then its peers need none.
void shm_adapter::spare_fences() noexcept {
  if (!may_spare_fences() || taken() - taken_before_ < cells_of_the_wakeful) return;
  for (const shm_queue_pair* q : pairs_) {
    if (!q->peer_takes_barriers()) return;
  }
  page_->may_sleep.store(0, std::memory_order_relaxed);
}

std::size_t shm_adapter::poll_shared(std::span<completion> out, bool& progressed) noexcept {
  std::size_t n = hand_out_reports(out);
  progressed = true;
  while (!called_.empty() && n < out.size()) {
    n += called_.pop_front().owner->poll(out.subspan(n), progressed);
  }
  return n;
}

// After a sleep all pairs were polled; otherwise polls some of those that are not hot, in rotation.
std::size_t shm_adapter::poll_others(std::span<completion> out, std::size_t have,
                                     bool& progressed) noexcept {
  if (hot_ > hot_pairs) {
    if (have + arrived_count_ != out.size()) hot_ = hot_pairs;
    return have;
  }
  return poll_cold(out, have, progressed);
}

// Moves a pair with work among the hot ones.
std::size_t shm_adapter::poll_cold(std::span<completion> out, std::size_t have,
                                   bool& progressed) noexcept {
  for (std::size_t k = 0; k < cold_per_poll && have + arrived_count_ < out.size(); ++k) {
    if (++cold_at_ >= pairs_.size()) cold_at_ = hot_pairs;
    shm_queue_pair* const q = pairs_[cold_at_];
    if (q->quiet()) continue;
    bool moved = false;
    const std::size_t before = have + arrived_count_;
    have = visit(*q, out, have, moved);
    if (moved) progressed = true;
    if (have + arrived_count_ != before || moved) {
      victim_ = (victim_ + 1) % hot_pairs;
      std::swap(pairs_[victim_], pairs_[cold_at_]);
    }
  }
  return have;
}

void shm_adapter::look(bool& progressed) noexcept {
  polls_to_look_ = polls_between_looks();
  // arm() has just polled the sockets. Polling again would consume the doorbell's edge, which the
  // sleeper needs: its cause may have arrived after the rings were polled.
  if (page_->nap.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    polls_to_look_ = 1;
  } else if (look_at_sockets()) {
    progressed = true;
  }
}

// In virtual time every poll counts.
unsigned shm_adapter::polls_between_looks() const noexcept {
  if (!real_time_) return 1;
  return expecting_ > 0 ? polls_per_eager_look : polls_per_look;
}

void shm_adapter::expect(int more) noexcept {
  expecting_ += more;
  CORDMA_ASSERT_OP(expecting_, >=, 0);
  polls_to_look_ = std::min(polls_to_look_, polls_between_looks());
  hurry();
}

// Polls all pairs next time.
void shm_adapter::sweep() noexcept { hot_ = pairs_.size(); }

bool shm_adapter::look_at_sockets() noexcept { return sockets_.look().called; }

arm_state shm_adapter::arm() noexcept {
  CORDMA_ASSERT_OP(page_->nap.load(std::memory_order_relaxed), ==, 0U);
  taken_before_ = taken();
  if (page_->may_sleep.load(std::memory_order_relaxed) == 0) {
    // The adapter sleeps after all, or again: from here on peers fence before they read `nap`.
    page_->may_sleep.store(1, std::memory_order_seq_cst);
    barrier_due_ = true;
  }
  if (barrier_due_) {
    const bool all_joined = home_.mode() != wait_mode::polling;
    if (!(all_joined && barrier_joined()) && !barrier_all()) return arm_state::busy;
    barrier_due_ = false;
  }
  if (events_ready_ || look_at_sockets()) return arm_state::busy;
  if (!called_.empty() || has_reports()) return arm_state::busy;
  for (shm_queue_pair* q : pairs_) q->tell();
  if (++naps_ == 0) ++naps_;
  page_->nap.store(naps_, std::memory_order_relaxed);
  // Pairs with wake_sleeper(): either we see the published message, or the peer sees our nap.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  sweep();
  for (shm_queue_pair* q : pairs_) {
    if (!q->has_work()) continue;
    page_->nap.store(0, std::memory_order_relaxed);
    return arm_state::busy;
  }
  return arm_state::armed;
}

void shm_adapter::disarm() noexcept {
  page_->nap.store(0, std::memory_order_relaxed);
  sweep();
}

cm_event shm_adapter::next_event() {
  cm_event e = reporting_adapter::next_event();
  if (e.pair != nullptr) static_cast<shm_queue_pair*>(e.pair)->event_taken(e.what);
  return e;
}

void shm_adapter::attach(shm_queue_pair& q) {
  CORDMA_REQUIRE(std::ranges::find(pairs_, &q) == pairs_.end());
  pairs_.push_back(&q);
  taken_before_ = taken();
  sweep();
  hurry();
  // barrier_joined() may not reach this peer: from here on all peers fence again. arm() makes sure
  // that the peers that did not fence have seen this.
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
  hot_ = std::min(hot_, pairs_.size());
  taken_before_ = taken();
  forget_arrived(q);
}

}  // namespace cordma::transport::shm
