#include "stream.hpp"

#include "../files/files.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

namespace kv {
namespace {

unix_ms wall_clock() noexcept {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  return static_cast<unix_ms>(duration_cast<milliseconds>(now).count());
}

}  // namespace

std::string_view name(sync_policy policy) noexcept {
  switch (policy) {
    case sync_policy::no: return "no";
    case sync_policy::every_second: return "everysec";
    case sync_policy::always: return "always";
  }
  return "";
}

std::optional<sync_policy> parse_sync_policy(std::string_view text) noexcept {
  for (const sync_policy p : {sync_policy::no, sync_policy::every_second, sync_policy::always}) {
    if (text == name(p)) return p;
  }
  return std::nullopt;
}

stream::write_job::write_job(stream& s) noexcept
    : job([](job& j) noexcept { static_cast<write_job&>(j).owner.written(); }), owner(s) {}
stream::sync_job::sync_job(stream& s) noexcept
    : job([](job& j) noexcept { static_cast<sync_job&>(j).owner.synced(); }), owner(s) {}
stream::retry_timer::retry_timer(stream& s) noexcept
    : timer([](timer& t) noexcept { (void)static_cast<retry_timer&>(t).owner.work(); }), owner(s) {}

stream::stream(disk& on, std::mutex& guard, const stream_options& options,
               std::function<void()> moved)
    : disk_(on), guard_(guard), options_(options), moved_(std::move(moved)) {
  disk_.add(*this);
}

stream::~stream() {
  disk_.remove(*this);
  moved_ = [] {};
  while (write_under_way_ || sync_under_way_) disk_.settle();
}

void stream::go_on_in(cordma::unique_fd fd, std::uint64_t size, std::uint32_t salt,
                      std::uint64_t last) {
  const std::lock_guard lock(guard_);
  CORDMA_REQUIRE(outputs_.empty());
  auto to = std::make_unique<output>();
  to->fd = std::move(fd);
  to->offset = size;
  to->salt = salt;
  outputs_.push_back(std::move(to));
  outputs_count_ = 1;
  appended_ = durable_ = written_ = last;
  size_ = size;
}

void stream::go_to(cordma::unique_fd fd, log_kind kind, std::uint64_t first) {
  CORDMA_REQUIRE_OP(outputs_.size(), <=, 1U);
  auto to = std::make_unique<output>();
  to->fd = std::move(fd);
  to->salt = random_number();
  const std::uint64_t next = appended_.load() + 1;
  const auto header = encode(log_header{kind, to->salt, first == 0 ? next : first, wall_clock()});
  chunk& c = room(*to, header.size());
  c.bytes.insert(c.bytes.end(), header.begin(), header.end());
  c.last = next - 1;
  pending_ += header.size();
  queued_ += header.size();
  size_ = header.size();
  first_in_file_ = next;
  outputs_.push_back(std::move(to));
  outputs_count_ = outputs_.size();
}

bool stream::settled() const { return outputs_count_.load() <= 1; }

bool stream::forget_last() noexcept {
  std::unique_ptr<output> left;  // closed without the guard
  std::unique_lock lock(guard_);
  output* const last = outputs_.back().get();
  while (!queue_.empty() && queue_.back().to == last) {
    pending_ -= queue_.back().bytes.size();
    queued_ -= queue_.back().bytes.size();
    queue_.pop_back();
  }
  if (writing_to_ == last) {  // all files before it are on the disk
    forgetting_ = true;
    if (write_under_way_ || sync_under_way_) return false;
    lock.unlock();
    release(batch_);
    lock.lock();
    dirty_ = flush_ = sync_failing_ = forgetting_ = false;
    writing_to_ = nullptr;
    out_of_trouble();
    if (retry_.pending()) disk_.home().remove(retry_);
  }
  left = std::move(outputs_.back());
  outputs_.pop_back();
  outputs_count_ = outputs_.size();
  size_ = 0;
  lock.unlock();
  return true;
}

stream::chunk& stream::room(output& to, std::size_t bytes) {
  if (!queue_.empty()) {
    chunk& last = queue_.back();
    if (last.to == &to && last.bytes.capacity() - last.bytes.size() >= bytes) return last;
  }
  chunk fresh;
  if (bytes <= chunk_bytes && !spare_.empty()) {
    fresh = std::move(spare_.back());
    spare_.pop_back();
  } else {
    fresh.bytes.reserve(std::max(bytes, chunk_bytes));
  }
  fresh.to = &to;
  return queue_.emplace_back(std::move(fresh));
}

std::uint64_t stream::append(const record_body& body) {
  CORDMA_REQUIRE_OP(body.bytes, <=, max_record_bytes);
  const std::uint64_t sequence = appended_.load(std::memory_order_relaxed) + 1;
  appended_.store(sequence, std::memory_order_release);
  // Discarded: the reader of the file is notified of the failure.
  if (failed_.load() != 0) return sequence;
  output& to = *outputs_.back();
  const auto length = static_cast<std::uint32_t>(body.bytes);
  const auto head =
      encode(record_header{length, record_crc(body.crc, length, to.salt, sequence), sequence});
  const std::size_t bytes = head.size() + body.bytes;
  chunk& c = room(to, bytes);
  c.bytes.insert(c.bytes.end(), head.begin(), head.end());
  for (const std::string_view piece : body.pieces) {
    c.bytes.insert(c.bytes.end(), piece.begin(), piece.end());
  }
  c.last = sequence;
  pending_.fetch_add(bytes, std::memory_order_relaxed);
  queued_.fetch_add(bytes, std::memory_order_release);
  size_.fetch_add(bytes, std::memory_order_relaxed);
  return sequence;
}

bool stream::has_work() const noexcept {
  if (retry_.pending() || given_up()) return false;
  if (sync_wanted()) return true;
  if (write_under_way_ || blocked_) return false;
  return queued_.load(std::memory_order_acquire) != 0 || !batch_.empty();
}

bool stream::work() noexcept {
  if (retry_.pending() || given_up()) return false;
  bool begun = false;
  if (sync_wanted()) {
    begin_sync();
    begun = true;
  }
  if (write_under_way_) return begun;
  if (!batch_.empty() || take_batch()) {
    write_batch();
    return true;
  }
  if (leave_output()) return true;
  // Queued records belong to the next file, which must wait for this file's fsync.
  blocked_ = queued_.load(std::memory_order_acquire) != 0;
  return begun;
}

// Takes all queued chunks for the file being written.
bool stream::take_batch() noexcept {
  if (queued_.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(guard_);
  output* const to = outputs_.front().get();
  batch_bytes_ = 0;
  while (!queue_.empty() && queue_.front().to == to && batch_.size() < disk::most_pieces) {
    const std::size_t more = queue_.front().bytes.size();
    if (!batch_.empty() && batch_bytes_ + more > batch_bytes) break;
    batch_bytes_ += more;
    batch_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_ -= batch_bytes_;
  batch_written_ = 0;
  writing_to_ = to;
  return !batch_.empty();
}

void stream::write_batch() noexcept {
  pieces_.clear();
  std::size_t skip = batch_written_;
  for (chunk& c : batch_) {
    if (skip >= c.bytes.size()) {
      skip -= c.bytes.size();
      continue;
    }
    pieces_.push_back({c.bytes.data() + skip, c.bytes.size() - skip});
    skip = 0;
  }
  batch_syncs_ = policy_.load() == sync_policy::always;
  write_under_way_ = true;
  ++counters_.writes;
  if (batch_syncs_) {
    ++counters_.syncs;
    sync_began_ = disk_.home().now();
  }
  disk_.write(write_, writing_to_->fd.get(), pieces_, writing_to_->offset + batch_written_,
              batch_syncs_);
}

void stream::written() noexcept {
  write_under_way_ = false;
  blocked_ = false;
  if (failed_.load() != 0) release(batch_);
  if (given_up()) return moved_();
  const int outcome = write_.outcome();
  if (outcome == -EAGAIN || outcome == -EINTR) return;  // retried in the next pass
  if (outcome < 0) return into_trouble(-outcome);
  if (outcome == 0) return into_trouble(EIO);
  dirty_ = true;
  batch_written_ += static_cast<std::size_t>(outcome);
  if (batch_written_ < batch_bytes_) return;  // the rest is written in the next pass
  if (batch_syncs_ && write_.sync_outcome() != 0) {
    // After a failed fsync the kernel may have dropped the pages: all is written again.
    batch_written_ = 0;
    return into_trouble(write_.sync_outcome());
  }
  batch_done();
}

void stream::batch_done() noexcept {
  writing_to_->offset += batch_bytes_;
  written_ = batch_.back().last;
  if (batch_syncs_) {
    counters_.last_sync = disk_.home().now() - sync_began_;
    // Its fsync also covers all earlier writes.
    dirty_ = false;
    sync_failing_ = false;
    durable_.store(std::max(durable_.load(), written_));
  }
  release(batch_);
  out_of_trouble();
  moved_();
}

void stream::release(std::vector<chunk>& chunks) noexcept {
  const std::lock_guard lock(guard_);
  for (chunk& c : chunks) {
    pending_ -= c.bytes.size();
    if (c.bytes.capacity() != chunk_bytes || spare_.size() >= most_spare) continue;
    c.bytes.clear();
    spare_.push_back(std::move(c));
  }
  chunks.clear();
}

bool stream::sync_wanted() const noexcept {
  if (sync_under_way_ || !dirty_) return false;
  if (flush_ && written_ >= flush_until_) return true;
  // A batch written only in part is synced by its remaining write.
  const bool at_once = policy_.load() == sync_policy::always || outputs_count_.load() > 1;
  return at_once && batch_.empty();
}

void stream::begin_sync() noexcept {
  flush_ = false;
  sync_under_way_ = true;
  dirty_ = false;
  slow_told_ = false;
  sync_covers_ = written_;
  sync_began_ = disk_.home().now();
  ++counters_.syncs;
  disk_.sync(sync_, writing_to_->fd.get());
}

void stream::synced() noexcept {
  sync_under_way_ = false;
  blocked_ = false;
  if (given_up()) return moved_();
  counters_.last_sync = disk_.home().now() - sync_began_;
  if (sync_.outcome() < 0) {
    dirty_ = true;
    flush_ = true;
    suspect_ = true;
    sync_failing_ = true;
    return into_trouble(-sync_.outcome());
  }
  sync_failing_ = false;
  durable_.store(std::max(durable_.load(), sync_covers_));
  out_of_trouble();
  moved_();
}

// Closes the current file if all its records are on the disk and a next file exists.
bool stream::leave_output() noexcept {
  if (outputs_count_.load() <= 1 || sync_under_way_ || dirty_) return false;
  std::unique_ptr<output> left;  // closed without the guard
  {
    const std::lock_guard lock(guard_);
    if (!queue_.empty() && queue_.front().to == outputs_.front().get()) return false;
    left = std::move(outputs_.front());
    outputs_.pop_front();
    outputs_count_ = outputs_.size();
  }
  writing_to_ = nullptr;
  moved_();
  return true;
}

bool stream::tick() noexcept {
  const cordma::time_point now = disk_.home().now();
  const bool due = now - sync_began_ >= sync_interval;
  if (dirty_ && due && policy_.load() == sync_policy::every_second && !flush_) {
    flush_ = true;
    flush_until_ = written_;
  }
  const bool syncing = sync_under_way_ || (write_under_way_ && batch_syncs_);
  if (!syncing || slow_told_ || now - sync_began_ < slow_sync) return false;
  slow_told_ = true;
  ++counters_.slow_syncs;
  return true;
}

void stream::into_trouble(int code) noexcept {
  if (!options_.keeps_trying) return give_up(code);
  {
    const std::lock_guard lock(guard_);
    trouble_ = std::strerror(code);
  }
  if (!retry_.pending()) disk_.home().add(retry_, disk_.home().now() + retry_after);
  if (!troubled_.exchange(true)) moved_();
}

void stream::out_of_trouble() noexcept {
  if (!sync_failing_ && batch_.empty()) troubled_ = false;
}

void stream::give_up(int code) noexcept {
  failed_ = code;
  if (!write_under_way_) release(batch_);  // else the kernel still reads it
  {
    const std::lock_guard lock(guard_);
    pending_ -= queued_;
    queued_ = 0;
    queue_.clear();
  }
  moved_();
}

std::optional<std::string> stream::trouble() const {
  if (!troubled_.load()) return std::nullopt;
  const std::lock_guard lock(guard_);
  return trouble_;
}

std::optional<std::string> stream::trouble_locked() const {
  if (!troubled_.load()) return std::nullopt;
  return trouble_;
}

}  // namespace kv
