// server: all that one process of cordma-kv is, from its options to its end.
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

// Made, used and destroyed by one thread, which serves nobody itself.
class server {
 public:
  // Nothing is served yet, no port taken and nothing on the disk touched; but all else that keeps it from starting is
  // found. Throws cordma::error: what is wrong, and where that is to be changed.
  // `wish_to_end()` is called when a client asks for it (SHUTDOWN), on any thread.
  server(server_options options, logbook& log, std::function<void()> wish_to_end);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Loads what is on the disk, and lets clients in; who comes meanwhile waits. Throws cordma::error: where a port is
  // another's, or what is on the disk, then nothing there was touched; canceled: `unwanted` said so while it was loading.
  void open(const std::function<bool()>& unwanted = [] { return false; });
  // Where it listens, for people and for tests: "tcp 127.0.0.1:6379", "unix /run/kv.sock".
  [[nodiscard]] const std::vector<std::string>& addresses() const noexcept { return addresses_; }

  // Before close(): what is to be kept is on the disk, and nothing changes any more. False: it could not be kept, the
  // log says why, and it serves on; unless `insisted`, or SHUTDOWN said so. `impatient()` is asked now and then: true
  // ends it at once.
  [[nodiscard]] bool may_end(bool insisted, const std::function<bool()>& impatient);
  // A client asked for the end (SHUTDOWN), and may_end() did not take that up yet.
  [[nodiscard]] bool is_wished();
  // Nobody is let in or read any more, and everybody has what is pending, or shutdown-timeout has passed.
  // False: not all could be kept or sent, and the log says what.
  [[nodiscard]] bool close(const std::function<bool()>& impatient);

  // What CONFIG REWRITE has written since the last time is what was read then: what somebody else changes in it is a change,
  // back as well, and what CONFIG SET says afterwards stays. True: it had, and what was read before this call may be older.
  using reader = std::function<server_options(const std::string& text)>;
  bool mind_rewritten(const reader& read);
  // What its configuration says now: what can change while it runs is taken over, users included, and the log says what
  // did and what takes a restart. Throws cordma::error: then nothing has changed.
  void reload(const server_options& read);

 private:
  struct ticking;
  struct entrance {
    listening where;
    reception::hall to;
  };
  struct guests {
    std::atomic<std::uint32_t> inside = 0;  // who read metrics
  };

  // Null: there is none.
  [[nodiscard]] static std::shared_ptr<const tls_acceptor> tls_of(const settings& s);
  void make_workers();
  [[nodiscard]] native::door_options native_door();
  // Nobody is let in before let_in().
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
  // How long a native client may take to say hello.
  [[nodiscard]] cordma::duration patience() const;
  // Of a configuration that was read again, whose users are known to be right: empty, or why nothing has changed. On
  // the first worker's thread, which alone may hold what is not locked.
  [[nodiscard]] std::string take_over(std::span<const parameter* const> altered,
                                      const parsed_settings& fresh,
                                      const std::unique_ptr<users>& listed);
  void fill_hooks();
  void apply(const settings& s);
  void warn(std::string_view line);
  [[nodiscard]] doors open_doors() const noexcept;
  // As many files as that many clients take, or fewer clients.
  void fit_open_files(settings& s) const;
  // Where there are to be more clients than there were: why that cannot be, or empty.
  [[nodiscard]] std::string fit_more_clients(const settings& before, const settings& after) const;
  void report() const;
  void report_limits() const;
  // Empty, or why not all that is to be kept is on the disk.
  [[nodiscard]] std::string keep(shutdown_request::snapshot wanted,
                                 durability::patience with_the_disk,
                                 const std::function<bool()>& impatient);
  // What clients asked for. Nothing: they did not.
  [[nodiscard]] std::optional<shutdown_request> take_wish();
  [[nodiscard]] bool dismiss_all(const std::function<bool()>& impatient);
  [[nodiscard]] std::string figures() const;

  server_options options_;
  logbook& log_;
  std::function<void()> wish_to_end_;
  door_settings door_settings_;
  std::optional<cordma::Context> context_;  // where native clients can come
  std::unique_ptr<keyspace> keys_;
  std::unique_ptr<service> service_;
  std::mutex tls_guard_;
  std::shared_ptr<const tls_acceptor> tls_;
  guests guests_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::vector<std::unique_ptr<ticking>> ticks_;  // each of its worker's thread
  memory_trimmer trimmer_;
  std::unique_ptr<durability> durability_;
  std::unique_ptr<reception> reception_;
  native::door_options native_door_;  // where native clients can come
  std::unique_ptr<native_front> native_;
  std::atomic<native_front*> native_seen_ = nullptr;  // by workers
  std::vector<entrance> entrances_;                   // until they are the reception's
  std::vector<std::string> addresses_;
  bool reached_from_afar_ = false;
  std::mutex warned_guard_;
  std::string warned_;
  std::chrono::steady_clock::time_point warned_at_{};
  std::mutex ending_guard_;
  std::optional<shutdown_request> ending_;  // what clients asked for, and nobody looked at yet
  std::atomic<bool> leaving_ = false;       // workers tell each other nothing any more
};

}  // namespace kv
