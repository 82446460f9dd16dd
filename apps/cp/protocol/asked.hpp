// What a sender may list, whoever it is: what was asked of it.
#pragma once

#include "../tree/filter.hpp"
#include "wire.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace copy {

// What a client has named of a server.
struct named_sources {
  std::vector<std::string> names{};   // no path begins with another; empty: with any
  std::vector<std::string> listed{};  // of transfer_options::listed
};

// Holds entries, in the order in which they come, against what was asked for. Bound to one thread.
class asked {
 public:
  // Both outlive it.
  asked(const transfer_options& options, const filter& chosen)
      : options_(options), filter_(chosen) {}
  // The sender is a server, which is not trusted with names and rules: those it was told are looked at here, too.
  void only(named_sources named);
  // Empty: it may come. Else what it is that was not asked for.
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
  std::string let_in_;  // a directory that no rule excludes, nor one that it is in
};

}  // namespace copy
