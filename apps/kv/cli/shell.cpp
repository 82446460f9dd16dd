#include "shell.hpp"

#include "../resp/words.hpp"
#include "../store/item.hpp"
#include "console.hpp"
#include "line_editor.hpp"
#include "print.hpp"

#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>

#include <unistd.h>

namespace kv::cli {
namespace {

constexpr int exit_failed = 1;
constexpr int exit_nil = 3;

void print(const resp_value& v, style as) {
  const std::string text = as == style::json     ? to_json_line(v)
                           : as == style::pretty ? to_pretty(v)
                                                 : to_raw(v);
  // With raw output, errors go to stderr, so that a pipe gets only values.
  std::FILE* const to = v.is_error() && as == style::raw ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), to);
}

std::string read_standard_input() {
  std::string all;
  std::array<char, 65536> piece;
  for (std::size_t n; (n = std::fread(piece.data(), 1, piece.size(), stdin)) != 0;) {
    all.append(piece.data(), n);
    if (all.size() > max_value_bytes) throw std::runtime_error("standard input is too long");
  }
  if (std::ferror(stdin) != 0) throw std::runtime_error("standard input cannot be read");
  return all;
}

// Source of the lines.
class lines {
 public:
  lines() : typed_(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) {}
  [[nodiscard]] bool typed() const noexcept { return typed_; }
  // Returns false at the end of the input.
  bool next(const std::string& prompt, std::string& line) {
    if (!typed_) return static_cast<bool>(std::getline(std::cin, line));
    std::fflush(stdout);
    for (;;) {
      switch (editor_.read(prompt, line)) {
        case line_editor::end::line: return true;
        case line_editor::end::given_up: continue;
        case line_editor::end::over: return false;
      }
    }
  }
  [[nodiscard]] const std::deque<std::string>& remembered() const noexcept {
    return editor_.remembered();
  }

 private:
  bool typed_;
  line_editor editor_;
};

class shell {
 public:
  shell(const service& s, style as) : service_(s), style_(as) {}

  int run() {
    console_ = connect_console(service_);
    bool failed = false;
    const std::string prompt = service_.name() + "> ";
    for (std::string line; lines_.next(prompt, line);) {
      const std::optional<std::vector<std::string>> words = split_words(line);
      if (!words) {
        std::fputs("cordma-kv-cli: a quote has no end\n", stderr);
        failed = true;
        continue;
      }
      if (words->empty() || (!lines_.typed() && line.starts_with('#'))) continue;
      if (words->size() == 1 && (words->front() == "quit" || words->front() == "exit")) break;
      failed |= !run(*words);
    }
    return failed && !lines_.typed() ? exit_failed : 0;
  }

 private:
  bool run(const std::vector<std::string>& words) {
    if (words.size() == 1 && words.front() == "help") {
      if (console_) std::fputs(console_->help().c_str(), stdout);
      std::fputs("  history, help, quit\n", stdout);
      return true;
    }
    if (words.size() == 1 && words.front() == "history") {
      for (const std::string& l : lines_.remembered()) std::printf("%s\n", l.c_str());
      return true;
    }
    try {
      if (!console_) console_ = connect_console(service_);
      const resp_value v = console_->run(words);
      print(v, style_);
      return !v.is_error();
    } catch (const std::exception& e) {
      if (!lines_.typed()) throw;
      // An interactive user may continue once the server is available again.
      std::fprintf(stderr, "cordma-kv-cli: %s\n", e.what());
      console_.reset();
      return false;
    }
  }

  const service& service_;
  style style_;
  lines lines_;
  std::unique_ptr<console> console_;
};

}  // namespace

int run_shell(const service& s, style as) { return shell(s, as).run(); }

int run_once(const service& s, std::vector<std::string> words, const once_options& how) {
  if (how.last_from_stdin) words.push_back(read_standard_input());
  const resp_value v = connect_console(s)->run(words);
  if (how.exact && !v.is_error()) {
    const std::string text = v.is_nil() ? std::string() : to_raw(v);
    const bool ends_so = v.what == resp_value::kind::bulk || v.what == resp_value::kind::text;
    std::fwrite(text.data(), 1, text.size() - (ends_so ? 1 : 0), stdout);
  } else {
    print(v, how.as);
  }
  return v.is_error() ? exit_failed : v.is_nil() ? exit_nil : 0;
}

}  // namespace kv::cli
