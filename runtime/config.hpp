// config: typed settings, each with one name in code, in the environment and in a file, and with
// the source of its value.
#pragma once

#include <cordma/runtime/clock.hpp>
#include <cordma/runtime/result.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cordma {

// In order of precedence, lowest first; the order of reading does not matter.
enum class config_source : std::uint8_t { default_value, file, environment, code };
// "default", "file", "environment", "code".
[[nodiscard]] std::string_view name(config_source source) noexcept;

// One line of the output of cordma-info.
struct config_entry {
  std::string key;          // "shm.ring_size"
  std::string environment;  // "CORDMA_SHM_RING_SIZE"
  std::string value;        // formatted so that it can be read again
  std::string default_value;
  std::string allowed;  // "0 ... 64k", "polling, event, adaptive", ""
  std::string help;
  std::string place;  // the source: the file's path, the variable's name, or ""
  config_source source = config_source::default_value;
};

// Names a setting of one config, and its type.
template <class T>
class config_key {
 public:
  config_key() noexcept = default;

 private:
  friend class config;
  explicit config_key(std::size_t i) noexcept : index_(i) {}
  std::size_t index_ = static_cast<std::size_t>(-1);
};

// A table of settings: first declared (by the components that use them), then read, then queried.
// Not thread-safe while it is written; afterwards any thread may read it. Names are lower case
// words joined by _ and grouped by dots; REQUIRES that each is declared once.
class config {
 public:
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::size_t largest_file = 1U << 20;  // bytes

  config_key<bool> add_flag(std::string_view key, bool initial, std::string_view help);
  config_key<std::uint64_t> add_number(std::string_view key, std::uint64_t initial,
                                       std::string_view help, std::uint64_t least = 0,
                                       std::uint64_t most = no_limit);
  // In bytes; written as in units.hpp.
  config_key<std::uint64_t> add_size(std::string_view key, std::uint64_t initial,
                                     std::string_view help, std::uint64_t least = 0,
                                     std::uint64_t most = no_limit);
  config_key<duration> add_duration(std::string_view key, duration initial, std::string_view help,
                                    duration least = duration::zero(),
                                    duration most = duration::max());
  config_key<std::string> add_text(std::string_view key, std::string_view initial,
                                   std::string_view help);
  // Words joined by commas; an empty `allowed` allows any word. `alone` is refused beside other
  // words.
  config_key<std::vector<std::string>> add_list(std::string_view key,
                                                std::vector<std::string> initial,
                                                std::string_view help,
                                                std::vector<std::string> allowed = {},
                                                std::string_view alone = {});
  // One of an enum's values, by name.
  template <class E>
  config_key<E> add_choice(std::string_view key, E initial, std::string_view help,
                           std::initializer_list<std::pair<std::string_view, E>> names);

  // Sets a value from code. Errors: invalid_value, naming the key, the value and the allowed
  // values; not_found for an unknown key.
  [[nodiscard]] result<void> set(std::string_view key, std::string_view text);
  // Reads a JSON object, nested by the dots of the names: {"shm": {"ring_size": "64k"}}. All or
  // nothing: after an error no setting of the file applies. Errors name the file, the key, the
  // value and the allowed values: not_found (no such file, unknown key), invalid_value (no regular
  // file, no JSON, bad value), not_permitted.
  [[nodiscard]] result<void> read_file(const std::string& path);
  // Reads CORDMA_* from `environment` (null: this process's). Variables that name no setting become
  // warnings(). Errors as above, all or nothing.
  [[nodiscard]] result<void> read_environment(const char* const* environment = nullptr);
  // Excludes a variable from warnings(): another part of cordma reads it (CORDMA_CONFIG).
  void ignore_variable(std::string_view variable) { ignored_.emplace_back(variable); }

  template <class T>
  [[nodiscard]] T get(config_key<T> key) const;
  [[nodiscard]] config_source source(std::string_view key) const;

  // Every setting, in the order of declaration.
  [[nodiscard]] std::vector<config_entry> effective() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  enum class kind : std::uint8_t { flag, number, size, time, text, list, choice };
  using value = std::variant<bool, std::uint64_t, duration, std::string, std::vector<std::string>>;
  struct setting {
    std::string key;
    std::string help;
    kind what = kind::text;
    value initial;
    value current;
    std::uint64_t least = 0;  // numbers, sizes, and times in nanoseconds
    std::uint64_t most = no_limit;
    std::vector<std::string> words;             // lists and choices: the allowed words
    std::string alone;                          // lists: the word that is allowed only alone
    std::vector<std::uint64_t> choice_numbers;  // the enum's value for each word
    config_source source = config_source::default_value;
    std::string place;
  };
  struct change {
    std::size_t index;
    value to;
  };

  std::size_t add(setting&& s);
  [[nodiscard]] const setting* find(std::string_view key) const noexcept;
  [[nodiscard]] const setting& at(std::size_t index) const;
  [[nodiscard]] failure unknown(std::string_view key, const std::string& where) const;
  [[nodiscard]] static result<value> parse(const setting& s, std::string_view text);
  [[nodiscard]] static std::string format(const setting& s, const value& v);
  [[nodiscard]] static std::string allowed(const setting& s);
  void apply(std::vector<change>&& changes, config_source source, const std::string& place);
  friend class config_file;

  std::vector<setting> settings_;
  std::vector<std::string> ignored_;
  std::vector<std::string> warnings_;
};

template <class E>
config_key<E> config::add_choice(std::string_view key, E initial, std::string_view help,
                                 std::initializer_list<std::pair<std::string_view, E>> names) {
  setting s;
  s.key = key;
  s.help = help;
  s.what = kind::choice;
  for (const auto& [word, number] : names) {
    if (number == initial) s.initial = std::uint64_t{s.words.size()};
    s.words.emplace_back(word);
    s.choice_numbers.push_back(static_cast<std::uint64_t>(number));
  }
  CORDMA_REQUIRE(std::holds_alternative<std::uint64_t>(s.initial));
  return config_key<E>(add(std::move(s)));
}

template <class T>
T config::get(config_key<T> key) const {
  const setting& s = at(key.index_);
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(s.choice_numbers[std::get<std::uint64_t>(s.current)]);
  } else {
    return std::get<T>(s.current);
  }
}

}  // namespace cordma
