// One end of a TLS connection, without a network: what has arrived goes in, what is to leave comes out.
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

// Bound to one thread. After the handshake nothing is allocated, except with a context of tls_use::many_clients, whose
// channels hold little memory while they are silent. Once a call has failed, or thrown, no other is made but sealed()
// and gone().
class tls_channel {
 public:
  static constexpr std::size_t record_bytes = 16U << 10;  // of plain text, at most

  // A server's.
  explicit tls_channel(const tls_context& with) : tls_channel(with, std::string()) {}
  // A client's, to that name or IP address, for which the server's certificate has to be; empty: a server's.
  tls_channel(const tls_context& with, std::string host);
  tls_channel(const tls_channel&) = delete;
  tls_channel& operator=(const tls_channel&) = delete;
  ~tls_channel();

  struct step {
    std::size_t taken = 0;  // bytes of what had arrived
    std::size_t given = 0;  // bytes of plain text; 0 where more has to arrive first
    bool over =
        false;  // of the handshake: it is done; of open(): the peer has said that no more comes
  };
  // Goes on with the handshake. On failure, too, sealed() has what the peer is to be told. Errors: rejected (this side
  // does not trust the server's certificate, or the peer says no), connection_aborted (what came is no TLS).
  [[nodiscard]] cordma::result<step> shake_hands(std::span<const std::byte> arrived);
  // Plain text from what has arrived, at most one record of it. Errors: invalid_value (it is not as the peer sent it).
  [[nodiscard]] cordma::result<step> open(std::span<const std::byte> arrived,
                                          std::span<std::byte> into);
  // How much of it, at most record_bytes, is in sealed() now; 0: there is no room, which gone() makes.
  [[nodiscard]] std::size_t seal(std::span<const std::byte> plain);
  // Says that no more comes.
  void close() noexcept;

  // What is to leave. It stays where it is until gone(), also when more is sealed; of many_clients until the next call.
  [[nodiscard]] std::span<const std::byte> sealed() const noexcept { return sealed_; }
  // The first `bytes` of it have left.
  void gone(std::size_t bytes) noexcept;

  // What only the two ends of this connection know (RFC 8446, 7.5), for one purpose each. REQUIRES that they have shaken
  // hands.
  [[nodiscard]] std::array<std::byte, 32> exported(const std::string& label) const;
  [[nodiscard]] std::string cipher() const;

  // For tests: with another key after so many records.
  void change_key_after(std::uint64_t records) noexcept { key_lasts_ = records; }

 private:
  struct transfer;  // what OpenSSL calls
  struct deleter {
    void operator()(ssl_st* s) const noexcept;
  };
  void demand_host();
  [[nodiscard]] cordma::failure why_no_handshake() const;

  // Records that are under way to the network at a time: beyond the caches more are no faster.
  static constexpr std::size_t most_records = 8;
  static constexpr std::size_t around_record = 512;    // more than a record adds to its text
  static constexpr std::size_t for_alerts = 4U << 10;  // that find no room otherwise
  static constexpr std::size_t most_sealed = most_records * (record_bytes + around_record);
  static constexpr std::size_t most_at_rest = 4U
                                              << 10;  // of many_clients, while nothing is to leave

  const tls_use use_;
  std::unique_ptr<ssl_st, deleter> ssl_;
  std::string host_;                    // empty: this is the server
  std::string distrust_;                // what is wrong with the server's certificate
  std::span<const std::byte> arrived_;  // that OpenSSL has not taken, while it is called
  std::vector<std::byte> sealed_;
  // 2^24.5 full records are good with one key of AES-GCM (RFC 8446, 5.5).
  std::uint64_t key_lasts_ = std::uint64_t{1} << 24;
  std::uint64_t with_this_key_ = 0;  // records
};

}  // namespace support
