// The two sides of pulling a tree.
#pragma once

#include "tree.hpp"

#include <cordma/cordma.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace demo {

// Memory of each side per connection: window_count windows of window_bytes, whatever the files are.
inline constexpr std::uint32_t window_count = 8;
inline constexpr std::uint32_t window_bytes = 1U << 20;

// Serves `root` to one client, to its end. Throws cordma::error, std::runtime_error.
[[nodiscard]] cordma::task<void> serve_tree(cordma::Context context,
                                            cordma::ConnectionRequest request,
                                            std::filesystem::path root);

struct pulled {
  std::vector<entry> entries;
  std::vector<omission> left_out;  // by the server
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;    // one-sided ones
  std::uint32_t changed = 0;  // files that changed at the server meanwhile
  double seconds = 0;         // of list and contents, to the last file closed
  double writing_s = 0;       // of them, writing files; the next windows fill meanwhile
  std::string transport;
  std::string reason;
};

// Where people can watch; `silent` where none do.
enum class show_progress : std::uint8_t { silent, on_terminal };

// Pulls the tree of the server at `address` into `target`. Throws cordma::error,
// std::runtime_error.
[[nodiscard]] cordma::task<pulled> pull_tree(cordma::Context& context, cordma::Worker& worker,
                                             std::string address, cordma::connect_options options,
                                             std::filesystem::path target, show_progress show);

}  // namespace demo
