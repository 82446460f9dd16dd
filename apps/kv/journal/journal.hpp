// journal: what a server writes down so that its keys are there after its end, and how it finds them again.
//
// appenddirname holds a manifest, a base and increments, as Redis 7 has them. A rewrite begins a new increment, walks
// through the shards in short steps and writes what it finds into a new base; then the manifest changes. The base is
// no state that ever was: of a key it has what the key was when the walk came by. But every change since the increment
// began is in the increment, each as the state that it led to, so that base and increments, read in order, end in
// exactly what there was last. A snapshot (dbfilename) is such a walk with the changes meanwhile in the same file.
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

// Names are the settings' they come from.
struct journal_options {
  std::string dir = ".";
  std::string appenddirname = "appendonlydir";
  std::string appendfilename = "appendonly.aof";
  std::string dbfilename = "dump.ckv";
  bool appendonly = false;
  sync_policy appendfsync = sync_policy::every_second;
  std::uint64_t auto_aof_rewrite_percentage = 100;  // 0: not by itself
  std::uint64_t auto_aof_rewrite_min_size = std::uint64_t{64} << 20;
  std::vector<snapshot_rule> save;
  bool stop_writes_on_bgsave_error = true;
  // What may wait to be written before clients are held back.
  std::size_t most_pending = std::size_t{64} << 20;
  bool io_uring = true;
};

enum class background : std::uint8_t { none, rewrite, snapshot };

struct background_report {
  background what = background::none;
  std::optional<std::string> failed;  // why
  double seconds = 0;
  std::uint64_t bytes = 0;
};

// Called on the journal's thread, `log` and `warn` on any; each may be empty.
struct journal_events {
  // durable(), waits() or refuses() may have changed.
  std::function<void()> on_durable;
  std::function<void(const background_report&)> on_background;
  std::function<void(const std::string&)> log;
  std::function<void(const std::string&)> warn = {};  // what is grave; empty: log
};

struct journal_info {
  bool appendonly = false;  // what changes is in a journal that the next start reads
  background running = background::none;
  bool rewrite_scheduled = false;
  std::uint64_t current_bytes = 0;  // of the journal's files
  std::uint64_t base_bytes = 0;
  std::size_t pending_bytes = 0;
  std::uint64_t pending_records = 0;  // that the loss of power would take: not on the disk for good
  bool backlogged = false;            // changes wait until less is pending
  std::uint64_t changes = 0;          // since the start
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
  std::string last_error;  // of writing or rewriting the journal; empty: none so far
};

struct load_report {
  enum class source : std::uint8_t { nothing, journal, snapshot };
  source from = source::nothing;
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t expired = 0;    // keys that were dropped for that
  std::uint64_t cut_bytes = 0;  // of the journal's end, that were no record
  double seconds = 0;
};

// One for a process. Belongs to the thread of its reactor, which has to be the one that serves the shard where there is
// only one; what is for any thread says so. Order of life: construct, load(), open(), serve, close(), destroy.
// Memory: most_pending, the changes of the commands that are being carried out, and while it walks 8 MiB and what its
// longest value takes.
class journal final : public journal_gate, public group_listener {
 public:
  // Throws cordma::error: no_memory, or what the reactor says.
  journal(cordma::reactor& home, keyspace& keys, journal_options options, journal_events events);
  // REQUIRES that no other thread uses it any more. Without close() what is not written is lost.
  ~journal() override;
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  // What is on the disk, into the keyspace, which is empty and which nobody uses: the journal where appendonly says
  // so and there is one, else the snapshot. Where anything is to be kept, it claims before that. Waits. Errors:
  // claim()'s; invalid_value, with file, place and what to do; no_memory: it does not fit; canceled: `progress` said
  // so; the system's.
  [[nodiscard]] cordma::result<load_report> load(const load_options& options);
  // Begins to note what changes. Where what was loaded is not in the journal yet it is, when this is done. Throws
  // cordma::error: the system's. Not canceled.
  [[nodiscard]] cordma::task<void> open();
  // Turned on, the journal counts when it is done, or its rewrite has failed. Not canceled.
  [[nodiscard]] cordma::task<void> until_on();
  // What runs behind is given up when it is done, and nothing is begun until allow_background(): save() finds nothing
  // under way. Not canceled.
  [[nodiscard]] cordma::task<void> end_background();
  void allow_background() noexcept { stopping_ = false; }
  // What would change anything has to wait: backlogged() is true while this is on.
  void hold_changes(bool on) noexcept;
  // All that was appended is on the disk when it is done. Throws cordma::error: io_failed, where appendonly is on and
  // the disk takes nothing for `patience`. Not canceled.
  [[nodiscard]] cordma::task<void> until_durable(cordma::duration patience = usual_patience);
  // The same with brief_patience, and then nothing is noted any more. What runs behind is given up.
  [[nodiscard]] cordma::task<void> close();
  static constexpr cordma::duration usual_patience = std::chrono::seconds(10);
  static constexpr cordma::duration brief_patience =
      std::chrono::milliseconds(1'500);  // one more try

  // The keyspace's holds say what belongs together: after a crash all of it is there, or nothing. What changes while
  // nobody holds anything is a group each.
  void begin_group(std::uint64_t shards) noexcept override;
  void end_group(std::uint64_t shards) noexcept override;

  // Any thread:
  // The number of what was appended last: at the end of a group, at least its own.
  [[nodiscard]] std::uint64_t appended() const noexcept override { return main_.appended(); }
  // What has at most this number survives the loss of power.
  [[nodiscard]] std::uint64_t durable() const noexcept override { return main_.durable(); }
  // Whether a reply has to wait until durable() has reached what appended() was after its command: where appendfsync
  // says always.
  [[nodiscard]] bool waits() const noexcept override {
    return always_.load(std::memory_order_relaxed);
  }
  // More is to be written than may be, to the journal or to a snapshot: what would change anything has to wait.
  [[nodiscard]] bool backlogged() const noexcept override {
    return backlogged_.load(std::memory_order_relaxed) || held_.load(std::memory_order_relaxed);
  }
  // What would change anything is to be refused until the journal works again, or a snapshot has succeeded after one
  // that failed behind (stop-writes-on-bgsave-error), or for good after close(). What was appended before is kept.
  [[nodiscard]] bool refuses() const noexcept override {
    return closed_.load(std::memory_order_relaxed) ||
           stopped_by_snapshot_.load(std::memory_order_relaxed) ||
           (counts_.load(std::memory_order_relaxed) && main_.in_trouble());
  }
  [[nodiscard]] std::string why() const override;
  [[nodiscard]] std::optional<std::string> trouble() const;
  [[nodiscard]] journal_info info() const;

  // dir, and appenddirname where that is there, are this journal's alone until it is destroyed, or the process has ended:
  // REQUIRED before anything is written there, which load(), save() and rewrites see to, and whoever turns on
  // appendonly or snapshots. Where the file system has no locks the log says so, and it goes on without. Waits for
  // `patience` where they are another's. Errors: in_use, saying whose they are and what to do.
  [[nodiscard]] cordma::result<void> claim(cordma::duration patience = {});
  static constexpr cordma::duration claim_patience = std::chrono::seconds(2);  // at the start

  void set_policy(sync_policy policy) noexcept;
  void set_rewriting(std::uint64_t percentage, std::uint64_t min_size);
  // Where it is to be so, a snapshot that fails behind stops changes until one succeeds, as long as there are rules.
  void set_rules(std::vector<snapshot_rule> save, bool stop_on_error);
  // appendonly, set at runtime. Turned on, the journal counts once the rewrite that begins then has ended; one that
  // fails is begun again after rewrite_retry.
  void set_appendonly(bool on);
  enum class asked : std::uint8_t { begun, scheduled, goes_on_already, off };
  // BGREWRITEAOF, BGSAVE. on_background() tells the end. `off`: a rewrite, without appendonly.
  asked ask_for(background what);
  // SAVE: nobody else changes anything until it is done. Waits. REQUIRES that the caller holds nothing, and is on the
  // shard's thread where there is only one. Errors: claim()'s; in_progress (a snapshot is under way); the system's.
  [[nodiscard]] cordma::result<void> save();
  // Where there are rules, what a start after a crash would load is no snapshot made before, and a snapshot that is under
  // way is given up. Waits for the disk. REQUIRES that the keyspace is empty and the caller holds all of it. Errors:
  // claim()'s; the system's.
  [[nodiscard]] cordma::result<void> drop_snapshot();

 private:
  class shard_sink;
  struct tick_timer final : cordma::timer {
    explicit tick_timer(journal& j) noexcept;
    journal& owner;
  };
  struct claimed {
    cordma::unique_fd lock;
    bool done = false;  // with a lock, or with none as there is none to be had
  };
  static constexpr cordma::duration tick_every = std::chrono::milliseconds(100);
  static constexpr std::size_t walk_pending = std::size_t{8} << 20;
  static constexpr cordma::duration snapshot_retry = std::chrono::seconds(5);
  static constexpr cordma::duration rewrite_retry = std::chrono::seconds(60);

  void mind_failed_snapshot() noexcept;
  [[nodiscard]] bool noting() const noexcept { return noting_.load(std::memory_order_relaxed); }
  void commit(std::uint64_t shards) noexcept;
  // Of the lowest of these shards.
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
  // What runs behind: background.cpp.
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
  // Nothing: a drop_snapshot() came since `dropped` was so, and there is no such file any more.
  [[nodiscard]] std::optional<cordma::result<void>> install_snapshot(const std::string& temporary,
                                                                     std::uint64_t dropped);
  void check_side() const;
  void check_wanted();
  void tell_off(const std::optional<cordma::failure>& failed);
  void ended(background what, const std::optional<cordma::failure>& failed, double seconds);

  keyspace& keys_;
  const journal_options options_;
  journal_events events_;
  std::mutex snapshot_guard_;  // of what dbfilename names
  std::uint64_t dropped_ =
      0;  // how often that was removed; a snapshot begun before is not installed
  std::mutex claims_guard_;
  claimed dir_;
  claimed directory_;  // appenddirname's
  disk disk_;
  mutable std::mutex guard_;  // of what is appended to, and of the settings below
  stream main_;
  std::vector<std::unique_ptr<shard_sink>> sinks_;
  bool side_on_ = false;  // what changes goes to side_
  std::uint64_t rewrite_percentage_;
  std::uint64_t rewrite_min_size_;
  std::vector<snapshot_rule> rules_;
  bool stop_on_error_;
  std::string snapshot_failure_;  // of the last one behind; empty: it succeeded
  bool wanted_on_;                // appendonly, as it was set last
  bool rewrite_asked_ = false;
  bool snapshot_asked_ = false;
  bool off_told_ = false;  // that it is to be on and is not

  std::atomic<bool> main_on_{false};  // what changes goes to main_; set under the guard
  std::atomic<bool> counts_{false};   // ... and that stands in the manifest
  std::atomic<bool> closed_{false};
  std::atomic<bool> noting_{false};
  std::atomic<bool> always_{false};
  std::atomic<bool> backlogged_{false};
  std::atomic<bool> held_{false};
  std::atomic<bool> stopped_by_snapshot_{false};
  std::atomic<background> running_{background::none};

  // The thread's own.
  std::optional<loaded_journal> loaded_;
  manifest files_;
  std::uint64_t base_bytes_ = 0;
  std::uint64_t older_bytes_ = 0;  // of increments before the one that is appended to
  std::unique_ptr<stream> side_;   // a base or a snapshot on its way
  std::string side_path_;
  std::uint64_t side_bytes_ = 0;
  std::uint64_t changes_in_side_ = 0;
  cordma::event moved_;
  bool opened_ = false;
  bool stopping_ = false;
  bool trouble_told_ = false;
  bool waits_told_ = false;
  cordma::time_point began_{};  // what runs
  // Guarded. Waits are measured by the reactor's clock: the time of day may jump.
  cordma::time_point last_snapshot_{};
  cordma::time_point next_snapshot_{};  // not before, after one failed
  cordma::time_point next_rewrite_{};
  journal_info told_;  // what of info() is kept
  std::uint64_t changes_at_snapshot_ = 0;
  tick_timer tick_{*this};
  cordma::scope running_tasks_;
};

}  // namespace kv
