#include "world.hpp"

#include <doctest/doctest.h>
#include <support/alloc_count.hpp>
#include <support/held.hpp>
#include <support/stage.hpp>

#include <array>
#include <cerrno>  // program_invocation_name
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#include <unistd.h>

using namespace cordma;

namespace {

struct range {
  std::uint64_t first;
  std::uint64_t count;
};

// CORDMA_TEST_SEEDS: "first" or "first+count".
range seeds_under_test() {
  const char* const named = std::getenv("CORDMA_TEST_SEEDS");
  if (named == nullptr) return {.first = 1, .count = test::rounds_under_test(2000)};
  const std::string asked = named;
  const std::size_t plus = asked.find('+');
  const std::uint64_t count = plus == std::string::npos ? 1 : std::stoull(asked.substr(plus + 1));
  return {.first = std::stoull(asked), .count = count};
}

struct counted {
  std::uint64_t count;
  const char* what;
};

// Events that all seeds together should have contained, and did not.
std::string none_of(std::initializer_list<counted> all) {
  std::string out;
  for (const counted& c : all) {
    if (c.count == 0) out += c.what;
  }
  return out;
}

// Faults without an occurrence.
std::string missing(const schedule::tally& sum) {
  const transport::sim::fault_counters& f = sum.faults;
  return none_of({{f.delayed, "delay "},
                  {f.lost, "loss "},
                  {f.duplicated, "duplication "},
                  {f.reordered, "reordering "},
                  {f.partitioned, "partition "},
                  {f.overflowed, "full link "},
                  {f.full_adapters, "full adapter "},
                  {f.to_dead_hosts, "dead host "},
                  {f.stalls, "stall "},
                  {f.kills, "death "},
                  {f.failed_allocations, "failed allocation "},
                  {f.failed_requests, "failed request "},
                  {f.corrupted_completions, "corrupted completion "},
                  {f.refused_puts, "refused put "},
                  {sum.isolated, "isolation "},
                  {sum.one_way, "cut one way "},
                  {sum.harmed_rails, "harm to a further device "},
                  {sum.waited, "full send queue "}});
}

// Actions that were never used.
std::string untried(const schedule::tally& sum) {
  return none_of({{sum.announced, "announced message "},
                  {sum.probed, "probe "},
                  {sum.claimed, "claim "},
                  {sum.claims_late, "late read of a claim "},
                  {sum.claims_dropped, "dropped claim "},
                  {sum.peeked, "peek "},
                  {sum.uncopied, "write of registered memory "},
                  {sum.mapped, "map "},
                  {sum.written_at, "write_at "},
                  {sum.torn, "torn stream "},
                  {sum.stream_cancels, "cancel on a stream "},
                  {sum.streams_well, "stream that was closed well "},
                  {sum.turned_away, "what will not wait "},
                  {sum.evictions, "eviction "},
                  {sum.borrows_withdrawn, "withdrawn loan "},
                  {sum.closed_well, "graceful close "},
                  {sum.aborted, "abort "},
                  {sum.destroyed, "destruction "},
                  {sum.stopped, "end of Messages "},
                  {sum.workers_gone, "end of a Worker "},
                  {sum.crowds, "crowd "},
                  {sum.by_default, "default options "},
                  {sum.railed, "rails "}});
}

std::string story(const schedule::tally& t) {
  std::ostringstream out;
  out << t.seeds << " seeds (" << t.crowds << " of many hosts), " << t.connections
      << " connections (" << t.early << " used before, " << t.broken << " broken, " << t.railed
      << " with rails, " << t.waited
      << " requests waited for a full queue; ended by a program: " << t.closed << " closed, "
      << t.closed_well << " of them with all delivered, " << t.aborted << " aborted, "
      << t.destroyed << " destroyed), " << t.stopped << " hosts stopped (" << t.workers_gone
      << " with their Worker), " << t.by_default << " hosts with default options; " << t.messages
      << " messages (" << t.announced << " announced, the longest " << t.longest << " bytes, "
      << t.canceled << " canceled, " << t.turned_away << " turned away, " << t.truncated
      << " truncated, " << t.by_endpoint << " received by an endpoint, " << t.probed << " probed, "
      << t.claimed << " claimed, " << t.claims_late << " of them read later, " << t.claims_dropped
      << " refused; " << t.pooled << " over " << t.pools << " pools with " << t.borrowed
      << " loans, " << t.borrows_withdrawn << " withdrawn, " << t.evictions << " evictions), "
      << t.calls << " requests (" << t.answered << " answered, " << t.withdrawn
      << " withdrawn or late), " << t.sessions << " sessions (asked " << t.asked_again
      << " times again), " << t.bytes << " bytes of streams (" << t.peeked << " in place, "
      << t.uncopied << " pieces uncopied, " << t.written_at << " into " << t.mapped
      << " mapped regions, " << t.stream_cancels << " cancels, " << t.torn << " torn, "
      << t.streams_well << " directions closed well); faults: " << t.faults.text() << ", isolated "
      << t.isolated << ", cut one way " << t.one_way << ", harmed rails " << t.harmed_rails;
  return out.str();
}

}  // namespace

extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*told)());

namespace {

// Reports the seed if it ends the program, or if it is stopped because it does not end.
class last_words {
 public:
  last_words() {
    for (std::size_t i = 0; i < fatal.size(); ++i) {
      struct sigaction told{};
      told.sa_handler = on_signal;
      told.sa_flags = SA_NODEFER;
      REQUIRE(::sigaction(fatal[i], &told, &before[i]) == 0);
    }
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(&tell);
  }
  last_words(const last_words&) = delete;
  last_words& operator=(const last_words&) = delete;
  ~last_words() {
    begin(nullptr);
    for (std::size_t i = 0; i < fatal.size(); ++i) ::sigaction(fatal[i], &before[i], nullptr);
  }
  // A seed takes a few hundredths of a second.
  void begin(const char* sentence) noexcept {
    now = sentence;
    ::alarm(sentence != nullptr ? most_seconds : 0);
  }

 private:
  static constexpr unsigned most_seconds = 300;
  static constexpr std::array fatal{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGALRM};
  static void tell() noexcept {
    const char* const sentence = std::exchange(now, nullptr);
    if (sentence == nullptr) return;
    static_cast<void>(!::write(STDERR_FILENO, sentence, std::strlen(sentence)));
  }
  static void on_signal(int signal) noexcept {
    tell();
    for (std::size_t i = 0; i < fatal.size(); ++i) {
      if (fatal[i] == signal) ::sigaction(signal, &before[i], nullptr);
    }
    ::raise(signal);
  }
  static inline const char* now = nullptr;
  static inline std::array<struct sigaction, fatal.size()> before;
};

}  // namespace

namespace {

// When a seed is played again it leaves nothing behind: caches were filled by the first run.
std::string left_by(std::uint64_t seed) {
  constexpr int most_times = 3;
  std::int64_t more = 0;
  for (int i = 0; i < most_times; ++i) {
    const std::uint64_t objects = test::live_allocations();
    const test::held of_system = test::held_now();
    {
      schedule::tally unused;
      std::string complaint = schedule::play(seed, unused);
      if (!complaint.empty()) return complaint;
    }
    more = static_cast<std::int64_t>(test::live_allocations() - objects);
    if (more <= 0 && test::held_now() == of_system) return {};
  }
  return "each time it leaves behind: " + std::to_string(more) +
         " objects on the heap, or else descriptors or mappings";
}

constexpr std::uint64_t leak_seeds = 20;  // one seed of this number is played again

}  // namespace

TEST_CASE("random programs under random faults: nothing wrong, lost, doubled, hanging or leaked") {
  const range seeds = seeds_under_test();
  schedule::tally sum;
  last_words if_it_ends;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const std::string replayed_by =
        "CORDMA_TEST_SEEDS=" + std::to_string(seed) + " " + program_invocation_name;
    const std::string under_way =
        "\nseed " + std::to_string(seed) + " was under way; " + replayed_by + " replays it\n";
    if_it_ends.begin(under_way.c_str());
    std::string complaint = schedule::play(seed, sum);
    if (complaint.empty() && seed % leak_seeds == 0) complaint = left_by(seed);
    if_it_ends.begin(nullptr);
    if (complaint.empty()) continue;
    FAIL_CHECK("seed " << seed << ": " << complaint << "; " << replayed_by << " replays it");
  }
  if (sum.seeds >= 2000) {
    CHECK(missing(sum) == "");
    CHECK(untried(sum) == "");
  }
  MESSAGE(story(sum));
}
