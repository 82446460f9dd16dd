#include <cordma/net/sync_event.hpp>

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/endpoint.hpp>
#include <cordma/net/memory/blob.hpp>
#include <cordma/net/memory/context_core.hpp>
#include <cordma/net/memory/region_core.hpp>
#include <cordma/runtime/event.hpp>
#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <bit>
#include <string>
#include <thread>

namespace cordma {

using transport::opcode;
using transport::service;

namespace {

constexpr std::size_t counter_bytes = sizeof(std::uint64_t);
static_assert(std::atomic_ref<std::uint64_t>::required_alignment <= counter_bytes);
static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "peers change it as well");
constexpr std::uint32_t most_receives = 16;  // posted by listen()
constexpr auto between_looks = std::chrono::microseconds(50);

failure off_thread(const reactor& home) {
  return home.wrong_thread("a SyncEvent may only be used on the thread of its Worker");
}

// Access rights that the locations require of the counter's memory.
access rights_of(const sync_event_options& o) noexcept {
  access rights = access::local_write;
  if (o.publisher == sync_location::remote) {
    rights = rights | access::remote_write | access::remote_atomic;
  }
  if (o.subscriber == sync_location::remote) rights = rights | access::remote_read;
  return rights;
}

// True for 0, or 1, 2, 4 or 8 consecutive bytes of 0xFF.
bool whole_bytes(std::uint64_t mask) noexcept {
  if (mask == 0) return true;
  const int bits = std::popcount(mask);
  const int low = std::countr_zero(mask);
  const bool together = bits + low + std::countl_zero(mask) == 64;
  return together && bits >= 8 && std::has_single_bit(static_cast<unsigned>(bits)) && low % 8 == 0;
}

}  // namespace

std::string_view name(sync_location where) noexcept {
  switch (where) {
    case sync_location::cpu: return "cpu";
    case sync_location::remote: return "remote";
    case sync_location::gpu: return "gpu";
    case sync_location::dpa: return "dpa";
  }
  return "?";
}

// The receives of one listen(): empty, each posted again once it was used.
class SyncEvent::listening final : public list_node {
 public:
  listening(SyncEvent& owner, Endpoint& from) : owner_(owner) {
    owner_.listeners_.push_back(*this);
    const std::uint32_t receives = std::clamp(from.actual().recv_depth, 1U, most_receives);
    receives_.reserve(receives);
    for (std::uint32_t i = 0; i < receives; ++i) receives_.push_back(from.recv(Slice()));
    for (recv_operation& r : receives_) post(r);
  }
  void end(failure why) noexcept {
    if (ended_.is_set()) return;
    if (why.first_cause().code() != errc::not_connected) broken_ = std::move(why);
    ended_.set();
  }
  [[nodiscard]] event::wait_operation until_ended() noexcept { return ended_.wait(); }
  // Throws if the end had another cause than closing.
  void throw_if_broken() const {
    if (broken_) throw_error(*broken_);
  }

 private:
  void post(recv_operation& r) noexcept {
    r.start();
    r.observe(&listening::came, this);
  }
  static void came(operation_base& op, void* context) noexcept {
    auto& self = *static_cast<listening*>(context);
    auto& receive = static_cast<recv_operation&>(op);
    if (self.ended_.is_set()) return;
    const result<Received> got = receive.take_result();
    if (!got) {
      self.end(got.why());
      return;
    }
    self.owner_.look();
    receive.again(Slice());
    self.post(receive);
  }

  SyncEvent& owner_;
  event ended_;
  std::optional<failure> broken_;
  std::vector<recv_operation> receives_;
};

namespace detail {

sync_base::sync_base(SyncEvent& event, kind what, const sync_condition& condition) noexcept
    : operation_base(event.home_), event_(&event), condition_(condition), kind_(what) {}

void sync_base::do_start() noexcept { event_->begin(*this); }

void sync_base::fail(failure why) noexcept {
  static constexpr std::array<const char*, 4> names{"sync set", "sync add", "sync get",
                                                    "sync wait"};
  failure_ = std::move(why.with_operation(names[static_cast<std::size_t>(kind_)]));
  unlink();
  finish();
}

void sync_base::resolve(std::uint64_t counter) noexcept {
  CORDMA_ASSERT(state() == phase::queued || !linked());
  counter_ = counter;
  unlink();
  finish();
}

}  // namespace detail

SyncEvent::SyncEvent(const Context& context, const sync_event_options& options) noexcept
    : context_(context), options_(options) {}

SyncEvent::~SyncEvent() {
  if (phase_.load() == phase::async && !home_->enter_to_destroy()) return;
  static_cast<void>(stop());
}

failure SyncEvent::wrong_phase() const {
  switch (phase_.load()) {
    case phase::fresh: return {errc::bad_state, "this SyncEvent is not started: start() it first"};
    case phase::async:
      return {errc::bad_state,
              "this SyncEvent was started with a Worker: co_await its calls, nothing of it blocks"};
    case phase::blocking:
      return {
          errc::bad_state,
          "this SyncEvent was started to block: use the calls that do, on a thread of their own"};
    case phase::stopped: break;
  }
  return {errc::bad_state, "this SyncEvent was stopped, and is not started again: make another"};
}

result<void> SyncEvent::use_backing(access needed) {
  const Slice& given = options_.backing;
  const auto at = reinterpret_cast<std::uintptr_t>(given.data());
  if (given.region() == nullptr || given.region()->context != context_.core()) {
    return failure{errc::invalid_value, "the backing belongs to no MemoryRegion of this Context"};
  }
  if (given.size() != counter_bytes || at % counter_bytes != 0) {
    return failure{errc::invalid_value, "the backing has " + std::to_string(given.size()) +
                                            " bytes at an address that is " +
                                            std::to_string(at % counter_bytes) +
                                            " beyond a multiple of 8: give it 8 aligned bytes"};
  }
  if (given.region()->of_device()) {
    return failure{
        errc::not_supported,
        "the backing is device memory, and the CPU reads and writes the counter: back it "
        "with host memory"};
  }
  if (!has(given.region()->range.rights, needed)) {
    return failure{errc::not_permitted,
                   "the backing's region lacks a right: local_write is needed, remote_write and "
                   "remote_atomic for a remote publisher, remote_read for a remote subscriber"};
  }
  detail::retain(*given.region());
  region_ = MemoryRegion(given.region());
  counter_ = reinterpret_cast<std::uint64_t*>(given.data());
  return {};
}

// The part of start() that both modes share. REQUIRES nothing; on failure the event is unchanged.
result<void> SyncEvent::prepare() {
  if (phase_.load() != phase::fresh) {
    return failure{errc::bad_state, "a SyncEvent is started once: make another"};
  }
  for (const auto& where : {options_.publisher, options_.subscriber}) {
    if (!where) {
      return failure{errc::bad_state,
                     "a SyncEvent needs to know its publisher and its subscriber: set both in "
                     "sync_event_options, to sync_location::cpu or sync_location::remote"};
    }
    if (*where == sync_location::gpu || *where == sync_location::dpa) {
      return failure{errc::not_supported, "a SyncEvent cannot be used from a " +
                                              std::string(name(*where)) +
                                              " yet: its locations are cpu and remote"};
    }
  }
  const access rights = rights_of(options_);
  if (options_.backing.region() != nullptr || options_.backing.size() != 0) {
    const result<void> usable = use_backing(rights);
    if (!usable) return usable;
  } else {
    result<MemoryRegion> own = context_.allocate(counter_bytes, rights);
    if (!own) return own.why();
    region_ = std::move(*own);
    counter_ = region_.as<std::uint64_t>().data();
  }
  CORDMA_ASSERT_OP(reinterpret_cast<std::uintptr_t>(counter_) % counter_bytes, ==, 0U);
  if (options_.publisher != sync_location::remote) return {};
  for (const transport::capabilities& c : context_.transports()) {
    if (c.supports(service::rc, opcode::fetch_add) && !c.atomic_with_cpu) apart_ = c.transport;
  }
  return {};
}

result<void> SyncEvent::start(Worker& home) {
  detail::worker_core& at = detail::core_of(home);
  if (!at.home().on_owner_thread()) return off_thread(at.home());
  if (at.shared_context() != context_.core()) {
    return failure{errc::invalid_value, "the Worker is of another Context than the SyncEvent"};
  }
  const result<void> ready = prepare();
  if (!ready) return ready;
  CORDMA_ASSERT(home_ == nullptr && counter_ != nullptr);
  home_ = &at.home();
  phase_.store(phase::async);
  return {};
}

result<void> SyncEvent::start_blocking() {
  const result<void> ready = prepare();
  if (!ready) return ready;
  phase_.store(phase::blocking);
  return {};
}

result<void> SyncEvent::stop() {
  const phase was = phase_.load();
  if (was == phase::fresh) return wrong_phase();
  if (was == phase::async && !home_->on_owner_thread()) return off_thread(*home_);
  // The value is not used: with this access a sanitizer detects a backing that was freed.
  if (was != phase::stopped) static_cast<void>(counter().load(std::memory_order_acquire));
  phase_.store(phase::stopped);
  const failure why{errc::shutdown, "the SyncEvent was stopped"};
  while (!rising_.empty()) rising_.front().fail(why);
  while (!others_.empty()) others_.front().fail(why);
  while (!listeners_.empty()) listeners_.pop_front().end(why);
  CORDMA_ASSERT(rising_.empty() && others_.empty());
  return {};
}

result<std::vector<std::byte>> SyncEvent::export_remote() const {
  const phase now = phase_.load();
  if (now != phase::async && now != phase::blocking) return wrong_phase();
  const access rights = rights_of(options_);
  if (rights == access::local_write) {
    return failure{errc::not_permitted,
                   "neither publisher nor subscriber of this SyncEvent is remote"};
  }
  const auto adds = [](const transport::capabilities& c) {
    return c.supports(service::rc, opcode::fetch_add);
  };
  const std::vector<transport::capabilities> all = context_.transports();
  if (has(rights, access::remote_atomic) && std::none_of(all.begin(), all.end(), adds)) {
    return failure{errc::not_supported,
                   "no transport of this Context has atomics, which a remote publisher needs"};
  }
  CORDMA_ASSERT(counter_ != nullptr && region_.all().region() != nullptr);
  const detail::region_core& region = *region_.all().region();
  const result<transport::remote_keys> keys = detail::keys_of(region);
  if (!keys) return keys.why();
  const std::span<const std::byte> word(reinterpret_cast<const std::byte*>(counter_),
                                        counter_bytes);
  detail::sync_blob b;
  b.word = detail::describe(region, word, rights);
  b.word.keys = *keys;
  b.imm = options_.notice;
  b.notices = now == phase::async && options_.notices == sync_notices::every_change;
  std::vector<std::byte> bytes(detail::sync_blob::bytes);
  detail::encode(b, std::span<std::byte, detail::sync_blob::bytes>(bytes));
  return bytes;
}

std::optional<failure> SyncEvent::obstacle_to_add() const {
  if (!apart_) return std::nullopt;
  return failure{errc::not_supported,
                 "peers add over " + std::string(transport::name(*apart_)) +
                     ", whose atomics and the CPU's do not see each other: add through a "
                     "RemoteSyncEvent, over a connection to this host itself"};
}

std::optional<failure> SyncEvent::obstacle(const detail::sync_base& op) const {
  using kind = detail::sync_base::kind;
  if (phase_.load(std::memory_order_relaxed) != phase::async) return wrong_phase();
  if (!home_->on_owner_thread()) return off_thread(*home_);
  if (op.kind_ == kind::add) return obstacle_to_add();
  if (op.kind_ == kind::wait && !whole_bytes(op.condition_.mask)) {
    return failure{
        errc::invalid_value,
        "the mask of an awaited condition is 0 or 1, 2, 4 or 8 consecutive bytes of 0xFF"};
  }
  return std::nullopt;
}

void SyncEvent::begin(detail::sync_base& op) noexcept {
  using kind = detail::sync_base::kind;
  const sync_condition& c = op.condition_;
  if (std::optional<failure> why = obstacle(op)) {
    op.fail(std::move(*why));
    return;
  }
  if (op.kind_ == kind::set) {
    counter().store(c.value, std::memory_order_release);
    op.resolve(c.value);
    look();
  } else if (op.kind_ == kind::add) {
    op.resolve(counter().fetch_add(c.value, std::memory_order_acq_rel));
    look();
  } else {
    const std::uint64_t now = counter().load(std::memory_order_acquire);
    if (op.kind_ == kind::get || c.met_by(now)) return op.resolve(now);
    op.set_phase(operation_base::phase::queued);
    if (c.comparison != sync_condition::is::greater || c.mask != sync_condition::whole) {
      others_.push_back(op);
      return;
    }
    rising_.insert_in_order(op, [](const detail::sync_base& a, const detail::sync_base& b) {
      return a.condition_.value < b.condition_.value;
    });
  }
}

void SyncEvent::look() noexcept {
  if (home_ == nullptr) return;  // no waiters
  if (!home_->enter()) return;
  if (rising_.empty() && others_.empty()) return;
  const std::uint64_t now = counter().load(std::memory_order_acquire);
  while (!rising_.empty() && rising_.front().condition_.met_by(now)) rising_.front().resolve(now);
  others_.for_each([now](detail::sync_base& op) {
    if (op.condition_.met_by(now)) op.resolve(now);
  });
}

std::size_t SyncEvent::waiting() noexcept {
  std::size_t n = 0;
  rising_.for_each([&n](detail::sync_base&) { ++n; });
  others_.for_each([&n](detail::sync_base&) { ++n; });
  return n;
}

sync_operation<void> SyncEvent::set(std::uint64_t value) noexcept {
  return {*this, detail::sync_base::kind::set, {.value = value}};
}
sync_operation<std::uint64_t> SyncEvent::add(std::uint64_t value) noexcept {
  return {*this, detail::sync_base::kind::add, {.value = value}};
}
sync_operation<std::uint64_t> SyncEvent::get() noexcept {
  return {*this, detail::sync_base::kind::get, {}};
}
sync_operation<std::uint64_t> SyncEvent::wait(const sync_condition& until) noexcept {
  return {*this, detail::sync_base::kind::wait, until};
}
sync_operation<std::uint64_t> SyncEvent::wait_gt(std::uint64_t value, std::uint64_t mask) noexcept {
  return wait({.comparison = sync_condition::is::greater, .value = value, .mask = mask});
}
sync_operation<std::uint64_t> SyncEvent::wait_eq(std::uint64_t value, std::uint64_t mask) noexcept {
  return wait({.comparison = sync_condition::is::equal, .value = value, .mask = mask});
}
sync_operation<std::uint64_t> SyncEvent::wait_ne(std::uint64_t value, std::uint64_t mask) noexcept {
  return wait({.comparison = sync_condition::is::not_equal, .value = value, .mask = mask});
}

task<void> SyncEvent::listen(Endpoint& from) {
  if (phase_.load() != phase::async) throw_error(wrong_phase());
  if (!home_->on_owner_thread()) throw_error(off_thread(*home_));
  listening notices(*this, from);
  look();
  co_await notices.until_ended();
  notices.throw_if_broken();
}

result<void> SyncEvent::may_block() const {
  if (phase_.load() != phase::blocking) return wrong_phase();
  if (reactor::current() != nullptr) {
    return failure{errc::bad_state,
                   "this would block a thread that is running a reactor: call it elsewhere, or "
                   "start the SyncEvent with a Worker"};
  }
  return {};
}

result<void> SyncEvent::blocking_set(std::uint64_t value) {
  const result<void> may = may_block();
  if (!may) return may;
  counter().store(value, std::memory_order_release);
  return {};
}

result<std::uint64_t> SyncEvent::blocking_add(std::uint64_t value) {
  const result<void> may = may_block();
  if (!may) return may.why();
  if (const std::optional<failure> why = obstacle_to_add()) return *why;
  return counter().fetch_add(value, std::memory_order_acq_rel);
}

result<std::uint64_t> SyncEvent::blocking_get() {
  const result<void> may = may_block();
  if (!may) return may.why();
  return counter().load(std::memory_order_acquire);
}

result<std::uint64_t> SyncEvent::blocking_wait(const sync_condition& until, sync_wait how,
                                               duration timeout) {
  const result<void> may = may_block();
  if (!may) return may.why();
  const time_point end = after(real_clock().now(), timeout);
  for (;;) {
    const std::uint64_t now = counter().load(std::memory_order_acquire);
    if (until.met_by(now)) return now;
    if (phase_.load(std::memory_order_relaxed) != phase::blocking) {
      return failure{errc::shutdown, "the SyncEvent was stopped"};
    }
    if (real_clock().now() >= end) return failure{errc::timed_out};
    if (how == sync_wait::yield) std::this_thread::yield();
    if (how == sync_wait::suspend) std::this_thread::sleep_for(between_looks);
  }
}

}  // namespace cordma
