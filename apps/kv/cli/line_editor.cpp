#include "line_editor.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace kv::cli {
namespace {

constexpr char ctrl(char letter) noexcept { return static_cast<char>(letter - 'a' + 1); }
constexpr char escape = 27;
constexpr char backspace = 127;

bool continues(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Number of columns, with one column per character.
std::size_t width(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !continues(c); }));
}

std::size_t columns() noexcept {
  winsize size{};
  constexpr std::size_t usual = 80;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return size.ws_col;
}

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Returns nothing at the end of the input.
std::optional<char> read_byte() noexcept {
  char c = 0;
  ssize_t n = 0;
  do {
    n = ::read(STDIN_FILENO, &c, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) return std::nullopt;
  return c;
}

// While this exists, the terminal delivers every byte immediately.
class raw_terminal {
 public:
  raw_terminal() noexcept {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_iflag &= ~static_cast<tcflag_t>(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    changed_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~raw_terminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  raw_terminal(const raw_terminal&) = delete;
  raw_terminal& operator=(const raw_terminal&) = delete;

 private:
  termios before_{};
  bool changed_ = false;
};

}  // namespace

void line_editor::left() noexcept {
  if (at_ == 0) return;
  do {
    --at_;
  } while (at_ != 0 && continues(line_[at_]));
}

void line_editor::right() noexcept {
  if (at_ == line_.size()) return;
  do {
    ++at_;
  } while (at_ != line_.size() && continues(line_[at_]));
}

void line_editor::erase_before() {
  const std::size_t behind = at_;
  left();
  line_.erase(at_, behind - at_);
}

void line_editor::erase_word() {
  const std::size_t behind = at_;
  while (at_ != 0 && line_[at_ - 1] == ' ') --at_;
  while (at_ != 0 && line_[at_ - 1] != ' ') --at_;
  line_.erase(at_, behind - at_);
}

void line_editor::recall(std::size_t which) {
  if (which > history_.size()) return;
  if (place_ == history_.size()) typed_ = line_;
  place_ = which;
  line_ = place_ == history_.size() ? typed_ : history_[place_];
  at_ = line_.size();
}

// Of a line that is too long, shows the part around the cursor that fits.
void line_editor::show(std::string_view prompt) const {
  const std::size_t all = columns();
  const std::size_t room = all > prompt.size() + 1 ? all - prompt.size() - 1 : 1;
  std::string_view before = std::string_view(line_).substr(0, at_);
  std::string_view behind = std::string_view(line_).substr(at_);
  while (width(before) > room) before.remove_prefix(1);
  while (!before.empty() && continues(before.front())) before.remove_prefix(1);
  while (width(before) + width(behind) > room) behind.remove_suffix(1);
  std::string text = "\r" + std::string(prompt) + std::string(before) + std::string(behind) +
                     "\x1b[K\r\x1b[" + std::to_string(prompt.size() + width(before)) + "C";
  write_all(text);
}

// Handles the rest of an escape sequence, such as an arrow key.
void line_editor::take_sequence() {
  if (read_byte() != '[') return;
  std::optional<char> c = read_byte();
  char number = 0;
  while (c && *c >= '0' && *c <= ';') {  // parameters
    number = *c;
    c = read_byte();
  }
  switch (c.value_or(0)) {
    case 'A':
      if (place_ != 0) recall(place_ - 1);
      break;
    case 'B': recall(place_ + 1); break;
    case 'C': right(); break;
    case 'D': left(); break;
    case 'H': at_ = 0; break;
    case 'F': at_ = line_.size(); break;
    case '~':
      if (number == '3' && at_ != line_.size()) {
        right();
        erase_before();
      }
      break;
    default: break;
  }
}

bool line_editor::take(char c) {
  switch (c) {
    case escape: take_sequence(); return true;
    case ctrl('a'): at_ = 0; return true;
    case ctrl('e'): at_ = line_.size(); return true;
    case ctrl('b'): left(); return true;
    case ctrl('f'): right(); return true;
    case ctrl('h'):
    case backspace: erase_before(); return true;
    case ctrl('w'): erase_word(); return true;
    case ctrl('k'): line_.erase(at_); return true;
    case ctrl('u'): line_.erase(0, std::exchange(at_, 0)); return true;
    case ctrl('p'):
      if (place_ != 0) recall(place_ - 1);
      return true;
    case ctrl('n'): recall(place_ + 1); return true;
    case ctrl('l'): write_all("\x1b[H\x1b[2J"); return true;
    default: break;
  }
  if (static_cast<unsigned char>(c) < 32) return false;
  line_.insert(at_++, 1, c);
  return true;
}

line_editor::end line_editor::read(std::string_view prompt, std::string& line) {
  const raw_terminal raw;
  line_.clear();
  at_ = 0;
  place_ = history_.size();
  show(prompt);
  for (;;) {
    const std::optional<char> c = read_byte();
    if (!c || (*c == ctrl('d') && line_.empty())) {
      write_all("\n");
      return end::over;
    }
    if (*c == ctrl('c')) {
      write_all("^C\n");
      return end::given_up;
    }
    if (*c == '\r' || *c == '\n') break;
    if (take(*c)) show(prompt);
  }
  write_all("\n");
  line = line_;
  if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
  if (history_.size() > most_remembered) history_.pop_front();
  return end::line;
}

}  // namespace kv::cli
