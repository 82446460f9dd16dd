// journal_gate: what sessions ask the journal before they answer.
#pragma once

#include "../store/item.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace kv {

// Of the changes in a record: room for the largest change. Of a transaction that makes more, each such part is
// whole or not there after a crash.
inline constexpr std::size_t max_record_bytes = (std::size_t{1} << 30) + (std::size_t{1} << 20);
static_assert(2 * max_value_bytes + max_key_bytes + 64 < max_record_bytes);

// Any thread.
class journal_gate {
 public:
  virtual ~journal_gate() = default;
  // The number of the last change that was logged, and of the last one that is on the disk for good.
  [[nodiscard]] virtual std::uint64_t appended() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t durable() const noexcept = 0;
  // Whether nothing is answered before it is durable (appendfsync always).
  [[nodiscard]] virtual bool waits() const noexcept = 0;
  // Whether so much waits to be written that changes have to wait until it is less.
  [[nodiscard]] virtual bool backlogged() const noexcept = 0;
  // Whether changes are refused just now, because they cannot be kept; and why, for the client.
  [[nodiscard]] virtual bool refuses() const noexcept = 0;
  [[nodiscard]] virtual std::string why() const = 0;
};

}  // namespace kv
