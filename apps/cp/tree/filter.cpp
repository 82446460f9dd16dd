#include "filter.hpp"

#include "wildcards.hpp"

#include <algorithm>
#include <stdexcept>

namespace copy {
namespace {

constexpr std::size_t longest_pattern = 4095;  // bytes, as for a path

std::string_view last_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// Returns the offset of the last `count` names in the path; npos if it has fewer.
std::size_t begin_of_last(std::string_view path, std::size_t count) noexcept {
  std::size_t end = path.size();
  for (;;) {
    const std::size_t slash = end == 0 ? std::string_view::npos : path.rfind('/', end - 1);
    if (--count == 0) return slash == std::string_view::npos ? 0 : slash + 1;
    if (slash == std::string_view::npos) return std::string_view::npos;
    end = slash;
  }
}

bool matches_plainly(std::string_view pattern, std::string_view path) noexcept {
  if (!path.ends_with(pattern)) return false;
  return path.size() == pattern.size() || path[path.size() - pattern.size() - 1] == '/';
}

[[noreturn]] void refuse(std::string_view pattern, const char* why) {
  throw std::invalid_argument("pattern \"" + std::string(pattern) + "\" " + why);
}

}  // namespace

// As in rsync, the positions of "**" and the number of '/' depend on the text only, escaped or not.
filter::rule filter::compile(decision d, std::string_view pattern) {
  rule r;
  r.what = d;
  r.wild = pattern.find_first_of("*?[") != std::string_view::npos;
  const bool any_run = pattern.find("**") != std::string_view::npos;
  r.slash_before = pattern.starts_with("**");
  r.directories_only = pattern.size() > 1 && pattern.ends_with('/');
  if (r.directories_only) pattern.remove_suffix(1);
  r.slash_behind = pattern.ends_with("***");
  const auto slashes = static_cast<std::size_t>(std::count(pattern.begin(), pattern.end(), '/'));
  r.whole_path = slashes != 0 || any_run;
  if (pattern.starts_with('/')) {
    pattern.remove_prefix(1);
    r.from = start::top;
  } else if (any_run) {
    r.from = r.slash_before ? start::top : start::any_part;
  } else {
    r.from = start::last_parts;
    r.parts = slashes + 1;
  }
  r.pattern = pattern;
  return r;
}

void filter::add(decision d, std::string_view pattern) {
  if (pattern.empty()) throw std::invalid_argument("a pattern is empty: it would match nothing");
  if (pattern.size() > longest_pattern) refuse(pattern.substr(0, 40), "... is longer than a path");
  if (pattern.find('\0') != std::string_view::npos) {
    throw std::invalid_argument("a pattern has a NUL in it: -0 has to come before its file");
  }
  rule r = compile(d, pattern);
  if (r.pattern.empty() || r.pattern == "/") {
    refuse(pattern, "has no name in it: it would match nothing; \"/*\" is all at the top");
  }
  const char* const why = r.wild ? what_is_wrong(r.pattern) : nullptr;
  if (why != nullptr) refuse(pattern, why);
  rules_.push_back(std::move(r));
}

bool filter::matches(const rule& r, std::string_view path, bool is_directory) noexcept {
  if (r.directories_only && !is_directory) return false;
  if (!r.whole_path) path = last_name(path);
  if (!r.wild) return r.from == start::top ? path == r.pattern : matches_plainly(r.pattern, path);
  const wildcard_subject all(path, r.slash_before, is_directory && r.slash_behind);
  std::size_t at = r.from == start::last_parts ? begin_of_last(path, r.parts) : 0;
  if (at == std::string_view::npos) return false;
  wildcard_match found = match_wildcards(r.pattern, all, at);
  for (; r.from == start::any_part && found == wildcard_match::no && at < all.size(); ++at) {
    if (all[at] == '/') found = match_wildcards(r.pattern, all, at + 1);
  }
  return found == wildcard_match::yes;
}

bool filter::excludes(std::string_view path, bool is_directory) const noexcept {
  if (path == ".") return false;
  for (const rule& r : rules_) {
    if (matches(r, path, is_directory)) return r.what == decision::exclude;
  }
  return false;
}

filter filter_of(const std::vector<std::string>& rules) {
  filter chosen;
  for (const std::string& r : rules) {
    if (r.size() < 3 || (r[0] != '+' && r[0] != '-') || r[1] != ' ') {
      throw std::runtime_error("a rule that is neither \"+ PATTERN\" nor \"- PATTERN\": " + r);
    }
    const bool in = r[0] == '+';
    chosen.add(in ? filter::decision::include : filter::decision::exclude, r.substr(2));
  }
  return chosen;
}

}  // namespace copy
