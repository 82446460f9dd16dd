// A transfer between lanes that are there and files that are here.
#pragma once

#include "../protocol/asked.hpp"
#include "../tree/scan.hpp"
#include "ledger.hpp"
#include "progress.hpp"
#include "sender.hpp"
#include "session.hpp"

#include <cordma/cordma.hpp>

#include <optional>
#include <string>
#include <vector>

namespace copy {

// A place below a directory that is reached by no way out of it: what is open, and a path by way of it
// ("/proc/self/fd/7/name"), good while this lives. What of it does not exist is left to be made.
struct held_path {
  cordma::unique_fd held;
  std::string path;
};
// What a symlink is that the last name of a path stands for: where it leads to (which must be below, too), or itself.
enum class links : unsigned char { followed, kept };
// `path` is relative, or empty. Throws failed_place, of what its user calls `called`.
[[nodiscard]] held_path hold_below(const std::string& root, const std::string& path,
                                   const std::string& called, links last);

// "a/b/" is what is in a/b; so is "." at the end.
[[nodiscard]] source source_of(const std::string& path);
// Whether the one source is something else than a directory; of one that is not there nothing else is to be expected.
[[nodiscard]] bool is_single_file(const std::vector<source>& sources);

// Where a file or a tree goes that is to be at `path`, as cp and rsync have it.
struct destination {
  std::string root;       // a directory, to be made where it is missing
  std::string only_name;  // what the single file is called in it; empty: as it was called
  int output = -1;        // instead of all that: the single file is written there, in order
  std::string called{};   // by its user, in what is said of it; empty: as `root`
  std::optional<named_sources> asked{};  // of a server, of which nothing else may come
};
// Standard output.
[[nodiscard]] destination to_output() noexcept;
[[nodiscard]] destination choose(const std::string& path, bool is_directory, bool single_file);

// Throw cordma::error, std::exception. A client that may reconnect passes `done`, which receives the finished files and
// totals; else null.
[[nodiscard]] cordma::task<outcome> send_all(cordma::Context& context, cordma::Worker& worker,
                                             lanes& ways, std::vector<source> sources,
                                             std::vector<std::string> rules,
                                             transfer_options options, progress& shown,
                                             item_sink tell, std::uint64_t flip_every = 0,
                                             ledger* done = nullptr);
[[nodiscard]] cordma::task<outcome> receive_all(cordma::Context& context, cordma::Worker& worker,
                                                lanes& ways, destination where,
                                                std::vector<std::string> rules,
                                                transfer_options options, progress& shown,
                                                item_sink tell, ledger* done = nullptr);

inline constexpr std::uint64_t most_memory_of_a_client = 256U << 20;  // bytes, at a server

// What a server does for whoever may: see server.
[[nodiscard]] bool examine_request(const client_request& r);
[[nodiscard]] cordma::task<void> carry_out_request(cordma::Context& context, cordma::Worker& worker,
                                                   client_request r, lanes& ways);

}  // namespace copy
