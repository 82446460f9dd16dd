#include "durability.hpp"

#include <array>
#include <exception>
#include <string>
#include <utility>

namespace kv {
namespace {

[[nodiscard]] sync_policy policy_of(fsync_policy p) noexcept {
  switch (p) {
    case fsync_policy::always: return sync_policy::always;
    case fsync_policy::everysec: return sync_policy::every_second;
    case fsync_policy::no: return sync_policy::no;
  }
  return sync_policy::every_second;
}

[[nodiscard]] std::vector<snapshot_rule> rules_of(const settings& s) {
  std::vector<snapshot_rule> rules;
  for (const save_point& p : s.save) rules.push_back({p.seconds, p.changes});
  return rules;
}

[[nodiscard]] journal_options options_of(const settings& s, bool io_uring) {
  journal_options o;
  o.dir = ".";  // the working directory of the process: see server
  o.appenddirname = s.appenddirname;
  o.appendfilename = s.appendfilename;
  o.dbfilename = s.dbfilename;
  o.appendonly = s.appendonly;
  o.appendfsync = policy_of(s.appendfsync);
  o.auto_aof_rewrite_percentage = s.auto_aof_rewrite_percentage;
  o.auto_aof_rewrite_min_size = s.auto_aof_rewrite_min_size;
  o.save = rules_of(s);
  o.stop_writes_on_bgsave_error = s.stop_writes_on_bgsave_error;
  o.io_uring = io_uring;
  return o;
}

[[nodiscard]] std::string seconds_of(double s) {
  std::string text = std::to_string(s);
  return text.substr(0, text.find('.') + 3) + " s";
}

cordma::task<void> tell(cordma::task<void> work, std::promise<void>* done) {
  const std::unique_ptr<std::promise<void>> owned(done);
  std::exception_ptr failed;
  try {
    co_await std::move(work);
  } catch (...) {
    failed = std::current_exception();
  }
  if (failed) {
    owned->set_exception(failed);
  } else {
    owned->set_value();
  }
}

cordma::task<void> open_journal(journal* on) { return on->open(); }
cordma::task<void> until_on_of(journal* on) { return on->until_on(); }
cordma::task<void> end_background_of(journal* on) { return on->end_background(); }
cordma::task<void> until_durable_of(journal* on) { return on->until_durable(); }
cordma::task<void> until_durable_soon_of(journal* on) {
  return on->until_durable(journal::brief_patience);
}
cordma::task<void> close_journal(journal* on) { return on->close(); }

[[nodiscard]] std::string begun(journal::asked a, const std::string& what) {
  return a == journal::asked::scheduled ? what + " scheduled" : what + " started";
}

}  // namespace

durability::durability(const surroundings& around, const settings& s) : around_(around) {
  around_.home.call([this, &s] {
    journal_events events;
    events.on_durable = around_.advanced;
    logbook& log = around_.log;
    events.log = [&log](const std::string& line) { log.write(log_level::notice, line); };
    events.warn = [&log](const std::string& line) { log.write(log_level::warning, line); };
    cordma::reactor& loop = around_.home.loop();
    journal_ = std::make_unique<journal>(loop, around_.of.keys(), options_of(s, around_.io_uring),
                                         std::move(events));
    tasks_ = std::make_unique<cordma::scope>(loop);
  });
}

durability::~durability() {
  around_.home.call([this] {
    tasks_.reset();
    around_.of.journal = nullptr;
    journal_.reset();
  });
}

std::future<void> durability::run(cordma::task<void> (*work)(journal* on)) {
  auto done = std::make_unique<std::promise<void>>();
  std::future<void> end = done->get_future();
  around_.home.call([&] { tasks_->spawn(tell(work(journal_.get()), done.release())); });
  return end;
}

void durability::load(const std::function<bool()>& unwanted) {
  logbook& log = around_.log;
  around_.home.call([&] {
    load_options o;
    o.often = std::chrono::seconds(1);
    o.progress = [&log, &unwanted](const load_progress& p) {
      log.write(log_level::notice, "loading " + p.text());
      tell_service_manager("STATUS=loading " + p.text() + "\nEXTEND_TIMEOUT_USEC=30000000");
      return !unwanted();
    };
    o.log = [&log](const std::string& line) { log.write(log_level::warning, line); };
    const load_report r = journal_->load(o).value();
    check_databases();
    if (r.from == load_report::source::nothing) return;
    const bool from_journal = r.from == load_report::source::journal;
    log.write(log_level::notice, std::string("loaded ") +
                                     (from_journal ? "the journal" : "the snapshot") + ": " +
                                     std::to_string(r.records) + " records, " +
                                     std::to_string(r.bytes) + " bytes, " + seconds_of(r.seconds));
  });
  run(&open_journal).get();
  around_.of.journal = journal_.get();
}

// Fails if the files contain keys in databases that no client could reach; they would take memory.
void durability::check_databases() const {
  keyspace& keys = around_.of.keys();
  const std::uint64_t databases = around_.of.current(around_.home.index()).databases;
  std::array<std::size_t, most_databases + 1> found{};
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    for (unsigned db = 0; db < found.size(); ++db) found[db] += keys.at(i).size_of(db);
  }
  for (auto db = static_cast<unsigned>(databases); db < most_databases; ++db) {
    if (found[db] == 0) continue;
    cordma::throw_error({cordma::errc::invalid_value,
                         "databases is " + std::to_string(databases) +
                             ", and what is kept in dir has " + std::to_string(found[db]) +
                             " keys in database " + std::to_string(db) + ": set databases to " +
                             std::to_string(most_databases)});
  }
  if (found.back() == 0) return;
  around_.log.write(log_level::warning, std::to_string(found.back()) +
                                            " keys lie in no database: a SWAPDB of an "
                                            "earlier version was cut off by a crash");
}

std::future<void> durability::until_on() { return run(&until_on_of); }
std::future<void> durability::end_background() { return run(&end_background_of); }
std::future<void> durability::until_durable(patience how_long) {
  return run(how_long == patience::usual ? &until_durable_of : &until_durable_soon_of);
}
std::future<void> durability::close() { return run(&close_journal); }

void durability::allow_background() {
  around_.home.call([this] { journal_->allow_background(); });
}

void durability::hold_changes(bool on) {
  around_.home.call([this, on] { journal_->hold_changes(on); });
}

void durability::save() {
  around_.home.call([this] { journal_->save().value(); });
}

void durability::answer(service_hooks& hooks) {
  hooks.save = [this]() -> hook_answer {
    const cordma::result<void> saved = journal_->save();
    if (saved) return {true, "OK"};
    const std::string why = saved.why().message();
    around_.log.write(log_level::warning, "SAVE failed: " + why);
    return {false, why};
  };
  hooks.background_save = [this]() -> hook_answer {
    const std::string taken = claim();
    if (!taken.empty()) return {false, taken};
    const journal::asked a = journal_->ask_for(background::snapshot);
    if (a == journal::asked::goes_on_already) return {false, "Background save already in progress"};
    return {true, begun(a, "Background saving")};
  };
  hooks.drop_snapshot = [this]() -> hook_answer {
    const cordma::result<void> dropped = journal_->drop_snapshot();
    if (dropped) return {};
    const std::string why = dropped.why().message();
    around_.log.write(log_level::warning, "the snapshot before FLUSHALL is still there: " + why);
    return {false, why};
  };
  hooks.rewrite_log = [this]() -> hook_answer {
    const journal::asked a = journal_->ask_for(background::rewrite);
    if (a == journal::asked::off) return {false, "there is no append only file: appendonly is no"};
    if (a == journal::asked::goes_on_already) {
      return {false, "Background append only file rewriting already in progress"};
    }
    return {true, begun(a, "Background append only file rewriting")};
  };
  hooks.persistence = [this] { return persistence(); };
}

persistence_info durability::persistence() const {
  const journal_info now = journal_->info();
  persistence_info p;
  p.loading = around_.of.loading;
  p.changes_since_save = now.changes_since_snapshot;
  p.save_in_progress = now.running == background::snapshot;
  p.last_save = now.last_snapshot;
  p.last_save_failed = now.last_snapshot_failed;
  p.saves = now.snapshots;
  p.save_seconds = now.last_snapshot_seconds;
  p.rewrites = now.rewrites;
  p.rewrite_seconds = now.last_rewrite_seconds;
  p.log_enabled = now.appendonly;
  p.rewrite_in_progress = now.running == background::rewrite;
  p.last_rewrite_failed = now.last_rewrite_failed;
  p.last_write_failed = now.trouble.has_value();
  p.last_log_error = now.last_error;
  p.log_bytes = now.current_bytes;
  p.log_base_bytes = now.base_bytes;
  return p;
}

std::string durability::claim() {
  const cordma::result<void> mine = journal_->claim();
  return mine ? std::string() : mine.why().message();
}

std::string durability::change_settings(const settings& before, const settings& after) {
  std::string taken = after.appendonly || !after.save.empty() ? claim() : std::string();
  if (!taken.empty()) return taken;
  if (before.appendfsync != after.appendfsync) {
    journal_->set_policy(policy_of(after.appendfsync));
    around_.policy_changed();  // one-sided readers are notified before the next change
    around_.home.post([this]() noexcept { around_.advanced(); });
  }
  if (before.save != after.save ||
      before.stop_writes_on_bgsave_error != after.stop_writes_on_bgsave_error) {
    journal_->set_rules(rules_of(after), after.stop_writes_on_bgsave_error);
  }
  journal_->set_rewriting(after.auto_aof_rewrite_percentage, after.auto_aof_rewrite_min_size);
  if (before.appendonly != after.appendonly) journal_->set_appendonly(after.appendonly);
  return {};
}

}  // namespace kv
