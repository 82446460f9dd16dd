// Uses the library and Asio's coroutines in one program, with what find_package(cordma) gives alone.
#include <asio.hpp>

#include <cordma/cordma.hpp>

#include <cstdio>
#include <thread>

#include <dlfcn.h>
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

// Loads the plugin, runs it on a thread of its own or on this one, and unloads it.
bool run_plugin(bool on_a_thread) {
  void* const plugin = ::dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::printf("%s\n", ::dlerror());
    return false;
  }
  int (*run)() = nullptr;
  *reinterpret_cast<void**>(&run) = ::dlsym(plugin, "plugin_run");
  int status = 1;
  if (on_a_thread) {
    std::thread([&status, run] { status = run(); }).join();
  } else {
    status = run();
  }
  return ::dlclose(plugin) == 0 && status == 0;
}

}  // namespace

int main() {
  cordma::reactor reactor;
  asio::io_context io;
  int result = 0;
  asio::co_spawn(io, answer(), [&result](std::exception_ptr, int value) { result = value; });
  io.run();
  std::printf("the answer is %d\n", result);
  for (const bool on_a_thread : {true, false, true, false}) {
    if (!run_plugin(on_a_thread)) return 1;
  }
  return result == 42 ? 0 : 1;
}
