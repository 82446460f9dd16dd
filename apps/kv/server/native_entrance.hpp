// native_entrance: how clients of the native protocol reach a worker.
#pragma once

#include "../keyspace/journal_gate.hpp"
#include "../native/door.hpp"
#include "seat.hpp"

#include <cordma/cordma.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

// Bound to the thread of its loop, on which it is made and destroyed. Its arguments outlive it.
class native_entrance {
 public:
  struct surroundings {
    cordma::Context& context;
    cordma::reactor& loop;
    keyspace& keys;
    journal_gate* journal = nullptr;
    std::function<unix_ms()> now;
    // True: expired keys are not erased now. Empty: they are erased.
    std::function<bool()> is_still;
    std::function<std::string(std::string_view section)> information;  // text of INFO
    // Number of this worker's clients, native ones included; and whether one more client may
    // connect, of all workers' total.
    std::atomic<std::uint32_t>& clients;
    std::function<bool()> has_place;
  };
  native_entrance(const surroundings& where, native::door_options options);
  ~native_entrance();
  native_entrance(const native_entrance&) = delete;
  native_entrance& operator=(const native_entrance&) = delete;

  // "host:port". Throws cordma::error, as Worker::listen() fails. Connections wait for admit().
  void listen(const std::string& address);
  // Serves clients here and, in turn, by those passed to share(). REQUIRES listen(); called once.
  void admit();
  void share(std::span<native_entrance* const> with);
  [[nodiscard]] std::string bound() const;
  // Listener::missing(). REQUIRES listen().
  [[nodiscard]] const std::vector<std::pair<cordma::transport::kind, cordma::failure>>& missing()
      const noexcept {
    return listener_->missing();
  }
  // Accepts no more clients.
  void stop_listening() noexcept;
  // durable(), waits(), backlogged() or refuses() of the journal has changed.
  void journal_advanced() noexcept;
  [[nodiscard]] const native::door_counters& counters() const noexcept { return door_.counters(); }

 private:
  [[nodiscard]] cordma::task<void> accept_all();
  [[nodiscard]] bool is_full() const noexcept;
  [[nodiscard]] cordma::task<void> until_room();
  [[nodiscard]] cordma::task<void> until_safe();
  void lead(cordma::ConnectionRequest request);
  [[nodiscard]] cordma::task<void> serve(cordma::ConnectionRequest request,
                                         std::shared_ptr<const seat> taken);

  journal_gate* journal_;
  std::atomic<std::uint32_t>& clients_;
  std::function<bool()> has_place_;
  cordma::Worker worker_;
  native::door door_;
  cordma::event advanced_;
  std::optional<cordma::Listener> listener_;
  std::vector<native_entrance*> others_;
  std::size_t turn_ = 0;
  cordma::scope visitors_;
};

}  // namespace kv
