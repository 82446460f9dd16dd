// State shared by one end's TLS connections: trusted certificates, or its own certificate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace support {

// The use of a context's channels.
//   transfers     TLS 1.3 only, without resumption; only the owner and the group may read the key
//   file.
//   many_clients  TLS 1.2 and above, with resumption; an idle channel uses little memory.
enum class tls_use : std::uint8_t { transfers, many_clients };

// Client certificates: whether a server requests one, and the PEM file of the accepted authorities.
struct tls_client_papers {
  enum class asked : std::uint8_t { none, optional, required };
  asked how = asked::none;
  std::string authorities;
};

// Immutable; any thread.
class tls_context {
 public:
  // For a server. `certificate`: PEM file of its certificate, followed by those between it and a
  // root. `key`: PEM file of its key. Throws std::invalid_argument, naming the file, if it does not
  // exist, cannot be read, has no such content, is readable by others, or has a passphrase, or if
  // the key does not match the certificate.
  [[nodiscard]] static tls_context server(const std::string& certificate, const std::string& key,
                                          tls_use use = tls_use::transfers,
                                          const tls_client_papers& papers = {});
  // For a client. `trusted`: PEM file of the trusted certificates; empty: those of the system.
  // Throws as above.
  [[nodiscard]] static tls_context client(const std::string& trusted);

  // A readable reason why clients will not trust this server's certificate; empty: none known.
  [[nodiscard]] std::string doubt() const;
  [[nodiscard]] ssl_ctx_st* get() const noexcept { return context_.get(); }
  [[nodiscard]] tls_use use() const noexcept { return use_; }

 private:
  struct deleter {
    void operator()(ssl_ctx_st* c) const noexcept;
  };
  tls_context(ssl_ctx_st* owned, tls_use use) noexcept : use_(use), context_(owned) {}
  void demand(const tls_client_papers& papers);

  tls_use use_;
  std::unique_ptr<ssl_ctx_st, deleter> context_;
};

}  // namespace support
