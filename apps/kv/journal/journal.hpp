// journal: records changes on the disk, and restores a server's keys from them at the next start.
//
// appenddirname holds a manifest, a base and increments, as in Redis 7. A rewrite begins a new
// increment, walks the shards in short steps and writes the keys to a new base; then it replaces
// the manifest. A base is not a snapshot of one moment: it has each key as it was when the walk
// read it. Every change since the increment began is also in the increment, as the state that it
// led to. So base and increments, read in order, restore exactly the last state. A snapshot
// (dbfilename) is such a walk that writes concurrent changes to the same file.
#pragma once

#include "../keyspace/journal_gate.hpp"
#include "../keyspace/keyspace.hpp"
#include "load.hpp"
#include "stream.hpp"

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/task.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv {

// `save <seconds> <changes>`
struct snapshot_rule {
  std::uint64_t seconds = 0;
  std::uint64_t changes = 0;
};

// Members are named after their settings.
struct journal_options {
  std::string dir = ".";
  std::string appenddirname = "appendonlydir";
  std::string appendfilename = "appendonly.aof";
  std::string dbfilename = "dump.ckv";
  bool appendonly = false;
  sync_policy appendfsync = sync_policy::every_second;
  std::uint64_t auto_aof_rewrite_percentage = 100;  // 0: no automatic rewrite
  std::uint64_t auto_aof_rewrite_min_size = std::uint64_t{64} << 20;
  std::vector<snapshot_rule> save;
  bool stop_writes_on_bgsave_error = true;
  // Limit of bytes waiting to be written; above it clients are held back.
  std::size_t most_pending = std::size_t{64} << 20;
  bool io_uring = true;
};

enum class background : std::uint8_t { none, rewrite, snapshot };

struct background_report {
  background what = background::none;
  std::optional<std::string> failed;  // reason
  double seconds = 0;
  std::uint64_t bytes = 0;
};

// The callbacks run on the journal's thread, except `log` and `warn`, which run on any. Each may be
// empty.
struct journal_events {
  // durable(), waits() or refuses() may have changed.
  std::function<void()> on_durable;
  std::function<void(const background_report&)> on_background;
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> warn = {};  // serious messages; if empty, they go to log
};

struct journal_info {
  bool appendonly = false;  // changes are in a journal that the next start reads
  background running = background::none;
  bool rewrite_scheduled = false;
  std::uint64_t current_bytes = 0;  // size of the journal's files
  std::uint64_t base_bytes = 0;
  std::size_t pending_bytes = 0;
  std::uint64_t pending_records = 0;         // records not on the disk yet: lost if the power fails
  bool backlogged = false;                   // changes wait until fewer bytes are pending
  std::uint64_t changes = 0;                 // since the start
  std::uint64_t changes_since_snapshot = 0;  // rdb_changes_since_last_save
  std::uint64_t last_snapshot = 0;           // seconds since 1970; 0: none
  std::uint64_t rewrites = 0;
  std::uint64_t snapshots = 0;
  bool last_rewrite_failed = false;
  bool last_snapshot_failed = false;
  double last_rewrite_seconds = -1;
  double last_snapshot_seconds = -1;
  double running_seconds = -1;
  stream_counters writes;
  std::optional<std::string> trouble;
  std::string last_error;  // of writing or rewriting the journal; empty: no error so far
};

struct load_report {
  enum class source : std::uint8_t { nothing, journal, snapshot };
  source from = source::nothing;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t expired = 0;    // keys dropped because they had expired
  std::uint64_t cut_bytes = 0;  // bytes cut off the journal's end that were no record
  double seconds = 0;
};

// One per process. Bound to the thread of its reactor, which must be the shard's thread if there is
// only one shard; members for any thread are marked. Lifecycle: construct, load(), open(), serve,
// close(), destroy. Memory: most_pending, the changes of the running commands, and during a walk 8
// MiB plus the size of the longest value.
class journal final : public journal_gate, public group_listener {
 public:
  // Throws cordma::error: no_memory, or any error of the reactor.
  journal(cordma::reactor& home, keyspace& keys, journal_options options, journal_events events);
  // REQUIRES that no other thread uses it any more. Unwritten changes are lost unless close() ran
  // before.
  ~journal() override;
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  // Loads the journal into the keyspace if appendonly is set and a journal exists, else the
  // snapshot. The keyspace must be empty and unused. If appendonly or `save` is set, claims the
  // folders first. Blocks. Errors: claim()'s; invalid_value, with the file, the position and a
  // remedy; no_memory: the data do not fit; canceled, if `progress` returned false; the system's.
  [[nodiscard]] cordma::result<load_report> load(const load_options& options);
  // Begins to record changes. Loaded keys that are not in the journal yet are written to it before
  // this completes. Throws cordma::error: the system's. Not canceled.
  [[nodiscard]] cordma::task<void> open();
  // Completes when the journal is in effect, or when its rewrite has failed, after appendonly was
  // turned on. Not canceled.
  [[nodiscard]] cordma::task<void> until_on();
  // Aborts a running rewrite or snapshot and waits for its end. None begins until
  // allow_background(), so save() finds none running. Not canceled.
  [[nodiscard]] cordma::task<void> end_background();
  void allow_background() noexcept { stopping_ = false; }
  // While on, backlogged() is true: commands that change anything wait.
  void hold_changes(bool on) noexcept;
  // Completes when all appended records are on the disk. Throws cordma::error: io_failed, if
  // appendonly is on and the disk accepts no write for `patience`. Not canceled.
  [[nodiscard]] cordma::task<void> until_durable(cordma::duration patience = usual_patience);
  // Like until_durable() with brief_patience; then stops recording. A running rewrite or snapshot
  // is aborted.
  [[nodiscard]] cordma::task<void> close();
  static constexpr cordma::duration usual_patience = std::chrono::seconds(10);
  static constexpr cordma::duration brief_patience = std::chrono::milliseconds(1'500);  // one retry

  // Changes made during one hold of the keyspace form a group: after a crash all of it is present
  // or none. A change made outside any hold is a group by itself.
  void begin_group(std::uint64_t shards) noexcept override;
  void end_group(std::uint64_t shards) noexcept override;

  // Any thread:
  // Number of the last appended record: at the end of a group, at least the group's number.
  [[nodiscard]] std::uint64_t appended() const noexcept override { return main_.appended(); }
  // Records up to this number survive a power loss.
  [[nodiscard]] std::uint64_t durable() const noexcept override { return main_.durable(); }
  // True with appendfsync always: a reply must wait until durable() reaches the value of appended()
  // after its command.
  [[nodiscard]] bool waits() const noexcept override {
    return always_.load(std::memory_order_relaxed);
  }
  // Too many bytes wait to be written to the journal or to a snapshot: commands that change
  // anything must wait.
  [[nodiscard]] bool backlogged() const noexcept override {
    return backlogged_.load(std::memory_order_relaxed) || held_.load(std::memory_order_relaxed);
  }
  // Commands that change anything must fail: until the journal can be written again, until a
  // snapshot succeeds after a failed background snapshot (stop-writes-on-bgsave-error), or for good
  // after close(). Records appended before are kept.
  [[nodiscard]] bool refuses() const noexcept override {
    return closed_.load(std::memory_order_relaxed) ||
           stopped_by_snapshot_.load(std::memory_order_relaxed) ||
           (counts_.load(std::memory_order_relaxed) && main_.in_trouble());
  }
  [[nodiscard]] std::string why() const override;
  [[nodiscard]] std::optional<std::string> trouble() const;
  [[nodiscard]] journal_info info() const;

  // Locks dir, and appenddirname if it exists, for this journal until it is destroyed or the
  // process ends. REQUIRED before any write there: load(), save() and rewrites call it, and callers
  // that turn on appendonly or snapshots must call it. If the file system has no locks, logs that
  // and succeeds. If another process has a folder, waits for `patience`. Errors: in_use, naming
  // that process, with a remedy.
  [[nodiscard]] cordma::result<void> claim(cordma::duration patience = {});
  static constexpr cordma::duration claim_patience = std::chrono::seconds(2);  // at the start

  void set_policy(sync_policy policy) noexcept;
  void set_rewriting(std::uint64_t percentage, std::uint64_t min_size);
  // With `stop_on_error`, a failed background snapshot stops changes until one succeeds, as long as
  // there are rules.
  void set_rules(std::vector<snapshot_rule> save, bool stop_on_error);
  // Sets appendonly at runtime. When it is turned on, a rewrite begins, and the journal is in
  // effect once that ends; a failed rewrite is repeated after rewrite_retry.
  void set_appendonly(bool on);
  enum class asked : std::uint8_t { begun, scheduled, goes_on_already, off };
  // BGREWRITEAOF, BGSAVE. on_background() reports the end. `off`: a rewrite was requested without
  // appendonly.
  asked ask_for(background what);
  // SAVE: blocks all changes, and the calling thread, until it is done. REQUIRES that the caller
  // holds nothing and is on the shard's thread if there is only one. Errors: claim()'s; in_progress
  // (a snapshot or a rewrite is running); the system's.
  [[nodiscard]] cordma::result<void> save();
  // Aborts a running snapshot. If there are rules, also removes the snapshot file, so that a start
  // after a crash loads no earlier snapshot. Blocks on the disk. REQUIRES that the keyspace is
  // empty and that the caller holds all of it. Errors: claim()'s; the system's.
  [[nodiscard]] cordma::result<void> drop_snapshot();

 private:
  class shard_sink;
  struct tick_timer final : cordma::timer {
    explicit tick_timer(journal& j) noexcept;
    journal& owner;
  };
  struct claimed {
    cordma::unique_fd lock;
    bool done = false;  // with a lock, or without one if the file system has none
  };
  static constexpr cordma::duration tick_every = std::chrono::milliseconds(100);
  static constexpr std::size_t walk_pending = std::size_t{8} << 20;
  static constexpr cordma::duration snapshot_retry = std::chrono::seconds(5);
  static constexpr cordma::duration rewrite_retry = std::chrono::seconds(60);

  void mind_failed_snapshot() noexcept;
  [[nodiscard]] bool noting() const noexcept { return noting_.load(std::memory_order_relaxed); }
  void commit(std::uint64_t shards) noexcept;
  // The sink of the lowest of these shards.
  [[nodiscard]] shard_sink& at(std::uint64_t shards) noexcept;
  void append(const record_body& body) noexcept;
  void moved() noexcept;
  void tick() noexcept;
  void tell_trouble();
  void tell_error(const std::string& why);
  void begin_what_is_due();
  [[nodiscard]] bool rewrite_is_due() const;
  [[nodiscard]] bool is_coming() const;
  [[nodiscard]] bool snapshot_is_due() const;
  void say(const std::string& line) const {
    if (events_.log) events_.log(line);
  }
  void warn(const std::string& line) const { events_.warn ? events_.warn(line) : say(line); }
  [[nodiscard]] std::uint64_t changes() const noexcept;
  [[nodiscard]] std::uint64_t total_bytes() const noexcept;

  [[nodiscard]] std::string directory() const {
    return options_.dir + "/" + options_.appenddirname;
  }
  [[nodiscard]] std::string file_name(std::uint64_t number, log_kind kind) const;
  // Loading and opening: journal_open.cpp.
  [[nodiscard]] cordma::result<load_report> load_files(const load_options& options);
  [[nodiscard]] cordma::result<void> claim(const std::string& folder, claimed& as,
                                           cordma::duration patience) const;
  [[nodiscard]] cordma::task<void> go_on(loaded_journal from);
  void turn_off();
  // Background work: background.cpp.
  void start(background what);
  [[nodiscard]] cordma::task<void> run(background what);
  [[nodiscard]] cordma::task<void> rewrite();
  [[nodiscard]] cordma::task<void> sync_ahead();
  [[nodiscard]] cordma::task<void> settled();
  [[nodiscard]] cordma::task<void> next_increment();
  [[nodiscard]] cordma::task<void> install_base(std::uint64_t number);
  void took_base(manifest files);
  [[nodiscard]] cordma::task<void> drop_history();
  [[nodiscard]] cordma::task<void> snapshot();
  [[nodiscard]] cordma::task<void> open_side(std::string path, log_kind kind, std::uint64_t first);
  [[nodiscard]] cordma::task<void> walk();
  [[nodiscard]] cordma::task<void> finish_side();
  void close_side();
  [[nodiscard]] cordma::task<void> forget_increment();
  enum class made : std::uint8_t { behind, waited_for };
  void noted_snapshot(made how, const std::optional<cordma::failure>& failed, double seconds,
                      std::uint64_t changes);
  [[nodiscard]] std::uint64_t dropped();
  // Returns nothing if drop_snapshot() was called since `dropped` was read; the temporary file is
  // removed then.
  [[nodiscard]] std::optional<cordma::result<void>> install_snapshot(const std::string& temporary,
                                                                     std::uint64_t dropped);
  void check_side() const;
  void check_wanted();
  void tell_off(const std::optional<cordma::failure>& failed);
  void ended(background what, const std::optional<cordma::failure>& failed, double seconds);

  keyspace& keys_;
  const journal_options options_;
  journal_events events_;
  std::mutex snapshot_guard_;  // guards the file named dbfilename
  std::uint64_t dropped_ = 0;  // number of its drops; snapshots begun before one are not installed
  std::mutex claims_guard_;
  claimed dir_;
  claimed directory_;  // of appenddirname
  disk disk_;
  // guards the streams that records are appended to, and the settings below
  mutable std::mutex guard_;
  stream main_;
  std::vector<std::unique_ptr<shard_sink>> sinks_;
  bool side_on_ = false;  // changes are appended to side_
  std::uint64_t rewrite_percentage_;
  std::uint64_t rewrite_min_size_;
  std::vector<snapshot_rule> rules_;
  bool stop_on_error_;
  std::string snapshot_failure_;  // of the last background snapshot; empty: it succeeded
  bool wanted_on_;                // last setting of appendonly
  bool rewrite_asked_ = false;
  bool snapshot_asked_ = false;
  bool off_told_ = false;  // it was logged that appendonly is set but not in effect

  std::atomic<bool> main_on_{false};  // changes are appended to main_; set under the guard
  std::atomic<bool> counts_{false};   // main_on_, and the manifest names its file
  std::atomic<bool> closed_{false};
  std::atomic<bool> noting_{false};
  std::atomic<bool> always_{false};
  std::atomic<bool> backlogged_{false};
  std::atomic<bool> held_{false};
  std::atomic<bool> stopped_by_snapshot_{false};
  std::atomic<background> running_{background::none};

  // Used on the journal's thread only.
  std::optional<loaded_journal> loaded_;
  manifest files_;
  std::uint64_t base_bytes_ = 0;
  std::uint64_t older_bytes_ = 0;  // size of the increments before the current one
  std::unique_ptr<stream> side_;   // base or snapshot being written
  std::string side_path_;
  std::uint64_t side_bytes_ = 0;
  std::uint64_t changes_in_side_ = 0;
  cordma::event moved_;
  bool opened_ = false;
  bool stopping_ = false;
  bool trouble_told_ = false;
  bool waits_told_ = false;
  cordma::time_point began_{};  // of the running background work
  // Guarded. Delays use the reactor's clock, because the time of day may jump.
  cordma::time_point last_snapshot_{};
  cordma::time_point next_snapshot_{};  // earliest retry after a failure
  cordma::time_point next_rewrite_{};
  journal_info told_;  // stored part of info()
  std::uint64_t changes_at_snapshot_ = 0;
  tick_timer tick_{*this};
  cordma::scope running_tasks_;
};

}  // namespace kv
