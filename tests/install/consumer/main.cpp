// Uses the library and Asio's coroutines in one program, with the settings of find_package(cordma)
// alone.
#include <asio.hpp>

#include <cordma/cordma.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

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

void* load(const std::string& file) {
  void* const plugin = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) std::printf("%s\n", ::dlerror());
  return plugin;
}

bool run(void* plugin) {
  int (*function)() = nullptr;
  *reinterpret_cast<void**>(&function) = ::dlsym(plugin, "plugin_run");
  return function() == 0;
}

// Loads the plugin, runs it on a separate thread or on this one, and unloads it.
bool run_plugin(bool on_a_thread) {
  void* const plugin = load(PLUGIN);
  if (plugin == nullptr) return false;
  bool ran = false;
  if (on_a_thread) {
    std::thread([&ran, plugin] { ran = run(plugin); }).join();
  } else {
    ran = run(plugin);
  }
  return ::dlclose(plugin) == 0 && ran;
}

// Loads plugins that each contain a copy of the library, all at once, and runs them.
bool run_many_plugins() {
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) {
    const std::string copy = PLUGIN "." + std::to_string(i);
    std::filesystem::copy_file(PLUGIN, copy, std::filesystem::copy_options::overwrite_existing);
    all.push_back(load(copy));
    if (all.back() == nullptr) return false;
  }
  for (void* const plugin : all) {
    if (!run(plugin)) return false;
  }
  for (void* const plugin : all) {
    if (::dlclose(plugin) != 0) return false;
  }
  return true;
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
  if (!run_many_plugins()) return 1;
  return result == 42 ? 0 : 1;
}
