// What one end's TLS connections have in common: whom it trusts, or what it shows.
#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace copy {

// TLS 1.3 alone, without resumption. Immutable; any thread.
class tls_context {
 public:
  // A server's: PEM files of its certificate, behind it those between it and a root, and of its key. Throws
  // std::invalid_argument, naming the file: it is not there, may not be read, has nothing of the kind in it, may be
  // read by others, has a passphrase, or the key is not that of the certificate.
  [[nodiscard]] static tls_context server(const std::string& certificate, const std::string& key);
  // A client's: a PEM file of the certificates that it trusts; empty: those of the system. Throws as above.
  [[nodiscard]] static tls_context client(const std::string& trusted);

  // For people: why clients will not trust what this server shows; empty: nothing speaks against it.
  [[nodiscard]] std::string doubt() const;
  [[nodiscard]] ssl_ctx_st* get() const noexcept { return context_.get(); }

 private:
  struct deleter {
    void operator()(ssl_ctx_st* c) const noexcept;
  };
  explicit tls_context(ssl_ctx_st* owned) noexcept : context_(owned) {}
  std::unique_ptr<ssl_ctx_st, deleter> context_;
};

}  // namespace copy
