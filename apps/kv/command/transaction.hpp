// transaction: what MULTI has queued, and what WATCH looks at.
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

// Of one client. Bound to its worker's thread.
class transaction {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1}
                                            << 30;  // queued, as many as one request may have

  struct queued {
    const known_command* what = nullptr;
    std::size_t first = 0;  // of arguments
    std::size_t count = 0;
  };
  struct watched {
    std::string text;
    hashed_key key;
    std::uint64_t changes = 0;  // as they were then
    bool existed = false;
  };

  [[nodiscard]] bool is_open() const noexcept { return open_; }
  void open() noexcept { open_ = true; }
  // Something that was to be queued was refused: EXEC will do nothing.
  void spoil() noexcept { spoilt_ = spoilt_ || open_; }
  [[nodiscard]] bool spoilt() const noexcept { return spoilt_; }

  // False: too much is queued.
  [[nodiscard]] bool queue(const known_command& what, std::span<const std::string_view> args);
  [[nodiscard]] std::span<const queued> commands() const noexcept { return queued_; }
  // Of all that is queued; the views are this object's.
  [[nodiscard]] std::vector<std::string_view> arguments() const;
  // Ends it: nothing is queued, and it is not open.
  void close() noexcept;

  [[nodiscard]] std::list<watched>& watches() noexcept { return watches_; }

 private:
  bool open_ = false;
  bool spoilt_ = false;
  std::string text_;
  std::vector<std::size_t> ends_;  // of arguments in it
  std::vector<queued> queued_;
  std::list<watched> watches_;
};

}  // namespace kv
