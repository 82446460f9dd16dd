// One process uses the memory of another: writes it, reads it, and increments a counter in it.
//
//   example-remote_memory                           owner and user as two threads
//   example-remote_memory --own 127.0.0.1:18701     the owner: prints the content of its memory
//   example-remote_memory 127.0.0.1:18701           the user
//
// Shows exporting and importing memory, one-sided operations, access rights, and flush.
#include <cordma/cordma.hpp>

#include <cstdio>
#include <cstring>
#include <future>
#include <string>
#include <string_view>
#include <vector>

namespace {

using cordma::transport::access;

constexpr std::size_t text_bytes = 4096;

// The owner: its code is not involved in the user's operations on its memory.
cordma::task<void> own(cordma::Context& context, cordma::Listener& listener) {
  // A counter of eight bytes, followed by space for a text. Access rights are granted explicitly.
  const access rights = access::remote_read | access::remote_write | access::remote_atomic;
  cordma::MemoryRegion memory = context.allocate(8 + text_bytes, rights).value();
  // The blob is all that a peer needs, and it carries the access rights: pass it on with care.
  const std::vector<std::byte> blob = memory.export_blob().value();

  cordma::ConnectionRequest request = co_await listener.next();
  cordma::connect_options options;
  options.private_data = blob;  // sent with the response to the connection request
  cordma::Endpoint user = co_await request.accept(options);

  // A message reports that the user is done: one-sided operations do not notify the owner.
  cordma::MemoryRegion word = context.allocate(8).value();
  co_await user.recv(word);
  const char* const text = reinterpret_cast<const char*>(memory.data() + 8);
  std::printf("owner: the counter is %llu, the text is \"%s\"\n",
              static_cast<unsigned long long>(memory.as<std::uint64_t>().front()), text);
  co_await user.close();
}

cordma::task<void> use(cordma::Context& context, cordma::Worker& worker, std::string address) {
  cordma::Endpoint owner = co_await worker.connect(address);
  // A RemoteMemory is validated when it is imported; an operation that it does not permit is an
  // error.
  const cordma::RemoteMemory memory = cordma::RemoteMemory::import(owner.peer_data()).value();
  const cordma::RemoteSlice counter = memory.slice(0, 8).value();
  const cordma::RemoteSlice text = memory.slice(8, text_bytes).value();

  cordma::MemoryRegion local = context.allocate(2 * text_bytes).value();
  const cordma::Slice out = local.slice(0, text_bytes).value();
  const cordma::Slice in = local.slice(text_bytes, text_bytes).value();
  std::snprintf(reinterpret_cast<char*>(out.data()), out.size(), "written from afar");

  co_await owner.write(text, out);
  co_await owner.flush();  // from here on the write is visible to the owner's program
  co_await owner.read(text, in);
  std::printf("user: read back \"%s\"\n", reinterpret_cast<char*>(in.data()));
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = co_await owner.fetch_add(counter, 10);
    std::printf("user: the counter was %llu\n", static_cast<unsigned long long>(before));
  }
  // Memory outside of the exported range cannot be accessed; this is detected before anything is
  // sent.
  const cordma::result<cordma::RemoteSlice> outside = memory.slice(text_bytes, 100);
  std::printf("user: beyond the end: %s\n", outside ? "?" : outside.why().message().c_str());

  co_await owner.send(local.slice(0, 8).value());
  co_await owner.close();
}

cordma::Listener listen(cordma::Worker& worker, const std::string& where) {
  cordma::Listener listener = worker.listen(where).value();
  std::printf("listening on %s\n", listener.bound().text().c_str());
  std::fflush(stdout);
  return listener;
}

void run_owner(const std::string& where) {
  cordma::Context context;
  cordma::Worker worker(context);
  cordma::Listener listener = listen(worker, where);
  worker.run(own(context, listener));
}

void run_user(const std::string& address) {
  cordma::Context context;
  cordma::Worker worker(context);
  worker.run(use(context, worker, address));
}

void run_both() {
  cordma::Context context;
  cordma::Worker worker(context);
  cordma::Listener listener = listen(worker, "127.0.0.1:0");
  const std::string address = listener.bound().text();
  std::future<void> user = std::async(std::launch::async, [&] {
    try {
      run_user(address);
    } catch (...) {
      // no user will connect; post() is safe on any thread
      worker.post([&listener] { listener.close(); });
      throw;
    }
  });
  try {
    worker.run(own(context, listener));
  } catch (...) {
    user.get();  // the user's own error, if any, is more informative
    throw;
  }
  user.get();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    run_both();
  } else if (words[0] == "--own" && words.size() == 2) {
    run_owner(words[1]);
  } else if (!words[0].starts_with("-") && words.size() == 1) {
    run_user(words[0]);
  } else {
    std::puts("example-remote_memory [--own HOST:PORT | HOST:PORT]; without any: both, in threads");
    return words[0] == "--help" ? 0 : 2;
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "example-remote_memory: %s\n", e.what());
  return 1;
}
