// One end of a TLS connection, without a network: the caller passes received bytes in and sends the
// produced bytes.
#pragma once

#include "tls_context.hpp"

#include <cordma/runtime/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct ssl_st;

namespace support {

// Bound to one thread. It allocates nothing after the handshake, except with a context of
// tls_use::many_clients: its channels use little memory while they are idle. After a call has
// failed or thrown, only sealed() and gone() may be called.
class tls_channel {
 public:
  static constexpr std::size_t record_bytes = 16U << 10;  // maximum of plain text

  // For a server.
  explicit tls_channel(const tls_context& with) : tls_channel(with, std::string()) {}
  // For a client. `host`: name or IP address for which the server's certificate must be valid;
  // empty: for a server.
  tls_channel(const tls_context& with, std::string host);
  tls_channel(const tls_channel&) = delete;
  tls_channel& operator=(const tls_channel&) = delete;
  ~tls_channel();

  struct step {
    std::size_t taken = 0;  // consumed bytes of `arrived`
    std::size_t given = 0;  // bytes of plain text; 0: more bytes must arrive first
    bool over = false;      // the handshake is complete; of open(): the peer has closed its side
  };
  // Continues the handshake. After a failure, too, sealed() has bytes for the peer. Errors:
  // rejected (this side does not trust the server's certificate, or the peer refuses),
  // connection_aborted (the received bytes are not TLS).
  [[nodiscard]] cordma::result<step> shake_hands(std::span<const std::byte> arrived);
  // Decrypts at most one record of the received bytes. Errors: invalid_value (the bytes were
  // altered on the way).
  [[nodiscard]] cordma::result<step> open(std::span<const std::byte> arrived,
                                          std::span<std::byte> into);
  // Encrypts into sealed() and returns the number of accepted bytes, at most record_bytes; 0: no
  // space until gone().
  [[nodiscard]] std::size_t seal(std::span<const std::byte> plain);
  // Appends the close notification.
  void close() noexcept;

  // Bytes to send. They stay at the same address until gone(), even if more is sealed; with
  // many_clients until the next call only.
  [[nodiscard]] std::span<const std::byte> sealed() const noexcept { return sealed_; }
  // Reports that the first `bytes` of sealed() were sent.
  void gone(std::size_t bytes) noexcept;

  // A secret that only the two ends of this connection know (RFC 8446, 7.5), a separate one per
  // label. REQUIRES a complete handshake.
  [[nodiscard]] std::array<std::byte, 32> exported(const std::string& label) const;
  [[nodiscard]] std::string cipher() const;

  // For tests: changes the key after this number of records.
  void change_key_after(std::uint64_t records) noexcept { key_lasts_ = records; }

 private:
  struct transfer;  // callbacks of OpenSSL
  struct deleter {
    void operator()(ssl_st* s) const noexcept;
  };
  void demand_host();
  [[nodiscard]] cordma::failure why_no_handshake() const;

  // Records in transfer to the network at a time: more would exceed the caches and be no faster.
  static constexpr std::size_t most_records = 8;
  static constexpr std::size_t around_record = 512;    // exceeds the overhead of a record
  static constexpr std::size_t for_alerts = 4U << 10;  // reserve for alerts
  static constexpr std::size_t most_sealed = most_records * (record_bytes + around_record);
  static constexpr std::size_t most_at_rest = 4U << 10;  // of an idle many_clients channel

  const tls_use use_;
  std::unique_ptr<ssl_st, deleter> ssl_;
  std::string host_;                    // empty: this is the server
  std::string distrust_;                // fault of the server's certificate
  std::span<const std::byte> arrived_;  // bytes that OpenSSL has not read yet, during a call
  std::vector<std::byte> sealed_;
  // A key of AES-GCM is good for 2^24.5 full records (RFC 8446, 5.5).
  std::uint64_t key_lasts_ = std::uint64_t{1} << 24;
  std::uint64_t with_this_key_ = 0;  // records
};

}  // namespace support
