// TLS for a conversation, which sees clear text while its socket carries encrypted bytes.
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

// Common state of all connections: TLS 1.2 and above. Immutable; any thread.
class tls_acceptor {
 public:
  // Throws cordma::error (invalid_value) that names the file and its fault.
  explicit tls_acceptor(const tls_options& options);
  // Returns a TLS conversation around one that `inner` makes. The inner one is made here because
  // its wake-ups go through the returned one.
  [[nodiscard]] std::unique_ptr<conversation> open(session_origin origin,
                                                   const conversation_maker& inner,
                                                   session::wake_function wake,
                                                   void* context) const;

 private:
  support::tls_context context_;
};

}  // namespace kv
