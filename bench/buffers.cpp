// bench-buffers: the cost of a registered buffer for a program, by its source:
//   pool      BufferPool: fixed size, no choice of the address, returned automatically
//   inventory slices of one region at addresses of the program, which keeps a list of free ones
//   register  memory of the program, registered for one use
//   allocate  Context::allocate(), for one use
// and the time to register thousands of buffers, each of them a separate mapping.
#include "common.hpp"

#include <cordma/cordma.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::uint32_t buffers = 64;
constexpr std::uint64_t many = 1'000'000;  // for operations that take nanoseconds
constexpr std::uint64_t few = 2'000;       // for operations that call the kernel

struct contender {
  const char* name;
  std::uint64_t times;
  // takes a buffer, touches it and returns it, this number of times
  std::function<void(std::uint64_t)> use;
};

void touch(std::byte* at) noexcept { *static_cast<volatile std::byte*>(at) = std::byte{1}; }

class sources {
 public:
  sources(cordma::Context& context, std::size_t bytes)
      : context_(context),
        bytes_(bytes),
        pool_(context, bytes, buffers),
        region_(context.allocate(bytes * buffers).value()),
        own_(bytes) {
    for (std::uint32_t i = 0; i < buffers; ++i) free_.push_back(i * bytes);
  }

  [[nodiscard]] std::vector<contender> all() {
    return {{"pool", many, [this](std::uint64_t n) { from_pool(n); }},
            {"inventory", many, [this](std::uint64_t n) { from_inventory(n); }},
            {"register", few, [this](std::uint64_t n) { registered(n); }},
            {"allocate", few, [this](std::uint64_t n) { allocated(n); }}};
  }

 private:
  void from_pool(std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const cordma::Buffer taken = pool_.take().value();
      touch(taken.data());
    }
  }
  void from_inventory(std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::size_t offset = free_.back();
      free_.pop_back();
      const cordma::Slice taken = region_.slice(offset, bytes_).value();
      touch(taken.data());
      free_.push_back(offset);
    }
  }
  void registered(std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const cordma::MemoryRegion taken =
          context_.register_memory(own_, cordma::transport::access::local_write).value();
      touch(taken.data());
    }
  }
  void allocated(std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      const cordma::MemoryRegion taken = context_.allocate(bytes_).value();
      touch(taken.data());
    }
  }

  cordma::Context& context_;
  std::size_t bytes_;
  cordma::BufferPool pool_;
  cordma::MemoryRegion region_;
  std::vector<std::size_t> free_;
  std::vector<std::byte> own_;
};

double nanoseconds_each(const contender& c) {
  const auto begin = std::chrono::steady_clock::now();
  c.use(c.times);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / static_cast<double>(c.times);
}

// Interleaved: `repetitions` rounds of each.
nlohmann::ordered_json measure(cordma::Context& context, std::size_t bytes, int repetitions) {
  sources from(context, bytes);
  const std::vector<contender> all = from.all();
  std::vector<std::vector<double>> ns(all.size());
  for (const contender& c : all) c.use(c.times / 10);  // warm-up
  for (int r = 0; r < repetitions; ++r) {
    for (std::size_t i = 0; i < all.size(); ++i) ns[i].push_back(nanoseconds_each(all[i]));
  }
  nlohmann::ordered_json j;
  for (std::size_t i = 0; i < all.size(); ++i) j[all[i].name] = bench::median(ns[i]);
  return j;
}

// Buffers of a page, separated by inaccessible pages: the kernel would join them otherwise.
class separate_buffers {
 public:
  explicit separate_buffers(std::size_t count)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))), count_(count) {
    void* const all =
        ::mmap(nullptr, 2 * page_ * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    at_ = static_cast<std::byte*>(all);
    for (std::size_t i = 0; i < count; ++i) {
      if (::mprotect(at_ + 2 * page_ * i, page_, PROT_READ | PROT_WRITE) != 0)
        throw std::bad_alloc();
    }
  }
  separate_buffers(const separate_buffers&) = delete;
  separate_buffers& operator=(const separate_buffers&) = delete;
  ~separate_buffers() { ::munmap(at_, 2 * page_ * count_); }
  [[nodiscard]] std::span<std::byte> at(std::size_t i) const noexcept {
    return {at_ + 2 * page_ * i, page_};
  }

 private:
  std::size_t page_;
  std::size_t count_;
  std::byte* at_ = nullptr;
};

// All stay registered until the last one is.
double seconds_to_register(cordma::Context& context, std::size_t count) {
  const separate_buffers memory(count);
  std::vector<cordma::MemoryRegion> regions;
  regions.reserve(count);
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    regions.push_back(
        context.register_memory(memory.at(i), cordma::transport::access::local_write).value());
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(int argc, char** argv) {
  CLI::App app(
      "What taking a registered buffer and giving it back costs: from a pool, from an inventory of "
      "the program's own, by registering it, by allocating it.",
      "bench-buffers");
  std::string transports = "shm,tcp";
  std::vector<std::size_t> sizes{64, 8192, 1 << 20};
  int repetitions = 5;
  std::size_t regions = 8'000;
  std::string json;
  app.add_option("--transports", transports,
                 "of the Context, with each of which memory is registered")
      ->capture_default_str();
  app.add_option("--size", sizes, "bytes, several with commas")
      ->delimiter(',')
      ->check(CLI::Range(std::size_t{1}, std::size_t{16} << 20))
      ->capture_default_str();
  app.add_option("-r,--repetitions", repetitions, "medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--regions", regions, "buffers that are registered one after the other, and stay")
      ->check(CLI::Range(1, 30'000))
      ->capture_default_str();
  app.add_option("--json", json, "FILE, or - for standard output");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  cordma::context_options options;
  options.transports = cordma::parse_transports(transports).value();
  cordma::Context context(options);
  nlohmann::ordered_json j{{"transports", transports}, {"unit", "ns per buffer"}};
  for (const std::size_t bytes : sizes) {
    j["sizes"][std::to_string(bytes)] = measure(context, bytes, repetitions);
  }
  std::vector<double> seconds;
  for (int r = 0; r < repetitions; ++r) seconds.push_back(seconds_to_register(context, regions));
  j["regions"] = {{"count", regions}, {"seconds", bench::median(seconds)}};
  j["valid"] = true;
  if (json == "-") {
    std::printf("%s\n", j.dump(2).c_str());
    return 0;
  }
  std::printf("%10s %12s %12s %12s %12s  ns per buffer\n", "bytes", "pool", "inventory", "register",
              "allocate");
  for (const auto& [bytes, ns] : j["sizes"].items()) {
    std::printf("%10s %12.1f %12.1f %12.1f %12.1f\n", bytes.c_str(), ns["pool"].get<double>(),
                ns["inventory"].get<double>(), ns["register"].get<double>(),
                ns["allocate"].get<double>());
  }
  std::printf("%zu buffers, each a mapping of its own, registered in %.4f s\n", regions,
              j["regions"]["seconds"].get<double>());
  if (json.empty()) return 0;
  std::ofstream file(json);
  if (file << j.dump(2) << '\n' << std::flush) return 0;
  std::fprintf(stderr, "bench-buffers: cannot write %s\n", json.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) try { return run(argc, argv); } catch (const std::exception& e) {
  std::fprintf(stderr, "bench-buffers: %s\n", e.what());
  return 1;
}
