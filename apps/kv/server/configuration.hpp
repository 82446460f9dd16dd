// The configuration of cordma-kv: a file in Redis's syntax, and options of the same names.
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
  std::string config_file;  // absolute path; empty: none
  cordma::wait_mode wait = cordma::wait_mode::event;
  io_choice io = io_choice::automatic;
  std::string pidfile;
  native_settings native;
  std::vector<std::string> warnings;  // about the file: lines that have no meaning here
};

// One option or line: a name and its values.
struct said_option {
  std::string name;
  std::vector<std::string> values;
};

struct command_line {
  enum class wish : std::uint8_t { serve, help, version, check, check_aof, fix_aof };
  wish what = wish::serve;
  std::string config_file;
  std::string aof;  // path for check_aof and fix_aof
  std::vector<said_option> options;
};

// Syntax: [FILE] [--name value ...] ...; the values of an option extend to the next argument that
// begins with "--". --check-aof PATH [--fix] is a form without other arguments. Throws
// cordma::error (invalid_value) with a sentence.
[[nodiscard]] command_line parse_command_line(const std::vector<std::string>& arguments);

// Reads the text of the file, then the options, which prevail. Throws cordma::error
// (invalid_value): one line for each wrong line of the file, or the wrong option; for an unknown
// name also the nearest known one.
[[nodiscard]] server_options read_options(const command_line& said);
[[nodiscard]] server_options read_options(std::string_view text, const std::string& file,
                                          const std::vector<said_option>& options);

[[nodiscard]] std::string help_text();
// Returns the closest known name; empty: none is close.
[[nodiscard]] std::string nearest_name(std::string_view name);

}  // namespace kv
