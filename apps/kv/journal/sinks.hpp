// Receives a shard's changes for the journal.
#pragma once

#include "journal.hpp"

namespace kv {

// Used by the thread that holds the shard.
class journal::shard_sink final : public change_sink {
 public:
  shard_sink(journal& of, std::uint32_t shard) noexcept : of_(of), shard_(shard) {}

  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t version) noexcept override {
    if (begin(key.size() + value.size())) text_.put(key, value, expiry, version);
    end();
  }
  void erased(std::string_view key) noexcept override {
    if (begin(key.size())) text_.erased(key);
    end();
  }
  void expiry_set(std::string_view key, unix_ms expiry) noexcept override {
    if (begin(key.size())) text_.expiry_set(key, expiry);
    end();
  }
  void field_put(std::string_view key, std::string_view field,
                 std::string_view value) noexcept override {
    if (begin(key.size() + field.size() + value.size())) text_.field_put(key, field, value);
    end();
  }
  void field_erased(std::string_view key, std::string_view field) noexcept override {
    if (begin(key.size() + field.size())) text_.field_erased(key, field);
    end();
  }
  void cleared() noexcept override {
    if (begin(0)) text_.cleared({of_.keys_.hash_seed(), shard_, of_.keys_.shards()});
    end();
  }

  [[nodiscard]] bool notes() const noexcept override { return of_.noting(); }

  void group(bool begins) noexcept { grouped_ = begins; }
  [[nodiscard]] std::string_view text() const noexcept { return text_.text(); }
  void reset() noexcept { text_.reset(); }
  // Any thread.
  [[nodiscard]] std::uint64_t changes() const noexcept {
    return changes_.load(std::memory_order_relaxed);
  }

 private:
  // upper limit of a change's size without its texts
  static constexpr std::size_t change_overhead = 64;
  // True if the change is to be recorded. A group that would exceed the limit of a record is
  // recorded in parts.
  [[nodiscard]] bool begin(std::size_t bytes) noexcept {
    changes_.store(changes() + 1, std::memory_order_relaxed);
    if (!of_.noting()) return false;
    if (text().size() + bytes + change_overhead > max_record_bytes) of_.commit(mask());
    return true;
  }
  void end() noexcept {
    if (!grouped_ && !text().empty()) of_.commit(mask());
  }
  [[nodiscard]] std::uint64_t mask() const noexcept { return std::uint64_t{1} << shard_; }

  journal& of_;
  const std::uint32_t shard_;
  bool grouped_ = false;
  change_encoder text_;
  std::atomic<std::uint64_t> changes_{0};
};

}  // namespace kv
