// durability: the journal of a server, on its first worker: loading, requests of clients, and
// shutdown.
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

// Made, used and destroyed by the main thread, except where stated; `home` runs all that time.
class durability {
 public:
  struct surroundings {
    worker& home;
    service& of;
    logbook& log;
    bool io_uring = true;
    std::function<void()> advanced;  // journal_advanced() is due on all workers; on home's thread
    std::function<void()>
        policy_changed;  // appendfsync has changed; on the thread of change_settings()
  };
  // Throws cordma::error.
  durability(const surroundings& around, const settings& s);
  ~durability();
  durability(const durability&) = delete;
  durability& operator=(const durability&) = delete;

  // Loads the files on the disk; later changes are recorded. Nothing is touched if another server
  // uses them. Throws cordma::error that states what to do. Errors: canceled, if `unwanted`
  // returned true; it is called once a second.
  void load(const std::function<bool()>& unwanted);
  // Valid from load() on.
  [[nodiscard]] journal_gate& gate() noexcept { return *journal_; }
  // Claims the files, before anything is kept that was not kept so far. Returns an empty string, or
  // the reason of a failure. Any thread.
  [[nodiscard]] std::string claim();
  // Ready when a journal that was just turned on is complete, or that has failed.
  [[nodiscard]] std::future<void> until_on();
  // Ready when background work has been abandoned. None starts before allow_background(), so that
  // save() finds none in progress.
  [[nodiscard]] std::future<void> end_background();
  void allow_background();
  // Makes commands that would change data wait, or lets them continue.
  void hold_changes(bool on);
  // Patience with a disk that accepts nothing: several seconds, or one more attempt.
  enum class patience : std::uint8_t { usual, brief };
  // Ready when all recorded changes are on the disk.
  [[nodiscard]] std::future<void> until_durable(patience how_long);
  // Ready when all is on the disk and no more changes are recorded.
  [[nodiscard]] std::future<void> close();
  // Saves like SAVE; blocks. Throws cordma::error.
  void save();
  // Fills in the hooks through which the service makes requests of main.
  void answer(service_hooks& hooks);
  // On any thread, which holds all shards and nothing else. Returns an empty string, or the reason
  // of a failure; then nothing has changed.
  [[nodiscard]] std::string change_settings(const settings& before, const settings& after);
  [[nodiscard]] journal_info info() const { return journal_->info(); }

 private:
  void check_databases() const;
  [[nodiscard]] std::future<void> run(cordma::task<void> (*work)(journal* on));
  [[nodiscard]] persistence_info persistence() const;

  surroundings around_;
  std::unique_ptr<journal> journal_;
  std::unique_ptr<cordma::scope> tasks_;  // on home
};

}  // namespace kv
