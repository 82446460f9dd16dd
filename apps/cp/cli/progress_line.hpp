// How far a transfer is, in one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace copy {

// Of all files; bytes, and bytes a second.
struct progress_figures {
  double done = 0;
  double found = 0;
  bool all_found = false;
  double rate = 0;
  std::uint64_t files_done = 0;
  std::uint64_t files_found = 0;
};

// For people: "1.2 GB", "0 B"; "12 s", "1:02", "1:02:03".
[[nodiscard]] std::string in_bytes(double bytes);
[[nodiscard]] std::string in_time(double s);

// All there is to say, whatever its length.
[[nodiscard]] std::string progress_text(const progress_figures& f);
// Not longer than `width`: where not all has room, the share goes before the rate, that before the time that is left, and
// those before sizes and numbers of files. A bar is where there is room for more than all.
[[nodiscard]] std::string progress_line(const progress_figures& f, std::size_t width);

}  // namespace copy
