#include "stepping.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>

namespace stepping {
namespace {

constexpr std::size_t most_rounds = 1024;
constexpr std::size_t table_slots = std::size_t{1} << 16;  // a power of two

struct slot {
  std::uint64_t address = 0;
  std::uint64_t times = 0;
};

// Results of the child, in shared memory, because a signal handler writes them.
struct record {
  std::uint64_t rounds_ended = 0;
  std::uint64_t addresses = 0;
  bool is_whole = false;  // the child has ended normally
  std::array<std::uint64_t, most_rounds> rounds{};
  std::array<slot, table_slots> table{};
};

// State of the child, separate in each process.
struct counting {
  record* into = nullptr;
  bool (*is_left_out)(std::uint64_t address) noexcept = nullptr;
  std::uint64_t at = 0;  // the next instruction
  std::uint64_t in_round = 0;
};
counting of_child;

[[noreturn]] void give_up(const char* why) noexcept {
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, why, std::strlen(why));
  ::_exit(1);
}

void note(std::uint64_t address) noexcept {
  record& r = *of_child.into;
  std::size_t place = (address * 0x9E3779B97F4A7C15ULL) >> 48;
  static_assert(table_slots == 1 << 16, "a place is the upper 16 bits");
  while (r.table[place].times != 0 && r.table[place].address != address) {
    place = (place + 1) % table_slots;
  }
  slot& s = r.table[place];
  if (s.times == 0 && ++r.addresses == table_slots) {
    give_up("what was to be counted has more than 65,535 different instructions\n");
  }
  s.address = address;
  ++s.times;
  ++of_child.in_round;
}

#if defined(__x86_64__)

constexpr unsigned long long trap_flag = 0x100;

// Called after each instruction. An instruction that repeats itself traps after each repetition at
// the same address.
void stepped(int /*signal*/, siginfo_t* /*info*/, void* context) noexcept {
  const auto next = static_cast<std::uint64_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  const std::uint64_t at = of_child.at;
  of_child.at = next;
  if (at == 0 || at == next) return;
  if (of_child.is_left_out != nullptr && of_child.is_left_out(at)) return;
  note(at);
}

void set_trap() noexcept {
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | trap_flag);
}
void clear_trap() noexcept {
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~trap_flag);
}

constexpr bool knows_this_processor = true;

#else

void stepped(int /*signal*/, siginfo_t* /*info*/, void* /*context*/) noexcept {}
void set_trap() noexcept {}
void clear_trap() noexcept {}

constexpr bool knows_this_processor = false;

#endif

[[noreturn]] void be_child(const std::function<void()>& child, record& into,
                           bool (*is_left_out)(std::uint64_t address) noexcept) {
  of_child = {.into = &into, .is_left_out = is_left_out};
  struct sigaction action{};
  action.sa_sigaction = stepped;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGTRAP, &action, nullptr);
  try {
    child();
    into.is_whole = true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "what was to be counted failed: %s\n", e.what());
  }
  std::fflush(nullptr);
  ::_exit(into.is_whole ? 0 : 1);
}

class shared_record {
 public:
  shared_record() {
    void* const memory =
        ::mmap(nullptr, sizeof(record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    record_ = static_cast<record*>(memory);  // zeros, its initial value
  }
  shared_record(const shared_record&) = delete;
  shared_record& operator=(const shared_record&) = delete;
  ~shared_record() { ::munmap(record_, sizeof(record)); }
  [[nodiscard]] record& get() const noexcept { return *record_; }

 private:
  record* record_;
};

}  // namespace

void begin() noexcept {
  of_child.at = 0;
  of_child.in_round = 0;
  set_trap();
}

void end() noexcept {
  clear_trap();
  record& r = *of_child.into;
  if (r.rounds_ended == most_rounds) give_up("more rounds were to be counted than 1024\n");
  r.rounds[r.rounds_ended++] = of_child.in_round;
}

counted count(const std::function<void()>& child,
              bool (*is_left_out)(std::uint64_t address) noexcept) {
  const shared_record shared;
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: " + std::string(std::strerror(errno)));
  if (pid == 0) be_child(child, shared.get(), is_left_out);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  const record& r = shared.get();
  if (!r.is_whole || r.rounds_ended == 0) {
    throw std::runtime_error(
        "what was to be counted ended too early" +
        (WIFSIGNALED(status) ? ": " + std::string(::strsignal(WTERMSIG(status))) : ""));
  }
  counted all;
  all.rounds.assign(r.rounds.begin(),
                    r.rounds.begin() + static_cast<std::ptrdiff_t>(r.rounds_ended));
  for (const slot& s : r.table) {
    if (s.times != 0) all.where[s.address] = s.times;
  }
  return all;
}

std::uint64_t total(const profile& p) noexcept {
  return std::accumulate(p.begin(), p.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const auto& one) { return sum + one.second; });
}

void write(std::ostream& out, const profile& p) {
  for (const auto& [address, times] : p) {
    Dl_info found{};
    const void* const at =
        reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
    const bool known = ::dladdr(at, &found) != 0;
    const auto base = known ? reinterpret_cast<std::uintptr_t>(found.dli_fbase) : 0;
    out << times << ' ' << (known ? found.dli_fname : "?") << " 0x" << std::hex << address - base
        << std::dec << '\n';
  }
}

const char* missing() {
  if (!knows_this_processor) return "instructions are counted on x86-64 only";
  const counted some = count([] {
    begin();
    end();
  });
  return some.rounds.front() != 0 ? nullptr : "this processor does not trap after each instruction";
}

}  // namespace stepping
