// A line typed at a terminal: moving in it, and those typed before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace kv::cli {

// Standard input and output are terminals. What was typed is kept in memory only: it may hold secrets.
class line_editor {
 public:
  static constexpr std::size_t most_remembered = 1000;
  enum class end : std::uint8_t { line, given_up, over };  // Enter, Ctrl-C, Ctrl-D

  // What was typed is in `line`.
  [[nodiscard]] end read(std::string_view prompt, std::string& line);
  [[nodiscard]] const std::deque<std::string>& remembered() const noexcept { return history_; }

 private:
  void show(std::string_view prompt) const;
  bool take(char c);  // false: nothing to show anew
  void take_sequence();
  void recall(std::size_t which);
  void left() noexcept;
  void right() noexcept;
  void erase_before();
  void erase_word();

  std::string line_;
  std::size_t at_ = 0;  // of the cursor, a byte of line_
  std::deque<std::string> history_;
  std::size_t place_ = 0;  // in history_; its size: what is being typed
  std::string typed_;      // kept while one looks through history_
};

}  // namespace kv::cli
