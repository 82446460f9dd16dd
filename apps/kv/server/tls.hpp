// TLS for a conversation: it speaks in the clear, what its socket carries is encrypted.
#pragma once

#include "../../support/tls_context.hpp"
#include "conversation.hpp"

#include <memory>
#include <string>

namespace kv {

struct tls_options {
  std::string certificate;  // PEM files
  std::string key;
  support::tls_client_papers papers;
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
  support::tls_context context_;
};

}  // namespace kv
