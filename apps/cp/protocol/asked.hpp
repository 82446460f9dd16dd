// The entries that a sender may list: those that were requested.
#pragma once

#include "../tree/filter.hpp"
#include "wire.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// Names that a client requested from a server.
struct named_sources {
  std::vector<std::string> names{};   // the first parts of all paths; empty: any
  std::vector<std::string> listed{};  // as transfer_options::listed
};

// Compares received entries, in their order, with the request. Bound to one thread.
class asked {
 public:
  // REQUIRES: both arguments outlive the object.
  asked(const transfer_options& options, const filter& chosen)
      : options_(options), filter_(chosen) {}
  // For a sender that is a server and not trusted with names and rules: checks them on this side,
  // too.
  void only(named_sources named);
  // Returns an empty text for a permitted entry; else the kind of entry that was not requested.
  [[nodiscard]] std::string_view what_is_wrong(const entry& e);

 private:
  [[nodiscard]] std::string_view kind_is_wrong(const entry& e) const noexcept;
  [[nodiscard]] bool is_named(std::string_view path) const noexcept;
  [[nodiscard]] std::size_t end_of_listed(std::string_view path) const noexcept;
  [[nodiscard]] bool leads_to_listed(const entry& e) const;
  [[nodiscard]] bool is_listed(const entry& e) const;
  [[nodiscard]] bool is_excluded(const entry& e);
  const transfer_options& options_;
  const filter& filter_;
  std::optional<named_sources> named_;
  std::string let_in_;  // a directory that no rule excludes, nor any directory above it
};

}  // namespace copy
