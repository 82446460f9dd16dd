// The two sides of copying a tree.
#pragma once

#include "tree.hpp"

#include <cordma/cordma.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace demo {

// Memory of each side per connection, independent of the files: window_count windows of
// window_bytes.
inline constexpr std::uint32_t window_count = 8;
inline constexpr std::uint32_t window_bytes = 1U << 20;

// Serves `root` to one client until it is done. Throws cordma::error, std::runtime_error.
[[nodiscard]] cordma::task<void> serve_tree(cordma::Context context,
                                            cordma::ConnectionRequest request,
                                            std::filesystem::path root);

struct pulled {
  std::vector<entry> entries;
  std::vector<omission> left_out;  // omitted by the server
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;    // one-sided reads
  std::uint32_t changed = 0;  // files that changed at the server during the transfer
  double seconds = 0;         // from the list to the last closed file
  // part of it spent on writing files; the next windows are filled meanwhile
  double writing_s = 0;
  std::string transport;
  std::string reason;
};

// `on_terminal` shows a progress line; `silent` shows nothing.
enum class show_progress : std::uint8_t { silent, on_terminal };

// Copies the tree of the server at `address` to `target`. Throws cordma::error, std::runtime_error.
[[nodiscard]] cordma::task<pulled> pull_tree(cordma::Context& context, cordma::Worker& worker,
                                             std::string address, cordma::connect_options options,
                                             std::filesystem::path target, show_progress show);

}  // namespace demo
