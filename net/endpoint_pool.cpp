#include <cordma/net/endpoint_pool.hpp>

#include <cordma/net/datapath/option_bounds.hpp>
#include <cordma/net/worker.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <new>

namespace cordma {

// Counts a caller that waits for the outcome of connecting. When the last one ends, its connection
// may no longer be needed.
class EndpointPool::asking {
 public:
  asking(EndpointPool& pool, std::shared_ptr<line>& l) noexcept : pool_(pool), line_(l) {
    if (line_->askers++ != 0 || !line_->waits) return;
    ++pool_.waiting_;
    pool_.make_room();
  }
  asking(const asking&) = delete;
  asking& operator=(const asking&) = delete;
  ~asking() {
    CORDMA_ASSERT_OP(line_->askers, >, 0U);
    if (--line_->askers == 0 && line_->waits) {
      CORDMA_ASSERT_OP(pool_.waiting_, >, 0U);
      --pool_.waiting_;
    }
    pool_.returned(line_);
  }

 private:
  EndpointPool& pool_;
  std::shared_ptr<line>& line_;
};

EndpointPool::Loan::Loan(EndpointPool& pool, std::shared_ptr<line> of) noexcept
    : pool_(&pool), line_(std::move(of)) {
  line_->unlink();
  ++line_->loans;
}

EndpointPool::Loan::~Loan() {
  if (pool_ == nullptr) return;
  CORDMA_ASSERT_OP(line_->loans, >, 0U);
  --line_->loans;
  pool_->returned(line_);
}

Endpoint& EndpointPool::Loan::operator*() const noexcept { return line_->endpoint; }

EndpointPool::EndpointPool(Worker& worker, const endpoint_pool_options& options)
    : worker_(&worker),
      options_(options),
      private_data_(options.connection.private_data.begin(), options.connection.private_data.end()),
      places_(options.most),
      tasks_(worker.loop()) {
  detail::require_within("endpoint_pool_options::most", options.most, 1, 1U << 16);
  options_.connection.private_data = private_data_;
}

EndpointPool::~EndpointPool() {
  for (const auto& [to, l] : lines_) {
    CORDMA_REQUIRE_OP(l->loans, ==, 0U);
    CORDMA_REQUIRE_OP(l->askers, ==, 0U);
  }
}

std::shared_ptr<EndpointPool::line> EndpointPool::find(std::string_view to) noexcept {
  const auto found = lines_.find(to);
  if (found == lines_.end()) return nullptr;
  std::shared_ptr<line> l = found->second;
  if (!l->settled.is_set() || l->endpoint.state() == endpoint_state::connected) return l;
  // The connection has ended. The last loan releases its slot.
  lines_.erase(found);
  if (l->loans == 0 && l->askers == 0) drop(*l);
  return nullptr;
}

std::shared_ptr<EndpointPool::line> EndpointPool::open(const std::string& to) {
  auto l = std::make_shared<line>();
  l->to = to;
  lines_.emplace(to, l);
  try {
    tasks_.spawn(connect(l));
  } catch (...) {
    forget(*l);
    throw;
  }
  return l;
}

task<EndpointPool::Loan> EndpointPool::borrow(std::string to) {
  if (!worker_->loop().on_owner_thread()) {
    throw_error(worker_->loop().wrong_thread(
        "an EndpointPool may only be used on the thread of its Worker"));
  }
  std::shared_ptr<line> l = find(to);
  if (l != nullptr && l->settled.is_set()) {
    ++counters_.reused;
    co_return Loan(*this, std::move(l));
  }
  if (l == nullptr) l = open(to);
  const asking me(*this, l);
  co_await l->settled.wait();
  if (l->why) throw_error(*l->why);
  co_return Loan(*this, l);
}

std::optional<EndpointPool::Loan> EndpointPool::try_borrow(std::string_view to) noexcept {
  if (!worker_->loop().enter()) return {};
  std::shared_ptr<line> l = find(to);
  if (l == nullptr || !l->settled.is_set()) return {};
  ++counters_.reused;
  return Loan(*this, std::move(l));
}

task<void> EndpointPool::connect(std::shared_ptr<line> l) {
  l->waits = true;
  if (l->askers != 0) ++waiting_;
  make_room();
  const result<void> mine = co_await places_.acquire().result();
  l->waits = false;
  if (l->askers != 0) {
    CORDMA_ASSERT_OP(waiting_, >, 0U);
    --waiting_;
  }
  if (!mine) {
    l->why = mine.why();
    forget(*l);
    l->settled.set();
    co_return;
  }
  ++busy_;
  CORDMA_ASSERT_OP(busy_ + closing_, <=, options_.most);
  if (l->askers == 0) {  // all callers have given up
    forget(*l);
    drop(*l);
    co_return;
  }
  l->is_made = true;
  try {
    connect_operation connecting = worker_->connect(l->to, options_.connection);
    l->endpoint = co_await connecting;
    ++counters_.connects;
  } catch (const error& e) {
    l->why = e.why();
  } catch (const std::bad_alloc&) {
    l->why = errc::no_memory;
  }
  l->is_made = false;
  if (l->why) {
    ++counters_.failures;
    forget(*l);
    drop(*l);
  }
  l->settled.set();
  returned(l);
  changed_.set();
}

// Makes the connection idle, or drops it, once no caller uses it or is about to.
void EndpointPool::returned(std::shared_ptr<line>& l) noexcept {
  if (l->loans != 0 || l->askers != 0 || l->linked()) return;
  if (!l->settled.is_set() || !l->endpoint) return;
  if (l->endpoint.state() == endpoint_state::connected) {
    idle_.push_back(*l);
    return make_room();
  }
  forget(*l);
  drop(*l);
}

// Connections that are closing will be free, too.
void EndpointPool::make_room() noexcept {
  while (!idle_.empty() && waiting_ > options_.most - busy_) evict(idle_.front());
}

void EndpointPool::evict(line& l) noexcept {
  const auto found = lines_.find(l.to);
  CORDMA_ASSERT(found != lines_.end() && found->second.get() == &l);
  CORDMA_ASSERT_OP(l.loans + l.askers, ==, 0U);
  CORDMA_ASSERT_OP(busy_, >, 0U);
  std::shared_ptr<line> going = std::move(found->second);
  lines_.erase(found);
  l.unlink();
  ++counters_.evictions;
  --busy_;
  try {
    tasks_.spawn(close_gently(going));
    ++closing_;
  } catch (const std::bad_alloc&) {  // then it ends without notice
    release(l);
  }
}

task<void> EndpointPool::close_gently(std::shared_ptr<line> l) {
  try {
    co_await with_timeout(options_.close_timeout, l->endpoint.close());
  } catch (...) {
    ++counters_.aborts;
  }
  release(*l);
  CORDMA_ASSERT_OP(closing_, >, 0U);
  --closing_;
  changed_.set();
}

void EndpointPool::drop(line& l) noexcept {
  CORDMA_ASSERT_OP(busy_, >, 0U);
  --busy_;
  release(l);
}

// The slot is free once its queue pair is destroyed.
void EndpointPool::release(line& l) noexcept {
  l.unlink();
  l.endpoint = Endpoint();
  places_.release();
}

void EndpointPool::forget(const line& l) noexcept {
  const auto found = lines_.find(l.to);
  if (found != lines_.end() && found->second.get() == &l) lines_.erase(found);
}

bool EndpointPool::is_closing() const noexcept {
  const auto is_unwanted = [](const auto& known) {
    return known.second->is_made && known.second->askers == 0;
  };
  return closing_ != 0 || std::ranges::any_of(lines_, is_unwanted);
}

task<void> EndpointPool::close() {
  for (;;) {
    while (!idle_.empty()) evict(idle_.front());
    if (!is_closing()) co_return;
    changed_.reset();
    co_await changed_.wait();
  }
}

}  // namespace cordma
