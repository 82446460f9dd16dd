// Uses the library and Asio's coroutines in one program, with what find_package(cordma) gives alone.
#include <asio.hpp>

#include <cordma/cordma.hpp>

#include <cstdio>
#if __has_include(<cordma/runtime/asio.hpp>)
#include <cordma/runtime/asio.hpp>
#endif

namespace {

asio::awaitable<int> answer() {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, asio::chrono::milliseconds(1));
  co_await timer.async_wait(asio::use_awaitable);
  co_return 42;
}

}  // namespace

int main() {
  cordma::reactor reactor;
  asio::io_context io;
  int result = 0;
  asio::co_spawn(io, answer(), [&result](std::exception_ptr, int value) { result = value; });
  io.run();
  std::printf("the answer is %d\n", result);
  return result == 42 ? 0 : 1;
}
