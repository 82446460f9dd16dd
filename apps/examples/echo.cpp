// An echo service and its client.
//
//   example-echo                           both at once, in two threads, over shared memory
//   example-echo --serve 127.0.0.1:18700   the service; ends with Ctrl-C
//   example-echo 127.0.0.1:18700 hello     the client: sends each word and prints the response
//
// Shows a listener, a coroutine per connection in a scope, and messages in pooled buffers.
#include <cordma/cordma.hpp>
#include <cordma/runtime/scope.hpp>

#include <cstdio>
#include <cstring>
#include <future>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t longest_message = 4096;  // bytes

// Serves one connection until the client closes it or dies; other connections are not affected. A
// spawned coroutine takes its arguments by value, because it outlives the call. A Context is a
// handle, cheap to copy.
cordma::task<void> echo(cordma::Context context, cordma::ConnectionRequest request) {
  // .result() returns the error as a value. Without it the error would be thrown, and in a scope it
  // would end the other connections as well. A disconnected client is no error here.
  cordma::result<cordma::Endpoint> accepted = co_await request.accept().result();
  if (!accepted) co_return;
  cordma::Endpoint& client = *accepted;
  cordma::BufferPool buffers(context, longest_message, 16);
  for (;;) {
    cordma::result<cordma::Message> message = co_await client.recv(buffers).result();
    if (!message) co_return;
    const std::size_t bytes = message->bytes().size();
    // The same buffer is sent, and returns to its pool afterwards: nothing is copied.
    const cordma::result<void> sent =
        co_await client.send(std::move(message->buffer()), bytes).result();
    if (!sent) co_return;
  }
}

cordma::task<void> serve(cordma::Context context, cordma::Listener& listener, int clients) {
  cordma::task_context& me = co_await cordma::this_task();
  // it ends all connections before this coroutine ends, even on an error
  cordma::scope connections(me);
  for (int i = 0; i < clients; ++i) {
    cordma::ConnectionRequest request = co_await listener.next();
    connections.spawn(echo(context, std::move(request)));
  }
  co_await connections.join();
}

cordma::task<void> ask(cordma::Context& context, cordma::Worker& worker, std::string address,
                       std::vector<std::string> words) {
  cordma::Endpoint service = co_await worker.connect(address);
  std::printf("connected over %s\n", cordma::transport::name(service.transport()).data());
  // Memory for communication is registered once, not for every message.
  cordma::MemoryRegion memory = context.allocate(2 * longest_message).value();
  for (const std::string& word : words) {
    const cordma::Slice question = memory.slice(0, word.size()).value();
    const cordma::Slice room = memory.slice(longest_message, longest_message).value();
    std::memcpy(question.data(), word.data(), word.size());
    cordma::recv_operation answer = service.recv(room);
    answer.start();  // posted before the request is sent, so that it is ready for the response
    co_await service.send(question);
    const cordma::Received got = co_await answer;
    std::printf("%.*s\n", static_cast<int>(got.bytes), reinterpret_cast<char*>(room.data()));
  }
  co_await service.close();
}

cordma::Listener listen(cordma::Worker& worker, const std::string& where) {
  cordma::Listener listener = worker.listen(where).value();
  std::printf("listening on %s\n", listener.bound().text().c_str());
  std::fflush(stdout);
  return listener;
}

void run_service(const std::string& where) {
  cordma::Context context;
  cordma::Worker worker(context);  // bound to the thread that created it
  cordma::Listener listener = listen(worker, where);
  worker.run(serve(context, listener, std::numeric_limits<int>::max()));
}

void run_client(const std::string& address, std::vector<std::string> words) {
  cordma::Context context;
  cordma::Worker worker(context);
  worker.run(ask(context, worker, address, std::move(words)));
}

void run_both() {
  cordma::Context context;
  cordma::Worker worker(context);
  cordma::Listener listener = listen(worker, "127.0.0.1:0");
  const std::string address = listener.bound().text();
  std::future<void> client = std::async(std::launch::async, [&] {
    try {
      run_client(address, {"hello", "from", "the", "other", "thread"});
    } catch (...) {
      // no client will connect; post() is safe on any thread
      worker.post([&listener] { listener.close(); });
      throw;
    }
  });
  try {
    worker.run(serve(context, listener, 1));
  } catch (...) {
    client.get();  // the client's own error, if any, is more informative
    throw;
  }
  client.get();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    run_both();
  } else if (words[0] == "--serve" && words.size() == 2) {
    run_service(words[1]);
  } else if (words[0] != "--help" && !words[0].starts_with("-") && words.size() > 1) {
    run_client(words[0], std::vector<std::string>(words.begin() + 1, words.end()));
  } else {
    std::puts(
        "example-echo [--serve HOST:PORT | HOST:PORT WORD...]; without any: both, in threads");
    return words[0] == "--help" ? 0 : 2;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "example-echo: %s\n", e.what());
  return 1;
}
