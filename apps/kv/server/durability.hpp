// durability: the journal of a server, on its first worker: loading, what clients ask of it, the end.
#pragma once

#include "../command/service.hpp"
#include "../journal/journal.hpp"
#include "logbook.hpp"
#include "worker.hpp"

#include <cordma/runtime/scope.hpp>

#include <functional>
#include <future>
#include <memory>
#include <string>

namespace kv {

// Made, used and destroyed by the main thread, but where it says otherwise; `home` runs all the while.
class durability {
 public:
  struct surroundings {
    worker& home;
    service& of;
    logbook& log;
    bool io_uring = true;
    std::function<void()> advanced;  // journal_advanced() is due on all workers; on home's thread
    std::function<void()>
        policy_changed;  // appendfsync is another; on the thread of change_settings()
  };
  // Throws cordma::error.
  durability(const surroundings& around, const settings& s);
  ~durability();
  durability(const durability&) = delete;
  durability& operator=(const durability&) = delete;

  // What is on the disk; then changes are noted. Where another server has it nothing is touched. Throws cordma::error,
  // with what to do; canceled: `unwanted`, which is asked once a second, said so.
  void load(const std::function<bool()>& unwanted);
  // From load() on; there before.
  [[nodiscard]] journal_gate& gate() noexcept { return *journal_; }
  // Before anything is kept that was not to be: empty, or why that cannot be. Any thread.
  [[nodiscard]] std::string claim();
  // Where appendonly was turned on and has not all yet: it has when that is ready, or that has failed.
  [[nodiscard]] std::future<void> until_on();
  // What runs behind is given up when that is ready, and nothing is begun before allow_background(): save() finds
  // nothing under way.
  [[nodiscard]] std::future<void> end_background();
  void allow_background();
  // What would change anything has to wait, or not any more.
  void hold_changes(bool on);
  // With a disk that takes nothing: seconds, or one more try.
  enum class patience : std::uint8_t { usual, brief };
  // All that was noted is on the disk when that is ready.
  [[nodiscard]] std::future<void> until_durable(patience how_long);
  // All is on the disk when that is ready, and nothing is noted any more.
  [[nodiscard]] std::future<void> close();
  // As SAVE. Waits. Throws cordma::error.
  void save();
  // Fills in what the service asks main for.
  void answer(service_hooks& hooks);
  // Any thread, which holds all shards and nothing else. Empty; or why that cannot be, and then nothing has changed.
  [[nodiscard]] std::string change_settings(const settings& before, const settings& after);
  [[nodiscard]] journal_info info() const { return journal_->info(); }

 private:
  void check_databases() const;
  [[nodiscard]] std::future<void> run(cordma::task<void> (*work)(journal* on));
  [[nodiscard]] persistence_info persistence() const;

  surroundings around_;
  std::unique_ptr<journal> journal_;
  std::unique_ptr<cordma::scope> tasks_;  // of home's
};

}  // namespace kv
