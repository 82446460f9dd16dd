#include "journal.hpp"

#include "sinks.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace kv {

journal::tick_timer::tick_timer(journal& j) noexcept
    : timer([](timer& t) noexcept { static_cast<tick_timer&>(t).owner.tick(); }), owner(j) {}

journal::journal(cordma::reactor& home, keyspace& keys, journal_options options,
                 journal_events events)
    : keys_(keys),
      options_(std::move(options)),
      events_(std::move(events)),
      disk_(home, {.io_uring = options_.io_uring}),
      main_(disk_, guard_, {.most_pending = options_.most_pending, .keeps_trying = true},
            [this] { moved(); }),
      rewrite_percentage_(options_.auto_aof_rewrite_percentage),
      rewrite_min_size_(options_.auto_aof_rewrite_min_size),
      rules_(options_.save),
      stop_on_error_(options_.stop_writes_on_bgsave_error),
      wanted_on_(options_.appendonly),
      running_tasks_(home) {
  main_.set_policy(options_.appendfsync);
  for (std::uint32_t i = 0; i < keys_.shards(); ++i) {
    sinks_.push_back(std::make_unique<shard_sink>(*this, i));
  }
  if (!disk_.obstacle().empty()) say(disk_.obstacle());
}

journal::~journal() {
  for (std::uint32_t i = 0; opened_ && i < keys_.shards(); ++i) keys_.at(i).report_to(nullptr);
  if (opened_) keys_.report_to(nullptr);
}

journal::shard_sink& journal::at(std::uint64_t shards) noexcept {
  return *sinks_[static_cast<std::size_t>(std::countr_zero(shards))];
}

void journal::begin_group(std::uint64_t shards) noexcept {
  for (std::uint64_t left = shards; left != 0; left &= left - 1) at(left).group(true);
}

void journal::end_group(std::uint64_t shards) noexcept {
  for (std::uint64_t left = shards; left != 0; left &= left - 1) at(left).group(false);
  commit(shards);
}

// Appends the changes in the sinks of these shards as one record, or as few as possible if they
// exceed one record.
void journal::commit(std::uint64_t shards) noexcept {
  std::array<std::string_view, keyspace::most_shards> pieces;
  std::size_t count = 0;
  record_body body;
  const auto flush = [&] {
    if (count == 0) return;
    body.pieces = std::span(pieces).first(count);
    append(body);
    body = {};
    count = 0;
  };
  for (std::uint64_t left = shards; left != 0; left &= left - 1) {
    const std::string_view text = at(left).text();
    if (text.empty()) continue;
    if (body.bytes + text.size() > max_record_bytes) flush();
    pieces[count++] = text;
    body.bytes += text.size();
    body.crc = crc_more(body.crc, text);
  }
  if (count == 0) return;
  flush();
  for (std::uint64_t left = shards; left != 0; left &= left - 1) at(left).reset();
}

void journal::append(const record_body& body) noexcept {
  {
    const std::lock_guard lock(guard_);
    bool full = false;
    if (main_on_) {
      (void)main_.append(body);
      full = main_.backlogged();
    }
    if (side_on_) {
      (void)side_->append(body);
      full = full || side_->backlogged();
    }
    if (full) backlogged_.store(true, std::memory_order_relaxed);
  }
  if (disk_.home().on_owner_thread()) {
    disk_.home().stir();
  } else {
    disk_.nudge();
  }
}

void journal::moved() noexcept {
  {
    const std::lock_guard lock(guard_);
    const bool full = (main_on_ && main_.backlogged()) || (side_on_ && side_->backlogged());
    backlogged_.store(full, std::memory_order_relaxed);
  }
  // Waiting coroutines check again; later waits are for the next event.
  moved_.set();
  moved_.reset();
  tell_trouble();
  if (events_.on_durable) events_.on_durable();
}

std::optional<std::string> journal::trouble() const {
  return counts_.load() ? main_.trouble() : std::nullopt;
}

std::string journal::why() const {
  const std::optional<std::string> now =
      closed_.load() ? std::optional<std::string>("the server ends") : trouble();
  if (now) return "Errors writing to the AOF file: " + *now;
  const std::lock_guard lock(guard_);
  if (snapshot_failure_.empty()) return {};
  return "the last snapshot failed: " + snapshot_failure_ +
         "; changes are refused until one succeeds (BGSAVE), or do without: CONFIG SET "
         "stop-writes-on-bgsave-error no";
}

void journal::hold_changes(bool on) noexcept {
  held_.store(on, std::memory_order_relaxed);
  moved();
}

// REQUIRES the guard.
void journal::mind_failed_snapshot() noexcept {
  stopped_by_snapshot_.store(stop_on_error_ && !rules_.empty() && !snapshot_failure_.empty(),
                             std::memory_order_relaxed);
}

void journal::tell_trouble() {
  const std::optional<std::string> now = trouble();
  if (now.has_value() == trouble_told_) return;
  trouble_told_ = now.has_value();
  if (now) {
    tell_error(*now);
    warn("the journal cannot be written: " + *now +
         "; what would change anything is refused until it can, which is tried each second: make "
         "room there, or do without (CONFIG SET appendonly no)");
  } else if (counts_.load()) {
    say("the journal can be written again");
  }
}

void journal::tell_error(const std::string& why) {
  const std::lock_guard lock(guard_);
  told_.last_error = why;
}

void journal::tick() noexcept {
  disk_.home().add(tick_, disk_.home().now() + tick_every);
  if (main_.tick()) {
    say("an fsync of the journal takes longer than 2 s: is the disk busy? What is not on it yet, "
        "up "
        "to some seconds of changes, would be lost with the power");
  }
  if (side_) (void)side_->tick();
  {
    const std::lock_guard lock(guard_);
    told_.writes = main_.counters();
    told_.running_seconds =
        running_.load() == background::none
            ? -1
            : std::chrono::duration<double>(disk_.home().now() - began_).count();
  }
  if (waits() != waits_told_) {  // by a setting
    waits_told_ = waits();
    if (events_.on_durable) events_.on_durable();
  }
  begin_what_is_due();
  moved_.set();  // a waiting coroutine may have reached its deadline
  moved_.reset();
}

void journal::begin_what_is_due() {
  if (stopping_ || running_.load() != background::none) return;
  background due = background::none;
  bool unwanted = false;
  {
    const std::lock_guard lock(guard_);
    unwanted = main_on_ && !wanted_on_;
    if (rewrite_asked_) {
      due = background::rewrite;
    } else if (snapshot_asked_) {
      due = background::snapshot;
    } else if (rewrite_is_due()) {
      due = background::rewrite;
    } else if (snapshot_is_due()) {
      due = background::snapshot;
    }
  }
  if (unwanted) return turn_off();
  if (due != background::none) start(due);
}

bool journal::rewrite_is_due() const {
  if (!wanted_on_ || disk_.home().now() < next_rewrite_) return false;
  if (!main_on_) return true;
  if (main_.in_trouble()) return false;
  if (main_.suspect()) return true;
  const std::uint64_t now = total_bytes();
  if (rewrite_percentage_ == 0 || now < rewrite_min_size_) return false;
  const std::uint64_t base = std::max<std::uint64_t>(base_bytes_, 1);
  return now > base && (now - base) * 100 / base >= rewrite_percentage_;
}

// True if appendonly is set but not in effect, and the rewrite it needs is running or due.
bool journal::is_coming() const {
  const std::lock_guard lock(guard_);
  return wanted_on_ && !counts_ && (running_.load() != background::none || rewrite_is_due());
}

bool journal::snapshot_is_due() const {
  const cordma::time_point now = disk_.home().now();
  if (now < next_snapshot_) return false;
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(now - last_snapshot_).count();
  const std::uint64_t dirty = changes() - changes_at_snapshot_;
  return std::any_of(rules_.begin(), rules_.end(), [&](const snapshot_rule& rule) {
    return dirty >= rule.changes && dirty != 0 && static_cast<std::uint64_t>(since) >= rule.seconds;
  });
}

std::uint64_t journal::changes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& sink : sinks_) sum += sink->changes();
  return sum;
}

std::uint64_t journal::total_bytes() const noexcept {
  return base_bytes_ + older_bytes_ + main_.size();
}

journal_info journal::info() const {
  const std::lock_guard lock(guard_);
  journal_info now = told_;
  now.appendonly = counts_;
  now.running = running_.load();
  now.rewrite_scheduled = rewrite_asked_ && now.running != background::rewrite;
  now.current_bytes = main_on_ ? now.current_bytes + main_.size() : 0;
  now.pending_bytes = main_.pending();
  const std::uint64_t durable = main_.durable();
  now.pending_records = main_.appended() - durable;
  now.backlogged = backlogged_;
  now.changes = changes();
  now.changes_since_snapshot = now.changes - changes_at_snapshot_;
  if (counts_) now.trouble = main_.trouble_locked();
  return now;
}

void journal::set_policy(sync_policy policy) noexcept {
  const std::lock_guard lock(guard_);
  main_.set_policy(policy);
  always_ = counts_ && policy == sync_policy::always;
  disk_.nudge();
}

void journal::set_rewriting(std::uint64_t percentage, std::uint64_t min_size) {
  const std::lock_guard lock(guard_);
  rewrite_percentage_ = percentage;
  rewrite_min_size_ = min_size;
}

void journal::set_rules(std::vector<snapshot_rule> save, bool stop_on_error) {
  const std::lock_guard lock(guard_);
  rules_ = std::move(save);
  stop_on_error_ = stop_on_error;
  mind_failed_snapshot();
}

void journal::set_appendonly(bool on) {
  const std::lock_guard lock(guard_);
  wanted_on_ = on;
  if (on) next_rewrite_ = {};
  off_told_ = false;
  if (!on) rewrite_asked_ = false;
}

journal::asked journal::ask_for(background what) {
  const std::lock_guard lock(guard_);
  const background running = running_.load();
  if (what == background::rewrite && !wanted_on_) return asked::off;
  if (running == what) return asked::goes_on_already;
  (what == background::rewrite ? rewrite_asked_ : snapshot_asked_) = true;
  return running == background::none ? asked::begun : asked::scheduled;
}

}  // namespace kv
