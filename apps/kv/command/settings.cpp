#include "settings.hpp"

#include "../../support/printable.hpp"
#include "../resp/words.hpp"
#include "word.hpp"

#include <cordma/runtime/result.hpp>

#include <strings.h>
#include <algorithm>
#include <set>

namespace kv {
namespace {

// True for settings that are a list of words in the file; others are one word.
bool is_list(std::string_view name) noexcept {
  return name == "bind" || name == "save" || name == "client-output-buffer-limit";
}

std::string joined(const std::vector<std::string>& words, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < words.size(); ++i) {
    if (i != from) text += ' ';
    text += words[i];
  }
  return text;
}

// True if the list needs no quotes: as_word() leaves each of its words unchanged.
bool is_plain_list(std::string_view value) {
  const auto words = split_words(value);
  if (!words || words->empty() || joined(*words, 0) != value) return false;
  return std::ranges::all_of(*words, [](const std::string& w) { return as_word(w) == w; });
}

std::string line_of(std::string_view name, const parameter& p, const settings& now) {
  const std::string value = p.get(now);
  const bool plain = is_list(p.name) && is_plain_list(value);
  return std::string(name) + ' ' + (plain ? value : as_word(value)) + '\n';
}

std::string_view next_line(std::string_view& text) noexcept {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

// A comment may have an unbalanced quote.
bool is_comment(std::string_view line) noexcept {
  const std::size_t at = line.find_first_not_of(" \t\v\f\r");
  return at != std::string_view::npos && line[at] == '#';
}

// Returns the name that a line sets; empty for comments and blank lines.
std::string name_of(std::string_view line) {
  const auto words = split_words(line);
  if (!words || words->empty() || words->front().starts_with('#')) return {};
  return in_lower_case(words->front());
}

}  // namespace

std::string as_word(std::string_view value) {
  const auto is_odd = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= ' ' || byte == 127 || c == '"' || c == '\'' || c == '\\' || c == '#';
  };
  if (!value.empty() && std::ranges::none_of(value, is_odd)) return std::string(value);
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text.append("\\") += c;
    } else if (byte < ' ' || byte == 127) {
      support::append_escape(text, byte);
    } else {
      text += c;
    }
  }
  return text + '"';
}

namespace {

// Reads the lines of a file into settings.
class line_reader {
 public:
  explicit line_reader(parsed_settings& into) : into_(into) {}
  // Returns an empty string, or the reason of a failure.
  [[nodiscard]] std::string read(std::string_view line) {
    if (is_comment(line)) return {};
    const auto words = split_words(line);
    if (!words) return "a quote is not closed";
    if (words->empty()) return {};
    const std::string name = name_of(line);
    if (name == "user") {
      into_.users.push_back(user_line(std::span(*words).subspan(1)));
      return {};
    }
    const parameter* const p = find_parameter(name);
    if (p == nullptr) return "\"" + words->front() + "\" is no setting of cordma-kv";
    if (words->size() < 2 || (words->size() > 2 && !is_list(p->name))) {
      return "wrong number of arguments for \"" + name + "\"";
    }
    const std::string why = p->set(into_.values, value_of(name, joined(*words, 1)));
    return why.empty() ? why : "\"" + name + "\": " + why;
  }

 private:
  // Several lines of `save` add up.
  [[nodiscard]] std::string value_of(std::string_view name, std::string value) {
    if (name != "save") return value;
    saves_ = saves_given_ && !value.empty() ? saves_ + ' ' + value : value;
    saves_given_ = true;
    return saves_;
  }

  parsed_settings& into_;
  std::string saves_;
  bool saves_given_ = false;
};

}  // namespace

std::string user_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& w : words) line += (line.empty() ? "" : " ") + as_word(w);
  return line;
}

parsed_settings parse_settings(std::string_view text, const settings& from,
                               std::vector<line_issue>& wrong) {
  parsed_settings parsed{from, {}};
  line_reader lines(parsed);
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string why = lines.read(next_line(text));
    if (!why.empty()) wrong.push_back({number, std::move(why)});
  }
  return parsed;
}

parsed_settings parse_settings(std::string_view text, const settings& from) {
  std::vector<line_issue> wrong;
  parsed_settings parsed = parse_settings(text, from, wrong);
  if (wrong.empty()) return parsed;
  throw cordma::error(cordma::failure(
      cordma::errc::invalid_value,
      "configuration, line " + std::to_string(wrong.front().line) + ": " + wrong.front().what));
}

std::string rewrite_settings(std::string_view text, const settings& now,
                             std::span<const std::string> users) {
  const settings usual;
  std::set<std::string_view> said;
  std::string out;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    const std::string name = name_of(line);
    const parameter* const p = name.empty() ? nullptr : find_parameter(name);
    if (name == "user") continue;
    if (p == nullptr) {
      out.append(line).push_back('\n');
    } else if (said.insert(p->name).second) {
      out += line_of(name, *p, now);
    }
  }
  for (const parameter& p : all_parameters()) {
    if (said.contains(p.name) || p.get(now) == p.get(usual)) continue;
    out += line_of(p.name, p, now);
  }
  for (const std::string& u : users) out += "user " + u + '\n';
  return out;
}

}  // namespace kv
