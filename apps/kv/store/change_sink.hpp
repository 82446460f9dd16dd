// Receiver of every change of a store: the journal.
#pragma once

#include "item.hpp"

#include <cstdint>
#include <string_view>

namespace kv {

// Called on the thread that changes the store, under its lock, in the order of the changes. Each
// call states the resulting state, not the request: applied again to any later state, together with
// all that follow, it leads to the same result. The views belong to the caller and are valid during
// the call only.
class change_sink {
 public:
  virtual ~change_sink() = default;
  // The key holds this string and nothing else.
  virtual void put(std::string_view key, std::string_view value, unix_ms expiry,
                   std::uint64_t version) noexcept = 0;
  virtual void erased(std::string_view key) noexcept = 0;
  virtual void expiry_set(std::string_view key, unix_ms expiry) noexcept = 0;
  // The key holds a hash with this field. The hash is created if it does not exist.
  virtual void field_put(std::string_view key, std::string_view field,
                         std::string_view value) noexcept = 0;
  virtual void field_erased(std::string_view key, std::string_view field) noexcept = 0;
  // False: the content of changes is not recorded at present; they are still counted.
  [[nodiscard]] virtual bool notes() const noexcept { return true; }
  // The shard is empty.
  virtual void cleared() noexcept = 0;
};

}  // namespace kv
