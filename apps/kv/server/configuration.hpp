// What cordma-kv is told: a configuration file in Redis's syntax, and the same names as options.
#pragma once

#include "../command/settings.hpp"
#include "native_front.hpp"
#include "worker.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

struct server_options {
  parsed_settings configured;
  std::string config_file;  // its path, whole; empty: none
  cordma::wait_mode wait = cordma::wait_mode::event;
  io_choice io = io_choice::automatic;
  std::string pidfile;
  native_settings native;
  std::vector<std::string> warnings;  // of the file: lines that have no meaning here
};

// One option or line: a name and what follows it.
struct said_option {
  std::string name;
  std::vector<std::string> values;
};

struct command_line {
  enum class wish : std::uint8_t { serve, help, version, check, check_aof, fix_aof };
  wish what = wish::serve;
  std::string config_file;
  std::string aof;  // what check_aof and fix_aof are about
  std::vector<said_option> options;
};

// [FILE] [--name value ...] ...: an option's values go on until the next that begins with "--".
// --check-aof PATH [--fix] stands alone. Throws cordma::error (invalid_value) with a sentence.
[[nodiscard]] command_line parse_command_line(const std::vector<std::string>& arguments);

// The text of the file, then the options, which prevail. Throws cordma::error (invalid_value): a line for each line of
// the file that is wrong, or the option, and the name that is nearest to one that is not known.
[[nodiscard]] server_options read_options(const command_line& said);
[[nodiscard]] server_options read_options(std::string_view text, const std::string& file,
                                          const std::vector<said_option>& options);

[[nodiscard]] std::string help_text();
// The name that comes closest; empty: none does.
[[nodiscard]] std::string nearest_name(std::string_view name);

}  // namespace kv
