#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/reserve_file.hpp>
#include <cordma/net/transport/shm/names.hpp>
#include <cordma/net/transport/shm/shm_adapter.hpp>
#include <cordma/net/transport/shm/shm_domain.hpp>
#include <thread>

namespace cordma::transport::shm {
namespace {

// Longest wait for a peer that was stopped in the middle of an access.
constexpr duration longest_access = std::chrono::seconds(1);
constexpr unsigned tries_between_looks = 256;

capabilities describe() {
  capabilities c;
  c.transport = kind::shm;
  std::uint32_t all = 0;
  for (const opcode op : {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm,
                          opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush}) {
    all |= 1U << static_cast<unsigned>(op);
  }
  c.operations[static_cast<std::size_t>(service::rc)] = all;
  c.max_send_depth = 1U << 15;
  c.max_recv_depth = 1U << 15;
  c.max_segments = most_segments;
  c.max_inline = 1024;
  c.max_read_depth = 1U << 15;
  c.max_queue_pairs = 1U << 16;
  c.max_shared_depth = 1U << 16;
  c.eager_bytes = 17U << 10;
  c.max_message = std::uint64_t{1} << 30;
  c.event_driven = true;
  c.needs_target_progress = true;  // for the first access with a key, and for private memory
  c.remote_access_is_copy = true;
  c.whole_words = true;  // in memory of the library; the kernel copies other memory
  c.ordered_path = true;
  c.atomic_with_cpu = true;
  c.own_ports = true;
  c.every_address = true;
  c.shared_receive_queues = true;
  c.in_place = true;
  c.plain_in_place = true;
  c.posts_now = true;
  return c;
}

static_assert(epochs_bytes % page_bytes == 0);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "epochs are mapped");

}  // namespace

shm_domain::shm_domain(shm_options options, peer_rule rule, meeting_place place, unique_fd epochs,
                       mapped_view view)
    : options_(std::move(options)),
      rule_(rule),
      place_(std::move(place)),
      caps_(describe()),
      epochs_fd_(std::move(epochs)),
      epochs_view_(std::move(view)),
      epochs_(reinterpret_cast<std::atomic<std::uint32_t>*>(epochs_view_.data())),
      barriers_(join_barriers()) {
  CORDMA_REQUIRE_OP(epochs_view_.size(), >=, epoch_count * sizeof(std::uint32_t));
}

shm_domain::~shm_domain() {
  if (!made_in_.inherited()) CORDMA_ASSERT_OP(accessors_.size(), ==, 0U);
}

result<memory_keys> shm_domain::register_memory(const memory_range& range) {
  const result<void> taken = check_memory(range, caps_);
  if (!taken) return taken.why();
  memory_range kept = range;
  if (range.shared_fd >= 0 && range.length != 0) {
    // Peers map it: its pages must exist and stay.
    const int failed = reserve_file(range.shared_fd, range.length);
    if (failed == ENOSPC || failed == ENOMEM) {
      return failure(errc::no_memory, "no memory for " + std::to_string(range.length) +
                                          " bytes of shared memory: free some, or raise the "
                                          "memory limit")
          .with_errno(failed);
    }
    static_cast<void>(::fcntl(range.shared_fd, F_ADD_SEALS, F_SEAL_SHRINK));
    if (failed != 0 || !is_safe_to_map(range.shared_fd, range.length)) kept.shared_fd = -1;
  }
  const result<memory_keys> keys = regions_.add(kept);
  if (keys) {
    CORDMA_ASSERT_OP((*keys).lkey, <, epoch_count);
    const std::uint32_t before = epochs_[(*keys).lkey].fetch_add(1, std::memory_order_release);
    CORDMA_ASSERT_OP(before % 2, ==, 0U);  // now odd: registered
  }
  return keys;
}

void shm_domain::deregister_memory(std::uint32_t lkey) noexcept {
  CORDMA_REQUIRE_OP(lkey, !=, 0U);
  CORDMA_REQUIRE_OP(lkey, <, epoch_count);
  // Accesses that start from here on see that the registration has ended; earlier ones are waited
  // for.
  const std::uint32_t before = epochs_[lkey].fetch_add(1, std::memory_order_seq_cst);
  CORDMA_REQUIRE_OP(before % 2, ==, 1U);
  wait_for_accessors();
  regions_.remove(lkey);
}

bool shm_domain::permits_all(const segment* segments, std::size_t count,
                             bool written) const noexcept {
  return std::all_of(segments, segments + count,
                     [&](const segment& s) { return permits(s, written); });
}

void shm_domain::wait_for_accessors() noexcept {
  const std::lock_guard lock(mutex_);
  if (!accessors_.empty()) wait_for(accessors_);
}

void shm_domain::wait_for(std::span<const accessor> accessors) const noexcept {
  // Pairs with the compiler barrier in step_in(): peers set `accessing`, then check their right.
  if (barriers_) static_cast<void>(barrier_joined());
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const time_point until = real_clock().now() + longest_access;
  for (const accessor& a : accessors) {
    unsigned tries = 0;
    while (a.accessing->load(std::memory_order_acquire) % 2 != 0) {
      std::this_thread::yield();
      if (++tries % tries_between_looks != 0) continue;
      if (hung_up(a.socket) || real_clock().now() > until) break;
    }
  }
}

void shm_domain::add(const accessor& a) {
  CORDMA_REQUIRE(a.accessing != nullptr);
  CORDMA_REQUIRE_OP(a.socket, >=, 0);
  const std::lock_guard lock(mutex_);
  accessors_.push_back(a);
}

void shm_domain::remove(const std::atomic<std::uint32_t>* accessing) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t removed =
      std::erase_if(accessors_, [&](const accessor& a) { return a.accessing == accessing; });
  CORDMA_ASSERT_OP(removed, <=, 1U);
}

result<std::unique_ptr<adapter>> shm_domain::open(reactor& home) {
  return shm_adapter::open(shared_from_this(), home);
}

}  // namespace cordma::transport::shm

namespace cordma::transport {
namespace {

// In a sandbox: no setting causes this, and other transports work without it.
failure not_here(const failure& why) {
  if (why.code() == errc::no_memory) return why;
  return failure{errc::not_supported, why.message()}.with_errno(why.os_errno());
}

}  // namespace

result<std::shared_ptr<domain>> make_shm(const shm_options& options) {
  namespace here = cordma::transport::shm;
  shm_options o = options;
  if (!std::has_single_bit(o.ring_bytes.get()) || o.ring_bytes < here::least_ring_bytes ||
      o.ring_bytes > here::most_ring_bytes) {
    return failure{errc::invalid_value, "shm ring_bytes is " + std::to_string(o.ring_bytes) +
                                            ": use a power of two from 4096 to 268435456"};
  }
  o.eager_bytes = std::min(o.eager_bytes.get(), o.ring_bytes / 4 - 64);
  here::meeting_place place = here::find_meeting_place(o.directory);
  const result<here::peer_rule> rule = here::peer_rule::of(o);
  if (!rule) return rule.why();
  const result<void> made = here::make_directory(place.folders.front(), *rule);
  if (!made) return made.why();
  result<unique_fd> epochs = here::create_shared("cordma-epochs", here::epochs_bytes);
  if (!epochs) return not_here(epochs.why());
  result<here::mapped_view> view =
      here::map_shared((*epochs).get(), here::epochs_bytes, here::protection::read_write);
  if (!view) return not_here(view.why());
  here::seal_against_writers((*epochs).get());
  return std::shared_ptr<domain>(std::make_shared<here::shm_domain>(
      std::move(o), *rule, std::move(place), std::move(*epochs), std::move(*view)));
}

}  // namespace cordma::transport
