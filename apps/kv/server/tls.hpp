// TLS for a conversation: it speaks in the clear, what its socket carries is encrypted.
#pragma once

#include "conversation.hpp"

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace kv {

struct tls_options {
  std::string certificate;  // PEM files
  std::string key;
  std::string authorities;  // of clients' certificates
  enum class clients : std::uint8_t { none, optional, required };
  clients certificates_of_clients = clients::required;
};

// What all connections have in common: TLS 1.2 and above. Immutable; any thread.
class tls_acceptor {
 public:
  // Throws cordma::error (invalid_value), naming the file and what is wrong with it.
  explicit tls_acceptor(const tls_options& options);
  // `inner` hears its own wake-ups by way of what is returned, so it is made there: as its maker says.
  [[nodiscard]] std::unique_ptr<conversation> open(session_origin origin,
                                                   const conversation_maker& inner,
                                                   session::wake_function wake,
                                                   void* context) const;

 private:
  struct deleter {
    void operator()(ssl_ctx_st* c) const noexcept;
  };
  std::unique_ptr<ssl_ctx_st, deleter> context_;
};

}  // namespace kv
