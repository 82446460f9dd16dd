// Who learns of every change of a store: the journal.
#pragma once

#include "item.hpp"

#include <cstdint>
#include <string_view>

namespace kv {

// Called on the thread that changes the store, under its lock, in the order of the changes. Each says what is, not
// what was asked for: carried out again on any later state, and all that follow it, it leads to the same end.
// Views are the caller's; they end with the call.
class change_sink {
 public:
  virtual ~change_sink() = default;
  // The key holds this string, and nothing else.
  virtual void put(std::string_view key, std::string_view value, unix_ms expiry,
                   std::uint64_t version) noexcept = 0;
  virtual void erased(std::string_view key) noexcept = 0;
  virtual void expiry_set(std::string_view key, unix_ms expiry) noexcept = 0;
  // The key holds a hash, which has this field. Made where there is none.
  virtual void field_put(std::string_view key, std::string_view field,
                         std::string_view value) noexcept = 0;
  virtual void field_erased(std::string_view key, std::string_view field) noexcept = 0;
  // False: what changes are is not noted now; how many they are counts all the same.
  [[nodiscard]] virtual bool notes() const noexcept { return true; }
  // Nothing is left in the shard.
  virtual void cleared() noexcept = 0;
};

}  // namespace kv
