// What a transfer has done so far, over all of its connections.
#pragma once

#include "digest.hpp"
#include "entry.hpp"
#include "wire.hpp"

#include <cstdint>
#include <unordered_set>

namespace copy {

// Kept by a client that may have to connect again. Bound to one thread.
class ledger {
 public:
  // The file has its name at the target. Its source is known again by path, size, time and version.
  void add_finished(const entry& e);
  [[nodiscard]] bool has_finished(const entry& e) const;

  // What the present connection has done so far, and how much of it a further one need not bring again: bytes and
  // entries. Without the manifest and what is the same, which each connection finds anew.
  void note(const tally& so_far, std::uint64_t durable) noexcept;
  // Whether the receiver may be removing what --delete removes, or has done so.
  void note_deleting(bool may_be) noexcept { may_be_deleting_ = may_be; }
  [[nodiscard]] bool may_be_deleting() const noexcept { return may_be_deleting_; }
  // The present connection is over: what it has done counts for all that come.
  void end_connection() noexcept;

  // Never falls.
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_before_ + durable_; }
  // Of the whole transfer, the last connection of which has come to `last`.
  [[nodiscard]] tally total(tally last) const noexcept;

 private:
  struct hash {
    std::size_t operator()(const file_digest& d) const noexcept { return d.low; }
  };
  [[nodiscard]] static file_digest name_of(const entry& e);

  std::unordered_set<file_digest, hash> finished_;
  tally before_;  // of the connections that are over
  tally now_;
  std::uint64_t durable_before_ = 0;
  std::uint64_t durable_ = 0;
  bool may_be_deleting_ = false;
};

}  // namespace copy
