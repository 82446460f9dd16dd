#include <cordma/runtime/config.hpp>
#include <cordma/runtime/unique_fd.hpp>
#include <cordma/runtime/units.hpp>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cordma {
namespace {

constexpr std::string_view prefix = "CORDMA_";

std::string variable_of(std::string_view key) {
  std::string v(prefix);
  for (const char c : key) {
    v +=
        c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return v;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& w : words) {
    if (!text.empty()) text += between;
    text += w;
  }
  return text;
}

// The edit distance: the number of letters to change, add or drop to turn one into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

// The candidate that was probably meant, or "".
template <class Names>
std::string meant(std::string_view typed, const Names& names) {
  std::string best;
  std::size_t least = 1 + std::max<std::size_t>(2, typed.size() / 4);
  for (const std::string& n : names) {
    const std::size_t d = distance(typed, n);
    if (d < least) {
      least = d;
      best = n;
    }
  }
  return best;
}

failure bad_value(std::string_view text, const std::string& why) {
  return {errc::invalid_value, "\"" + std::string(text) + "\" " + why};
}

failure placed(const failure& why, std::string_view key, const std::string& place) {
  std::string message = place.empty() ? "" : place + ": ";
  message.append(key).append(": ").append(why.message());
  return {why.code(), std::move(message)};
}

std::optional<bool> parse_flag(std::string_view text) {
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

result<std::string> contents(const std::string& path, std::size_t most) {
  // O_NONBLOCK: a pipe is refused at once instead of blocking open().
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return failure::from_os(errno, path);
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return failure::from_os(errno, path);
  if (!S_ISREG(about.st_mode)) {
    return failure{errc::invalid_value,
                   path + ": is no regular file: name a file that holds a JSON object, {...}"};
  }
  std::string text(most + 1, '\0');
  std::size_t n = 0;
  while (n < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + n, text.size() - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure::from_os(errno, path);
    if (got == 0) break;
    n += static_cast<std::size_t>(got);
  }
  if (n > most) {
    return failure{errc::invalid_value,
                   path + ": larger than the " + format_size(most) + " a configuration may have"};
  }
  text.resize(n);
  return text;
}

}  // namespace

std::string_view name(config_source source) noexcept {
  switch (source) {
    case config_source::default_value: return "default";
    case config_source::file: return "file";
    case config_source::environment: return "environment";
    case config_source::code: return "code";
  }
  return "?";
}

std::size_t config::add(setting&& s) {
  CORDMA_REQUIRE(find(s.key) == nullptr);
  s.current = s.initial;
  settings_.push_back(std::move(s));
  return settings_.size() - 1;
}

config_key<bool> config::add_flag(std::string_view key, bool initial, std::string_view help) {
  setting s;
  s.key = key;
  s.help = help;
  s.what = kind::flag;
  s.initial = initial;
  return config_key<bool>(add(std::move(s)));
}

config_key<std::uint64_t> config::add_number(std::string_view key, std::uint64_t initial,
                                             std::string_view help, std::uint64_t least,
                                             std::uint64_t most) {
  setting s;
  s.key = key;
  s.help = help;
  s.what = kind::number;
  s.initial = initial;
  s.least = least;
  s.most = most;
  return config_key<std::uint64_t>(add(std::move(s)));
}

config_key<std::uint64_t> config::add_size(std::string_view key, std::uint64_t initial,
                                           std::string_view help, std::uint64_t least,
                                           std::uint64_t most) {
  const config_key<std::uint64_t> k = add_number(key, initial, help, least, most);
  settings_.back().what = kind::size;
  return k;
}

config_key<duration> config::add_duration(std::string_view key, duration initial,
                                          std::string_view help, duration least, duration most) {
  setting s;
  s.key = key;
  s.help = help;
  s.what = kind::time;
  s.initial = initial;
  s.least = static_cast<std::uint64_t>(least.count());
  s.most = most == duration::max() ? no_limit : static_cast<std::uint64_t>(most.count());
  return config_key<duration>(add(std::move(s)));
}

config_key<std::string> config::add_text(std::string_view key, std::string_view initial,
                                         std::string_view help) {
  setting s;
  s.key = key;
  s.help = help;
  s.initial = std::string(initial);
  return config_key<std::string>(add(std::move(s)));
}

config_key<std::vector<std::string>> config::add_list(std::string_view key,
                                                      std::vector<std::string> initial,
                                                      std::string_view help,
                                                      std::vector<std::string> allowed,
                                                      std::string_view alone) {
  setting s;
  s.key = key;
  s.help = help;
  s.what = kind::list;
  s.initial = std::move(initial);
  s.words = std::move(allowed);
  s.alone = alone;
  return config_key<std::vector<std::string>>(add(std::move(s)));
}

const config::setting* config::find(std::string_view key) const noexcept {
  const auto at = std::find_if(settings_.begin(), settings_.end(),
                               [key](const setting& s) { return s.key == key; });
  return at == settings_.end() ? nullptr : &*at;
}

const config::setting& config::at(std::size_t index) const {
  CORDMA_REQUIRE_OP(index, <, settings_.size());
  return settings_[index];
}

config_source config::source(std::string_view key) const {
  const setting* s = find(key);
  CORDMA_REQUIRE(s != nullptr);
  return s->source;
}

std::string config::allowed(const setting& s) {
  setting bound;  // formatted like a value of the setting
  bound.what = s.what;
  const auto show = [&bound](std::uint64_t n) {
    if (bound.what == kind::time) return format(bound, duration(static_cast<duration::rep>(n)));
    return format(bound, n);
  };
  switch (s.what) {
    case kind::flag: return "true, false";
    case kind::number:
    case kind::size:
    case kind::time:
      if (s.most == no_limit) return s.least == 0 ? "" : "at least " + show(s.least);
      return show(s.least) + " ... " + show(s.most);
    case kind::list:
    case kind::choice: return join(s.words, ", ");
    case kind::text: break;
  }
  return "";
}

std::string config::format(const setting& s, const value& v) {
  switch (s.what) {
    case kind::flag: return std::get<bool>(v) ? "true" : "false";
    case kind::number: return std::to_string(std::get<std::uint64_t>(v));
    case kind::size: return format_size(std::get<std::uint64_t>(v));
    case kind::time: return format_duration(std::get<duration>(v));
    case kind::text: return std::get<std::string>(v);
    case kind::list: return join(std::get<std::vector<std::string>>(v), ",");
    case kind::choice: return s.words[std::get<std::uint64_t>(v)];
  }
  return "";
}

result<config::value> config::parse(const setting& s, std::string_view text) {
  const auto within = [&s, text](std::uint64_t n) -> result<std::uint64_t> {
    if (n >= s.least && n <= s.most) return n;
    return bad_value(text, "is out of range: allowed is " + allowed(s));
  };
  const auto not_one_of = [&s](std::string_view word) {
    return bad_value(word, "is none of: " + join(s.words, ", "));
  };
  switch (s.what) {
    case kind::flag: {
      const std::optional<bool> flag = parse_flag(text);
      if (!flag) return bad_value(text, "is no flag: use true or false");
      return value(*flag);
    }
    case kind::number:
    case kind::size: {
      result<std::uint64_t> n = parse_size(text);
      if (s.what == kind::number) {
        std::uint64_t plain = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), plain);
        if (error != std::errc() || end != text.data() + text.size()) {
          return bad_value(text, "is no number: use digits only");
        }
        n = plain;
      }
      if (!n) return n.why();
      const result<std::uint64_t> checked = within(*n);
      if (!checked) return checked.why();
      return value(*checked);
    }
    case kind::time: {
      const result<duration> d = parse_duration(text);
      if (!d) return d.why();
      const auto checked = within(static_cast<std::uint64_t>(d->count()));
      if (!checked) return checked.why();
      return value(*d);
    }
    case kind::text: return value(std::string(text));
    case kind::list: {
      std::vector<std::string> words = split_words(text);
      if (words.empty() && !text.empty()) return bad_value(text, "names nothing");
      for (const std::string& w : words) {
        const bool known = std::find(s.words.begin(), s.words.end(), w) != s.words.end();
        if (!s.words.empty() && !known) return not_one_of(w);
      }
      if (words.size() > 1 && std::find(words.begin(), words.end(), s.alone) != words.end()) {
        return bad_value(text, "names " + s.alone + " beside others: use " + s.alone +
                                   " alone, or leave it out");
      }
      return value(std::move(words));
    }
    case kind::choice: break;
  }
  for (std::size_t i = 0; i < s.words.size(); ++i) {
    if (s.words[i] == text) return value(std::uint64_t{i});
  }
  return not_one_of(text);
}

failure config::unknown(std::string_view key, const std::string& where) const {
  std::vector<std::string> keys;
  for (const setting& s : settings_) keys.push_back(s.key);
  const std::string near = meant(key, keys);
  std::string message = where.empty() ? "" : where + ": ";
  message.append("unknown key \"").append(key).append("\"");
  if (near.empty()) {
    message.append("; known are: ").append(join(keys, ", "));
  } else {
    message.append("; did you mean \"").append(near).append("\"?");
  }
  return {errc::not_found, std::move(message)};
}

void config::apply(std::vector<change>&& changes, config_source source, const std::string& place) {
  for (change& c : changes) {
    setting& s = settings_[c.index];
    if (s.source > source) continue;
    s.current = std::move(c.to);
    s.source = source;
    s.place = source == config_source::environment ? variable_of(s.key) : place;
  }
}

result<void> config::set(std::string_view key, std::string_view text) {
  const setting* s = find(key);
  if (s == nullptr) return unknown(key, "");
  result<value> v = parse(*s, text);
  if (!v) return placed(v.why(), key, "");
  std::vector<change> one;
  one.push_back({static_cast<std::size_t>(s - settings_.data()), std::move(*v)});
  apply(std::move(one), config_source::code, "");
  return {};
}

// Walks a JSON object and collects its changes.
class config_file {
 public:
  config_file(const config& settings, const std::string& path) : settings_(settings), path_(path) {}

  result<std::vector<config::change>> read(const nlohmann::json& root) {
    if (!root.is_object()) {
      return failure{errc::invalid_value, path_ + ": a configuration is a JSON object: {...}"};
    }
    const result<void> walked = walk(root, "");
    if (!walked) return walked.why();
    return std::move(changes_);
  }

 private:
  static constexpr int deepest = 8;

  result<void> walk(const nlohmann::json& object, const std::string& above) {
    if (std::count(above.begin(), above.end(), '.') > deepest) {
      return failure{errc::invalid_value, path_ + ": nested too deeply at " + above};
    }
    for (const auto& [name, v] : object.items()) {
      const std::string key = above + name;
      if (v.is_object()) {
        const result<void> inner = walk(v, key + ".");
        if (!inner) return inner;
        continue;
      }
      const config::setting* s = settings_.find(key);
      if (s == nullptr) return settings_.unknown(key, path_);
      const result<std::string> text = as_text(v);
      if (!text) return placed(text.why(), key, path_);
      result<config::value> parsed = config::parse(*s, *text);
      if (!parsed) return placed(parsed.why(), key, path_);
      changes_.push_back(
          {static_cast<std::size_t>(s - settings_.settings_.data()), std::move(*parsed)});
    }
    return {};
  }

  static result<std::string> as_text(const nlohmann::json& v) {
    if (v.is_string()) return v.get<std::string>();
    if (v.is_boolean()) return std::string(v.get<bool>() ? "true" : "false");
    if (v.is_number_unsigned()) return std::to_string(v.get<std::uint64_t>());
    if (v.is_array()) {
      std::vector<std::string> words;
      for (const auto& w : v) {
        if (!w.is_string()) return bad_value(w.dump(), "is no word: a list holds strings");
        words.push_back(w.get<std::string>());
      }
      return join(words, ",");
    }
    return bad_value(v.dump(), "is none of: a string, true, false, a whole number, a list");
  }

  const config& settings_;
  const std::string& path_;
  std::vector<config::change> changes_;
};

result<void> config::read_file(const std::string& path) {
  const result<std::string> text = contents(path, largest_file);
  if (!text) return text.why();
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(*text);
  } catch (const nlohmann::json::exception& e) {
    return failure{errc::invalid_value, path + ": no JSON: " + e.what()};
  }
  result<std::vector<change>> changes = config_file(*this, path).read(root);
  if (!changes) return changes.why();
  apply(std::move(*changes), config_source::file, path);
  return {};
}

result<void> config::read_environment(const char* const* environment) {
  if (environment == nullptr) environment = environ;
  std::vector<std::string> variables;
  for (const setting& s : settings_) variables.push_back(variable_of(s.key));
  std::vector<change> changes;
  std::vector<std::string> strangers;
  for (; *environment != nullptr; ++environment) {
    const std::string_view line(*environment);
    if (line.substr(0, prefix.size()) != prefix) continue;
    const std::size_t equals = std::min(line.find('='), line.size());
    const std::string variable(line.substr(0, equals));
    const std::string_view text = line.substr(std::min(equals + 1, line.size()));
    if (std::find(ignored_.begin(), ignored_.end(), variable) != ignored_.end()) continue;
    const auto at = std::find(variables.begin(), variables.end(), variable);
    if (at == variables.end()) {
      const std::string near = meant(variable, variables);
      strangers.push_back(variable + " is no setting of cordma" +
                          (near.empty() ? "" : "; did you mean " + near + "?"));
      continue;
    }
    const auto index = static_cast<std::size_t>(at - variables.begin());
    result<value> v = parse(settings_[index], text);
    if (!v) return placed(v.why(), variable, "");
    changes.push_back({index, std::move(*v)});
  }
  apply(std::move(changes), config_source::environment, "");
  warnings_.insert(warnings_.end(), strangers.begin(), strangers.end());
  return {};
}

std::vector<config_entry> config::effective() const {
  std::vector<config_entry> all;
  for (const setting& s : settings_) {
    all.push_back({.key = s.key,
                   .environment = variable_of(s.key),
                   .value = format(s, s.current),
                   .default_value = format(s, s.initial),
                   .allowed = allowed(s),
                   .help = s.help,
                   .place = s.place,
                   .source = s.source});
  }
  return all;
}

}  // namespace cordma
