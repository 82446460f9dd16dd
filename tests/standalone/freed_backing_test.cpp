// E2: AddressSanitizer reports a counter's memory that is freed too early, and ends the process.
#include <doctest/doctest.h>
#include <support/applies.hpp>
#include <support/process.hpp>
#include <support/stage.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include <unistd.h>

using namespace cordma;
using namespace cordma::test;

namespace {

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

enum class freed : std::uint8_t { after_the_event, before_it_goes, before_it_is_used };

void use_up(freed when) {
  host h;
  auto word = std::make_unique<std::uint64_t>(40);
  const auto bytes = std::as_writable_bytes(std::span(word.get(), 1));
  const MemoryRegion region = h.context.register_memory(bytes, every_right).value();
  SyncEvent event(
      h.context,
      {.publisher = sync_location::remote, .subscriber = sync_location::remote, .backing = region});
  event.start_blocking().value();
  event.blocking_set(41).value();
  if (when != freed::after_the_event) word.reset();
  if (when == freed::before_it_is_used) static_cast<void>(event.blocking_add(1));
}

// The standard error of a process that frees the memory early; empty if the process succeeded.
std::string told(freed when) {
  std::FILE* const said = std::tmpfile();
  REQUIRE(said != nullptr);
  child_process doing([when, said](wire_to_peer&) {
    ::dup2(::fileno(said), STDERR_FILENO);
    use_up(when);
    return 0;
  });
  const int status = doing.join();
  std::string all;
  std::rewind(said);
  for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) all += static_cast<char>(c);
  std::fclose(said);
  CHECK((status == 0) == all.empty());
  return all;
}

bool names(const std::string& report, const char* where) {
  return report.find("heap-use-after-free") != std::string::npos &&
         report.find(where) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "E2: a backing that is freed before its SyncEvent is destroyed, or used, is caught by "
    "AddressSanitizer" *
    applies(address_sanitizer, "only AddressSanitizer notices")) {
  CHECK(told(freed::after_the_event).empty());
  CHECK(names(told(freed::before_it_goes), "SyncEvent::stop"));
  CHECK(names(told(freed::before_it_is_used), "SyncEvent::blocking_add"));
}
