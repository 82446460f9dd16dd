// The finished files and the totals of a transfer over all its connections.
#pragma once

#include "../files/digest.hpp"
#include "../protocol/wire.hpp"
#include "../tree/entry.hpp"

#include <cstdint>
#include <unordered_set>

namespace copy {

// Records progress for a client that may reconnect. Bound to one thread.
class ledger {
 public:
  // Records a file that has its name at the target. Path, size, time and version identify its
  // source.
  void add_finished(const entry& e);
  [[nodiscard]] bool has_finished(const entry& e) const;

  // Sets the totals of the present connection, and its durable part in bytes plus entries. The
  // manifest and `tally::same` do not count, because each connection determines them anew.
  void note(const tally& so_far, std::uint64_t durable) noexcept;
  // Sets whether the receiver may have begun to delete.
  void note_deleting(bool may_be) noexcept { may_be_deleting_ = may_be; }
  [[nodiscard]] bool may_be_deleting() const noexcept { return may_be_deleting_; }
  // Adds the totals of the present connection, which has ended, to those of earlier connections.
  void end_connection() noexcept;

  // Durable bytes plus entries of all connections. Never decreases.
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_before_ + durable_; }
  // Returns the totals of the transfer; `last` are those of its last connection.
  [[nodiscard]] tally total(tally last) const noexcept;

 private:
  struct hash {
    std::size_t operator()(const file_digest& d) const noexcept { return d.low; }
  };
  [[nodiscard]] static file_digest name_of(const entry& e);

  std::unordered_set<file_digest, hash> finished_;
  tally before_;  // of earlier connections
  tally now_;
  std::uint64_t durable_before_ = 0;
  std::uint64_t durable_ = 0;
  bool may_be_deleting_ = false;
};

}  // namespace copy
