// transaction: the commands queued by MULTI, and the keys watched by WATCH.
#pragma once

#include "command.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// State of one client. Bound to its worker's thread.
class transaction {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1}
                                            << 30;  // queued bytes; equals the limit of one request

  struct queued {
    const known_command* what = nullptr;
    std::size_t first = 0;  // of its arguments
    std::size_t count = 0;
  };
  struct watched {
    std::string text;
    hashed_key key;
    std::uint64_t changes = 0;  // count at the time of WATCH
    bool existed = false;
  };

  [[nodiscard]] bool is_open() const noexcept { return open_; }
  void open() noexcept { open_ = true; }
  // Records that a command was refused instead of queued: EXEC will run nothing.
  void spoil() noexcept { spoilt_ = spoilt_ || open_; }
  [[nodiscard]] bool spoilt() const noexcept { return spoilt_; }

  // Returns false if too much is queued.
  [[nodiscard]] bool queue(const known_command& what, std::span<const std::string_view> args);
  [[nodiscard]] std::span<const queued> commands() const noexcept { return queued_; }
  // Returns the arguments of all queued commands; views into this object.
  [[nodiscard]] std::vector<std::string_view> arguments() const;
  // Empties the queue and closes it.
  void close() noexcept;

  [[nodiscard]] std::list<watched>& watches() noexcept { return watches_; }

 private:
  bool open_ = false;
  bool spoilt_ = false;
  std::string text_;
  std::vector<std::size_t> ends_;  // ends of the arguments in text_
  std::vector<queued> queued_;
  std::list<watched> watches_;
};

}  // namespace kv
