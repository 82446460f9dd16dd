// journal_gate: interface through which sessions query the journal before they reply.
#pragma once

#include "../store/item.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace kv {

// Limit of the changes in a record: enough for the largest change. A larger transaction is split,
// and after a crash each part is present completely or not at all.
inline constexpr std::size_t max_record_bytes = (std::size_t{1} << 30) + (std::size_t{1} << 20);
static_assert(2 * max_value_bytes + max_key_bytes + 64 < max_record_bytes);

// For any thread.
class journal_gate {
 public:
  virtual ~journal_gate() = default;
  // The number of the last change that was logged, and of the last one that is durably on the disk.
  [[nodiscard]] virtual std::uint64_t appended() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t durable() const noexcept = 0;
  // True if replies wait until their changes are durable (appendfsync always).
  [[nodiscard]] virtual bool waits() const noexcept = 0;
  // True if changes must wait until fewer bytes wait to be written.
  [[nodiscard]] virtual bool backlogged() const noexcept = 0;
  // True if changes are refused at present, because they cannot be stored. why() returns the reason
  // for the client.
  [[nodiscard]] virtual bool refuses() const noexcept = 0;
  [[nodiscard]] virtual std::string why() const = 0;
};

}  // namespace kv
