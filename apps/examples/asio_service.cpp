// An ordinary Asio service that uses cordma: timer, TCP sockets and endpoint on ONE thread.
//
//   example-asio_service           a client in the same program sends three lines, then all ends
//   example-asio_service 18703     keeps serving: printf 'hello\n' | nc localhost 18703
//
// A TCP client sends lines. The gateway passes each line to a backend over cordma, and the response
// back. Here the backend is in the same process; it could be on another machine. A timer runs
// beside it. Asio owns the loop; asio_driver makes the cordma reactor part of it.
#include <asio.hpp>

#include <cordma/cordma.hpp>
#include <cordma/runtime/asio.hpp>

#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using asio::ip::tcp;

constexpr std::size_t longest_line = 4096;  // bytes

// The backend is a cordma task that converts each message to capital letters.
cordma::task<void> capitalize(cordma::Context* context, cordma::Listener* listener) {
  cordma::ConnectionRequest request = co_await listener->next();
  cordma::Endpoint gateway = co_await request.accept();
  cordma::BufferPool buffers(*context, longest_line, 8);
  for (;;) {
    cordma::result<cordma::Message> line = co_await gateway.recv(buffers).result();
    if (!line) co_return;  // the gateway has closed the connection
    const auto bytes = line->bytes();
    for (std::byte& b : bytes) b = static_cast<std::byte>(std::toupper(static_cast<int>(b)));
    co_await gateway.send(std::move(line->buffer()), bytes.size());
  }
}

// Serves one TCP client. An asio::awaitable can await Asio and cordma operations: cordma::async()
// adapts any cordma operation to Asio's completion tokens.
asio::awaitable<void> serve(tcp::socket client, cordma::Endpoint* backend, cordma::Slice memory) {
  std::string text;
  for (;;) {
    const auto eol = co_await asio::async_read_until(
        client, asio::dynamic_buffer(text, longest_line), '\n', asio::use_awaitable);
    const cordma::Slice line = memory.first(eol);
    std::memcpy(line.data(), text.data(), eol);
    text.erase(0, eol);
    co_await cordma::async(backend->send(line), asio::use_awaitable);
    const cordma::Received got = co_await cordma::async(backend->recv(memory), asio::use_awaitable);
    const auto answer = asio::buffer(memory.data(), got.bytes);
    co_await asio::async_write(client, answer, asio::use_awaitable);
  }
}

asio::awaitable<void> gateway(cordma::Context* context, cordma::Worker* worker,
                              std::string backend_address, tcp::acceptor* acceptor) {
  cordma::MemoryRegion memory = context->allocate(longest_line).value();
  cordma::Endpoint backend =
      co_await cordma::async(worker->connect(backend_address), asio::use_awaitable);
  std::printf("gateway: backend over %s\n", cordma::transport::name(backend.transport()).data());
  for (;;) {
    tcp::socket client = co_await acceptor->async_accept(asio::use_awaitable);
    try {
      co_await serve(std::move(client), &backend, memory.all());
    } catch (const std::system_error& e) {
      // The end of this client; end of file is normal. A failure of the shared backend is rethrown.
      if (backend.state() != cordma::endpoint_state::connected) throw;
      if (e.code() != asio::error::eof) std::printf("gateway: client: %s\n", e.what());
    }
  }
}

asio::awaitable<void> count(asio::io_context* io) {
  asio::steady_timer timer(*io);
  for (int ticks = 1;; ++ticks) {
    timer.expires_after(std::chrono::milliseconds(5));
    co_await timer.async_wait(asio::use_awaitable);
    if (ticks % 1000 == 1) std::printf("timer: tick %d\n", ticks);
  }
}

asio::awaitable<void> try_it(asio::io_context* io, tcp::endpoint to) {
  tcp::socket socket(*io);
  co_await socket.async_connect(to, asio::use_awaitable);
  asio::steady_timer timer(*io);
  for (const std::string line : {"one thread\n", "one loop\n", "sockets, timers and cordma\n"}) {
    co_await asio::async_write(socket, asio::buffer(line), asio::use_awaitable);
    std::string answer(line.size(), ' ');
    co_await asio::async_read(socket, asio::buffer(answer), asio::use_awaitable);
    std::printf("client: %s", answer.c_str());
    timer.expires_after(std::chrono::milliseconds(10));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// An error in a coroutine ends the service.
void stop_on_error(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

void run(unsigned short port, bool keep_serving) {
  asio::io_context io;
  cordma::reactor reactor;                  // a loop that does not run by itself:
  cordma::asio_driver driver(reactor, io);  // its passes run inside of io.run()
  cordma::Context context;
  cordma::Worker worker(context, reactor);
  cordma::Listener listener = worker.listen("127.0.0.1:0").value();
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), port));
  std::printf("listening on 127.0.0.1:%d\n", acceptor.local_endpoint().port());
  std::fflush(stdout);

  cordma::async(reactor, capitalize(&context, &listener), stop_on_error);
  asio::co_spawn(io, gateway(&context, &worker, listener.bound().text(), &acceptor), stop_on_error);
  asio::co_spawn(io, count(&io), stop_on_error);
  if (!keep_serving) {
    asio::co_spawn(io, try_it(&io, acceptor.local_endpoint()), [&io](std::exception_ptr error) {
      stop_on_error(error);
      io.stop();
    });
  }
  io.run();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string word = argc > 1 ? argv[1] : "";
  if (argc > 2 || word.starts_with("-")) {
    std::puts("example-asio_service [PORT]; without: a client in the same program, and an end");
    return word == "--help" ? 0 : 2;
  }
  unsigned short port = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, status] = std::from_chars(word.data(), end, port);
  if (!word.empty() && (status != std::errc{} || stopped != end)) {
    std::fprintf(stderr, "example-asio_service: \"%s\" is no port: use 0 (any) to 65535\n",
                 word.c_str());
    return 2;
  }
  run(port, !word.empty());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "example-asio_service: %s\n", e.what());
  return 1;
}
