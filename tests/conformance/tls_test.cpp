// Stream libraries run on a Stream unchanged: Asio, and TLS by OpenSSL.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/stage.hpp>

#include <cordma/net/asio_stream.hpp>
#include <cordma/runtime/scope.hpp>

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <asio/read.hpp>
#include <asio/ssl.hpp>
#include <asio/write.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace cordma;
using namespace cordma::test;

namespace {

using secure = asio::ssl::stream<asio_stream>;

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* p) const noexcept {
    Free(p);
  }
};

// A key, and a self-signed certificate for it.
void identify(asio::ssl::context& tls) {
  const std::unique_ptr<EVP_PKEY, freed_by<&EVP_PKEY_free>> key(EVP_EC_gen("P-256"));
  const std::unique_ptr<X509, freed_by<&X509_free>> certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(tls.native_handle(), certificate.get());
  SSL_CTX_use_PrivateKey(tls.native_handle(), key.get());
}

task<> open(Context context, Endpoint e, asio::io_context* io, asio::ssl::context* tls,
            std::unique_ptr<secure>* made) {
  Stream s = co_await Stream::open(context, std::move(e));
  *made = std::make_unique<secure>(asio_stream(io->get_executor(), std::move(s)), *tls);
}

constexpr std::size_t message_bytes = 300'000;

task<> serve(secure* s) {
  co_await s->async_handshake(asio::ssl::stream_base::server, use_task);
  std::vector<std::byte> bytes(message_bytes);
  co_await asio::async_read(*s, asio::buffer(bytes), use_task);
  CHECK(filled(bytes, 1));
  fill(bytes, 2);
  co_await asio::async_write(*s, asio::buffer(bytes), use_task);
  co_await s->async_shutdown(use_task);
}

task<> talk(secure* s) {
  co_await s->async_handshake(asio::ssl::stream_base::client, use_task);
  CHECK(std::string(SSL_get_version(s->native_handle())) == "TLSv1.3");
  std::vector<std::byte> bytes(message_bytes);
  fill(bytes, 1);
  co_await asio::async_write(*s, asio::buffer(bytes), use_task);
  co_await asio::async_read(*s, asio::buffer(bytes), use_task);
  CHECK(filled(bytes, 2));
  co_await s->async_shutdown(use_task);
}

}  // namespace

TEST_CASE("TLS runs over a stream as over a socket: handshake, 300,000 bytes each way, shutdown" *
          not_on(transport::kind::sim, "Asio lives in real time")) {
  stage on;
  asio_host host(on.loop());
  on.play(
      [](stage& s, asio::io_context* io) -> task<> {
        asio::ssl::context of_server(asio::ssl::context::tls_server);
        asio::ssl::context of_client(asio::ssl::context::tls_client);
        identify(of_server);
        wire w = co_await connect(s);
        std::unique_ptr<secure> client;
        std::unique_ptr<secure> server;
        task_context& me = co_await this_task();
        scope both(me);
        both.spawn(open(s.client_context(), std::move(w.client), io, &of_client, &client));
        both.spawn(open(s.server_context(), std::move(w.server), io, &of_server, &server));
        co_await both.join();
        both.spawn(talk(client.get()));
        both.spawn(serve(server.get()));
        co_await both.join();
      },
      &host.context());
}

TEST_CASE("Asio reads to the end of a stream, and is told of it" *
          not_on(transport::kind::sim, "Asio lives in real time")) {
  stage on;
  asio_host host(on.loop());
  on.play(
      [](stage& s, asio::io_context* io) -> task<> {
        wire w = co_await connect(s);
        asio::ssl::context unused(asio::ssl::context::tls);
        std::unique_ptr<secure> client;
        std::unique_ptr<secure> server;
        task_context& me = co_await this_task();
        scope both(me);
        both.spawn(open(s.client_context(), std::move(w.client), io, &unused, &client));
        both.spawn(open(s.server_context(), std::move(w.server), io, &unused, &server));
        co_await both.join();
        asio_stream& writes = client->next_layer();
        asio_stream& reads = server->next_layer();
        std::array<std::byte, 100> bytes{};
        fill(bytes, 3);
        co_await asio::async_write(writes, asio::buffer(bytes), use_task);
        CHECK(writes.stream().shutdown_send().ok());
        std::array<std::byte, 200> got{};
        std::error_code end;
        std::size_t n = 0;
        try {
          n = co_await asio::async_read(reads, asio::buffer(got), use_task);
        } catch (const std::system_error& e) {
          end = e.code();
        }
        CHECK(n == 0);
        CHECK(end == asio::error::eof);
        CHECK(filled(std::span(got).first(100), 3));
      },
      &host.context());
}
