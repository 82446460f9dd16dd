// Runs a transfer between connected lanes and local files.
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

// A place below a directory, reached without leaving that directory: an open descriptor, and a path
// through it ("/proc/self/fd/7/name"), valid during the life of this object. Missing parts of the
// path are not created.
struct held_path {
  cordma::unique_fd held;
  std::string path;
};
// Treatment of a symlink as the last name of a path: followed (its target must also be below the
// directory), or kept as a link.
enum class links : unsigned char { followed, kept };
// `path` is relative, or empty. Throws failed_place with a message about `called`, the user's name
// of the path; std::runtime_error if `path` leads out of `root`.
[[nodiscard]] held_path hold_below(const std::string& root, const std::string& path,
                                   const std::string& called, links last);

// "a/b/" names the contents of a/b, as does a path that ends in ".".
[[nodiscard]] source source_of(const std::string& path);
// True if the only source is not a directory; also true if it does not exist.
[[nodiscard]] bool is_single_file(const std::vector<source>& sources);

// The target of a file or tree that is to be written to `path`, with the rules of cp and rsync.
struct destination {
  std::string root;       // directory; created if it is missing
  std::string only_name;  // name of the single file in it; empty: the name of the source
  int output = -1;        // if set, the single file is written there instead, in order
  std::string called{};   // user's name of it, for messages; empty: `root`
  std::optional<named_sources> asked{};  // the only entries that the server may send
};
// Standard output.
[[nodiscard]] destination to_output() noexcept;
[[nodiscard]] destination choose(const std::string& path, bool is_directory, bool single_file);

// Throw cordma::error, std::exception. A client that may reconnect passes `done`, which receives
// the finished files and totals; otherwise it is null.
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

// The functions of a server for permitted requests; see server::handlers.
[[nodiscard]] bool examine_request(const client_request& r);
[[nodiscard]] cordma::task<void> carry_out_request(cordma::Context& context, cordma::Worker& worker,
                                                   client_request r, lanes& ways);

}  // namespace copy
