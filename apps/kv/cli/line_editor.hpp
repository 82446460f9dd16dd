// Reads a line typed at a terminal, with editing and a history.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace kv::cli {

// REQUIRES that standard input and output are terminals. The history is kept in memory only, as it
// may contain secrets.
class line_editor {
 public:
  static constexpr std::size_t most_remembered = 1000;
  enum class end : std::uint8_t { line, given_up, over };  // Enter, Ctrl-C, Ctrl-D

  // The typed text is stored in `line`.
  [[nodiscard]] end read(std::string_view prompt, std::string& line);
  [[nodiscard]] const std::deque<std::string>& remembered() const noexcept { return history_; }

 private:
  void show(std::string_view prompt) const;
  bool take(char c);  // false: nothing to redraw
  void take_sequence();
  void recall(std::size_t which);
  void left() noexcept;
  void right() noexcept;
  void erase_before();
  void erase_word();

  std::string line_;
  std::size_t at_ = 0;  // position of the cursor, in bytes of line_
  std::deque<std::string> history_;
  std::size_t place_ = 0;  // index in history_; its size: the line being typed
  std::string typed_;      // the line being typed, kept while an older one is shown
};

}  // namespace kv::cli
