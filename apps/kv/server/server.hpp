// server: one process of cordma-kv, from its options to its end.
#pragma once

#include "../command/service.hpp"
#include "configuration.hpp"
#include "durability.hpp"
#include "limits.hpp"
#include "logbook.hpp"
#include "memory_trimmer.hpp"
#include "native_front.hpp"
#include "reception.hpp"
#include "tls.hpp"
#include "worker.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kv {

// Made, used and destroyed by one thread, which serves no clients itself.
class server {
 public:
  // Serves nothing yet, takes no port and touches no file, but finds all other reasons that keep it
  // from starting. Throws cordma::error with the reason and where to change it. `wish_to_end()` is
  // called on any thread when a client sends SHUTDOWN.
  server(server_options options, logbook& log, std::function<void()> wish_to_end);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Loads the files on the disk and admits clients; earlier connections wait. Throws cordma::error
  // if a port or the files on the disk are in use; those files are then untouched. Errors:
  // canceled, if `unwanted` returned true during loading.
  void open(const std::function<bool()>& unwanted = [] { return false; });
  // Its addresses, for the log and for tests: "tcp 127.0.0.1:6379", "unix /run/kv.sock".
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }

  // Called before close(): saves the data to keep, after which nothing changes any more. Returns
  // false if that failed; then the log has the reason and the server continues. With `insisted` or
  // SHUTDOWN FORCE it returns true even then. `impatient()` is called now and then: true ends the
  // server at once.
  [[nodiscard]] bool may_end(bool insisted, const std::function<bool()>& impatient);
  // True if a client has sent SHUTDOWN that may_end() has not handled yet.
  [[nodiscard]] bool is_wished();
  // Admits and reads no clients any more, and waits until all have their pending bytes or
  // shutdown-timeout has passed. Returns false if not all could be kept, in which case the log has
  // the reason, or if `impatient()` returned true first.
  [[nodiscard]] bool close(const std::function<bool()>& impatient);

  // Takes a text that CONFIG REWRITE wrote since the last call as the configuration last read.
  // Later edits of the file count as changes, even back to an old value, and later values of CONFIG
  // SET remain. Returns true if there was a text; options read before this call may then be
  // outdated.
  using reader = std::function<server_options(const std::string& text)>;
  bool mind_rewritten(const reader& read);
  // Applies a configuration that was read again: settings that can change at run time, and users.
  // The log lists the changes and the settings that need a restart. Throws cordma::error; then
  // nothing has changed.
  void reload(const server_options& read);

 private:
  struct ticking;
  struct entrance {
    listening where;
    reception::hall to;
  };
  struct guests {
    std::atomic<std::uint32_t> inside = 0;  // clients of the metrics page
  };

  // Returns null if TLS is off.
  [[nodiscard]] static std::shared_ptr<const tls_acceptor> tls_of(const settings& s);
  void make_workers();
  [[nodiscard]] native::door_options native_door();
  // Admits no client before let_in().
  void listen();
  [[nodiscard]] std::unique_ptr<native_front> listen_natively();
  void let_in();
  void close_native();
  void leave();
  // On that worker's thread.
  void journal_advanced(unsigned worker) noexcept;
  [[nodiscard]] std::string server_information() const;
  [[nodiscard]] std::string native_information() const;
  void listen_at(listening where, const reception::hall& to, const std::string& kind);
  [[nodiscard]] reception::hall clients_hall(bool encrypted);
  [[nodiscard]] reception::hall metrics_hall();
  [[nodiscard]] std::uint32_t clients() const noexcept;
  [[nodiscard]] std::uint32_t most_clients() const;
  // Time that a native client has to send its hello.
  [[nodiscard]] cordma::duration patience() const;
  // Applies a configuration that was read again and has valid users. Returns an empty string, or
  // the reason that nothing has changed. On the first worker's thread, since only that may hold
  // shards that are not locked.
  [[nodiscard]] std::string take_over(std::span<const parameter* const> altered,
                                      const parsed_settings& fresh,
                                      const std::unique_ptr<users>& listed);
  void fill_hooks();
  void apply(const settings& s);
  void warn(std::string_view line);
  [[nodiscard]] doors open_doors() const noexcept;
  // Raises the limit of open files to that of maxclients, or lowers maxclients.
  void fit_open_files(settings& s) const;
  // If maxclients grows: returns the reason that the limit of open files does not permit it, or an
  // empty string.
  [[nodiscard]] std::string fit_more_clients(const settings& before, const settings& after) const;
  void report() const;
  void report_limits() const;
  // Returns an empty string, or the reason that not all data to keep is on the disk.
  [[nodiscard]] std::string keep(shutdown_request::snapshot wanted,
                                 durability::patience with_the_disk,
                                 const std::function<bool()>& impatient);
  // Returns the pending SHUTDOWN; empty: none.
  [[nodiscard]] std::optional<shutdown_request> take_wish();
  [[nodiscard]] bool dismiss_all(const std::function<bool()>& impatient);
  [[nodiscard]] std::string figures() const;

  server_options options_;
  logbook& log_;
  std::function<void()> wish_to_end_;
  door_settings door_settings_;
  std::optional<cordma::Context> context_;  // if native clients are served
  std::unique_ptr<keyspace> keys_;
  std::unique_ptr<service> service_;
  std::mutex tls_guard_;
  std::shared_ptr<const tls_acceptor> tls_;
  guests guests_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::vector<std::unique_ptr<ticking>> ticks_;  // each belongs to its worker's thread
  memory_trimmer trimmer_;
  std::unique_ptr<durability> durability_;
  std::unique_ptr<reception> reception_;
  native::door_options native_door_;  // if native clients are served
  std::unique_ptr<native_front> native_;
  std::atomic<native_front*> native_seen_ = nullptr;  // read by workers
  std::vector<entrance> entrances_;                   // until the reception has them
  std::vector<std::string> addresses_;
  bool reached_from_afar_ = false;
  std::mutex warned_guard_;
  std::string warned_;
  std::chrono::steady_clock::time_point warned_at_{};
  std::mutex ending_guard_;
  std::optional<shutdown_request> ending_;  // pending SHUTDOWN
  std::atomic<bool> leaving_ = false;       // workers post nothing to each other any more
};

}  // namespace kv
