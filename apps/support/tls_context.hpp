// What one end's TLS connections have in common: whom it trusts, or what it shows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace support {

// The use of a context's channels.
//   transfers     TLS 1.3 alone, without resumption; the key file has to be readable by its owner and group alone.
//   many_clients  TLS 1.2 and above, with resumption; a channel that is silent holds little memory.
enum class tls_use : std::uint8_t { transfers, many_clients };

// Certificates of clients: whether a server asks for one, and the PEM file of the authorities that sign them.
struct tls_client_papers {
  enum class asked : std::uint8_t { none, optional, required };
  asked how = asked::none;
  std::string authorities;
};

// Immutable; any thread.
class tls_context {
 public:
  // A server's: PEM files of its certificate, behind it those between it and a root, and of its key. Throws
  // std::invalid_argument, naming the file: it is not there, may not be read, has nothing of the kind in it, may be
  // read by others, has a passphrase, or the key is not that of the certificate.
  [[nodiscard]] static tls_context server(const std::string& certificate, const std::string& key,
                                          tls_use use = tls_use::transfers,
                                          const tls_client_papers& papers = {});
  // A client's: a PEM file of the certificates that it trusts; empty: those of the system. Throws as above.
  [[nodiscard]] static tls_context client(const std::string& trusted);

  // For people: why clients will not trust what this server shows; empty: nothing speaks against it.
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
