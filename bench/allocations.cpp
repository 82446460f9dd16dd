// bench-allocations: counts calls of operator new per operation in a warm program. Client and
// server are coroutines on one reactor of one process; allocations of both count.
#include <cordma/cordma.hpp>
#include <cordma/net/transport/sim/sim.hpp>
#include <cordma/runtime/when_all.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <vector>

namespace {

std::uint64_t allocations = 0;  // one thread

void* counted(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* counted(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, std::align_val_t a) { return counted(bytes, a); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return counted(bytes, a); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace {

constexpr std::size_t message_bytes = 64;

struct row {
  std::string name;
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
};

struct side {
  cordma::Endpoint endpoint;
  cordma::MemoryRegion memory;
  cordma::RemoteSlice peer;  // memory of the other side, message_bytes
};

cordma::task<void> receive_each(side* s, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.recv(s->memory);
}
cordma::task<void> send_each(side* s, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.send(s->memory);
}
cordma::task<void> receive_pooled(side* s, cordma::BufferPool* pool, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const cordma::Message got = co_await s->endpoint.recv(*pool);
    if (got.bytes().size() != message_bytes) cordma::throw_error(cordma::errc::unexpected);
  }
}
cordma::task<void> write_each(side* s, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.write(s->peer, s->memory);
}
cordma::task<void> read_each(side* s, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.read(s->peer, s->memory);
}
cordma::task<void> add_each(side* s, cordma::RemoteSlice word, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.fetch_add(word, 1);
}
cordma::task<void> flush_each(side* s, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) co_await s->endpoint.flush();
}

cordma::task<cordma::Endpoint> accept_one(cordma::Listener* listener) {
  cordma::ConnectionRequest request = co_await listener->next();
  cordma::Endpoint endpoint = co_await request.accept();
  co_return endpoint;
}

cordma::task<void> connect_one(cordma::Worker* worker, std::string address, side* client) {
  client->endpoint = co_await worker->connect(std::move(address));
}

cordma::task<void> accept_into(cordma::Listener* listener, side* server) {
  server->endpoint = co_await accept_one(listener);
}

// Warms up one kind of operation, then counts its allocations.
template <class Make>
row count(cordma::Worker& worker, const char* name, std::uint64_t operations, Make make) {
  row r{name, operations, 0};
  worker.run(make(operations / 2 + 100));
  const std::uint64_t before = allocations;
  worker.run(make(operations));
  r.allocations = allocations - before;
  return r;
}

std::vector<row> measure(cordma::Context& context, cordma::Worker& worker, const std::string& where,
                         std::uint64_t n) {
  cordma::Listener listener = worker.listen(where).value();
  side client;
  side server;
  for (side* s : {&client, &server}) {
    s->memory = context.allocate(message_bytes, cordma::transport::all_remote).value();
  }
  for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
    to->peer = cordma::RemoteMemory::import(from->memory.export_blob().value()).value();
  }
  worker.run(cordma::when_all(accept_into(&listener, &server),
                              connect_one(&worker, listener.bound().text(), &client)));
  const cordma::RemoteSlice word = client.peer.slice(0, 8).value();
  cordma::BufferPool pool(context, message_bytes, 4);

  std::vector<row> rows;
  rows.push_back(count(worker, "send and recv", n, [&](std::uint64_t k) {
    return cordma::when_all(receive_each(&server, k), send_each(&client, k));
  }));
  rows.push_back(count(worker, "send and recv into a pool", n, [&](std::uint64_t k) {
    return cordma::when_all(receive_pooled(&server, &pool, k), send_each(&client, k));
  }));
  rows.push_back(
      count(worker, "write", n, [&](std::uint64_t k) { return write_each(&client, k); }));
  rows.push_back(count(worker, "read", n, [&](std::uint64_t k) { return read_each(&client, k); }));
  rows.push_back(
      count(worker, "fetch-add", n, [&](std::uint64_t k) { return add_each(&client, word, k); }));
  rows.push_back(
      count(worker, "flush", n, [&](std::uint64_t k) { return flush_each(&client, k); }));
  return rows;
}

std::vector<row> measure_on(const std::string& transport, std::uint64_t n) {
  if (transport == "sim") {
    cordma::virtual_clock time;
    cordma::reactor_options how;
    how.mode = cordma::wait_mode::polling;
    how.time = &time;
    cordma::reactor loop(how);
    cordma::transport::sim::network net({}, loop);
    cordma::context_options options;
    options.domains = {net.make_domain("here")};
    cordma::Context context(options);
    cordma::Worker worker(context, loop);
    return measure(context, worker, "here:0", n);
  }
  cordma::context_options options;
  options.transports = cordma::parse_transports(transport).value();
  cordma::Context context(options);
  cordma::reactor_options how;
  how.mode = cordma::wait_mode::polling;
  cordma::Worker worker(context, how);
  return measure(context, worker, "127.0.0.1:0", n);
}

std::string to_json(const std::string& transport, const std::vector<row>& rows) {
  nlohmann::ordered_json j{{"transport", transport}};
  std::uint64_t operations = 0;
  std::uint64_t total = 0;
  for (const row& r : rows) {
    j["operations"].push_back(
        {{"name", r.name}, {"operations", r.operations}, {"allocations", r.allocations}});
    operations += r.operations;
    total += r.allocations;
  }
  j["allocations_per_operation"] = static_cast<double>(total) / static_cast<double>(operations);
  j["valid"] = true;
  return j.dump(2) + "\n";
}

int run(int argc, char** argv) {
  CLI::App app("Counts allocations per warm operation.", "bench-allocations");
  std::string transport = "shm";
  std::string json;
  std::uint64_t iterations = 20'000;
  app.add_option("--transport", transport, "shm, tcp or sim")
      ->check(CLI::IsMember({"shm", "tcp", "sim"}));
  app.add_option("--iterations", iterations, "operations of each kind")
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--json", json, "FILE, or - for standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  const std::vector<row> rows = measure_on(transport, iterations);
  if (json == "-") {
    std::fputs(to_json(transport, rows).c_str(), stdout);
    return 0;
  }
  for (const row& r : rows) {
    std::printf("%-26s %8llu operations, %llu allocations\n", r.name.c_str(),
                static_cast<unsigned long long>(r.operations),
                static_cast<unsigned long long>(r.allocations));
  }
  if (json.empty()) return 0;
  std::ofstream file(json);
  return file << to_json(transport, rows) << std::flush ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& e) {
  std::fprintf(stderr, "bench-allocations: %s\n", e.what());
  return 1;
}
