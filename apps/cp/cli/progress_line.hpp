// The progress of a transfer, in one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace copy {

// Totals of all files, in bytes and bytes per second.
struct progress_figures {
  double done = 0;
  double found = 0;
  bool all_found = false;
  double rate = 0;
  std::uint64_t files_done = 0;
  std::uint64_t files_found = 0;
};

// Return texts for people: "1.2 GB", "0 B"; "12 s", "1:02", "1:02:03".
[[nodiscard]] std::string in_bytes(double bytes);
[[nodiscard]] std::string in_time(double s);

// Returns all figures, of any length.
[[nodiscard]] std::string progress_text(const progress_figures& f);
// Returns a line of at most `width` columns. If not everything fits, parts are kept in this order:
// share, rate, remaining time, sizes, number of files. A bar is added if there is space left.
[[nodiscard]] std::string progress_line(const progress_figures& f, std::size_t width);

}  // namespace copy
