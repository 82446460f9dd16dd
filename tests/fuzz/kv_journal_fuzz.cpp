// Files of cordma-kv's journal: any contents are read within their bounds, and complete records
// stay complete.
#include "../../apps/kv/journal/log_reader.hpp"
#include "../../apps/kv/journal/manifest.hpp"

#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace kv;

void demand(bool holds) {
  if (!holds) std::abort();
}

// Records the changes that it receives.
class again final : public change_target {
 public:
  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t version) noexcept override {
    demand(key.size() <= max_key_bytes && value.size() <= max_value_bytes);
    out.put(key, value, expiry, version);
  }
  void erased(std::string_view key) noexcept override { out.erased(key); }
  void expiry_set(std::string_view key, unix_ms expiry) noexcept override {
    out.expiry_set(key, expiry);
  }
  void field_put(std::string_view key, std::string_view field,
                 std::string_view value) noexcept override {
    out.field_put(key, field, value);
  }
  void field_erased(std::string_view key, std::string_view field) noexcept override {
    out.field_erased(key, field);
  }
  void cleared_part(const hash_part& part) noexcept override {
    demand(part.shard < part.shards);
    out.cleared(part);
  }
  void ended(std::uint64_t records) noexcept override { out.end(records); }

  change_encoder out;
};

// Decoded changes, encoded again, decode to the same.
void check_changes(std::string_view changes) {
  again first;
  if (!decode_changes(changes, first)) return;
  again second;
  demand(decode_changes(first.out.text(), second));
  demand(second.out.text() == first.out.text());
}

cordma::result<log_reader> file_of(std::string_view bytes) {
  cordma::unique_fd fd(::memfd_create("journal", MFD_CLOEXEC));
  demand(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  return log_reader::of(std::move(fd), "it");
}

void check_file(std::string_view bytes) {
  cordma::result<log_reader> file = file_of(bytes);
  if (!file) {
    demand(!file.why().message().empty());
    return;
  }
  log_reader::outcome got = (*file).next();
  std::uint64_t records = 0;
  for (; got == log_reader::outcome::record; got = (*file).next()) {
    ++records;
    check_changes((*file).changes());
  }
  const std::uint64_t valid = (*file).offset();
  demand(got != log_reader::outcome::unreadable && valid <= bytes.size());
  demand((got == log_reader::outcome::end) == (valid == bytes.size()));
  if (got != log_reader::outcome::torn) return;
  // Truncated there, as by a server at its start, the file is complete.
  cordma::result<log_reader> cut = file_of(bytes.substr(0, valid));
  demand(cut.ok());
  for (; records > 0; --records) demand((*cut).next() == log_reader::outcome::record);
  demand((*cut).next() == log_reader::outcome::end);
}

// The rest of the file with correct heads, so that the contents of records are decoded too.
void check_mended(std::string_view bytes) {
  const auto head = encode(log_header{log_kind::increment, 1, 1, 0});
  std::string file(head.data(), head.size());
  std::uint64_t sequence = 0;
  while (!bytes.empty()) {
    const std::size_t length =
        std::min<std::size_t>(bytes.size(), 1 + static_cast<unsigned char>(bytes[0]));
    const std::string_view changes = bytes.substr(0, length);
    const std::uint32_t crc =
        record_crc(crc_more(crc_begin, changes), static_cast<std::uint32_t>(length), 1, ++sequence);
    const auto mended = encode(record_header{static_cast<std::uint32_t>(length), crc, sequence});
    file.append(mended.data(), mended.size()).append(changes);
    bytes.remove_prefix(length);
  }
  check_file(file);
}

void check_manifest(std::string_view text) {
  const cordma::result<manifest> parsed = parse_manifest(text);
  if (!parsed) return;
  const std::string written = (*parsed).text();
  const cordma::result<manifest> reread = parse_manifest(written);
  demand(reread.ok() && (*reread).text() == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view in(reinterpret_cast<const char*>(data), size);
  check_file(in);
  check_changes(in);
  check_mended(in);
  check_manifest(in);
  return 0;
}
