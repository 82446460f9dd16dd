// Input of RESP clients: it is answered or refused, with the same result in pieces of any size.
#include "../../apps/kv/command/service.hpp"
#include "../../apps/kv/command/session.hpp"

#include <cordma/runtime/check.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr kv::unix_ms now = 1'700'000'000'000;
constexpr std::size_t most_bytes = 4096;

struct server {
  cordma::virtual_clock time;
  kv::keyspace keys;
  kv::service of;

  server() : keys(memory(), {.hash_seed = 7, .max_bytes = 0}), of(keys, initial(), options()) {}

  static std::vector<std::unique_ptr<kv::memory_source>> memory() {
    std::vector<std::unique_ptr<kv::memory_source>> one;
    one.push_back(std::make_unique<kv::plain_memory>());
    return one;
  }
  static kv::parsed_settings initial() {
    kv::parsed_settings p;
    p.values.proto_max_bulk_len = 1 << 20;
    p.values.slowlog_log_slower_than = -1;
    return p;
  }
  kv::service_options options() {
    kv::service_options o;
    o.time = &time;
    o.wall_clock = [](void*) noexcept { return now; };
    return o;
  }
};

// Its replies to the complete input, passed in pieces of this many bytes.
std::string answers(std::string_view bytes, std::size_t piece) {
  server s;
  kv::session_origin origin;
  origin.loopback = true;
  kv::session one(s.of, origin, [](void*) noexcept {}, nullptr);
  std::string all;
  while (!bytes.empty() && one.ended() == kv::session::ending::no && one.wants_input()) {
    const std::span<char> room = one.room();
    const std::size_t n =
        std::min({bytes.size(), piece, room.empty() ? bytes.size() : room.size()});
    if (room.empty()) {
      one.received({bytes.data(), n});
    } else {
      std::memcpy(room.data(), bytes.data(), n);
      one.arrived(n);
    }
    bytes.remove_prefix(n);
    while (!one.pending().empty()) {
      const std::span<const char> p = one.pending();
      all.append(p.data(), p.size());
      one.sent(p.size());
    }
  }
  return all;
}

bool mentions(std::string_view bytes, std::string_view word) {
  const auto found = std::search(bytes.begin(), bytes.end(), word.begin(), word.end(),
                                 [](char a, char b) { return (a | 0x20) == (b | 0x20); });
  return found != bytes.end();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > most_bytes) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Commands that sleep, write files, depend on chance, or report buffers and processor time.
  for (const std::string_view word :
       {"sleep", "save", "rewrite", "acl", "rand", "genpass", "client", "info", "hello"}) {
    if (mentions(bytes, word)) {
      static_cast<void>(mentions(bytes, "sleep") || mentions(bytes, "acl") ? std::string()
                                                                           : answers(bytes, size));
      return 0;
    }
  }
  const std::string whole = answers(bytes, std::max<std::size_t>(size, 1));
  CORDMA_REQUIRE(answers(bytes, 1) == whole);
  CORDMA_REQUIRE(answers(bytes, 7) == whole);
  return 0;
}
