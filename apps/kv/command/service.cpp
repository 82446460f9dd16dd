#include "service.hpp"
#include "digest.hpp"

#include "least_memory.hpp"

#include <cordma/runtime/result.hpp>

#include <openssl/rand.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

namespace kv {
namespace {

constexpr std::size_t sweep_items = 1000;  // per shard and tick
// Fields and objects per shard and tick; takes a fraction of a millisecond.
constexpr std::size_t freed_objects = 3000;
constexpr std::size_t moved_items = 1000;
constexpr std::size_t most_error_names = 128;
constexpr cordma::duration sample_time = std::chrono::seconds(1);
constexpr std::size_t run_id_digits = 40;

// Redis samples this number of keys for each eviction; here one sample serves many evictions.
unsigned samples_of(const settings& s) noexcept {
  constexpr std::uint64_t for_each = 13;
  constexpr std::uint64_t most = 1 << 16;
  return static_cast<unsigned>(std::min(s.maxmemory_samples, most / for_each) * for_each);
}

std::string fresh_id() {
  std::array<unsigned char, 32> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) throw std::bad_alloc();
  return sha256({reinterpret_cast<const char*>(random.data()), random.size()})
      .substr(0, run_id_digits);
}

}  // namespace

service::service(keyspace& keys, const parsed_settings& initial, service_options options)
    : keys_(keys),
      options_(std::move(options)),
      time_(options_.time != nullptr ? *options_.time : cordma::real_clock()),
      users_(commands_),
      settings_(std::make_shared<const settings>(initial.values)) {
  const std::string why = configure_users({}, initial.users);
  if (!why.empty()) throw cordma::error({cordma::errc::invalid_value, "configuration: " + why});
  require_password();
  run_id_ = fresh_id();
  started_ms_ = read_wall_clock();
  started_ = time_.now();
  for (unsigned i = 0; i < options_.workers; ++i) {
    workers_.push_back(std::make_unique<worker_state>());
    workers_.back()->settings_seen = settings_;
    workers_.back()->settings_generation = settings_generation_;
    workers_.back()->last_sample.when = time_.now();
    read_time(i);
  }
  const keyspace::hold hold(keys_, keys_.all());
  configure_shards(*settings_);
  bytes_at_start_ = keys_.usage().bytes;
}

service::~service() = default;

void service::require_password() {
  const std::string password = snapshot()->requirepass;
  if (!password.empty()) users_.require_password(password);
}

std::string service::load_users() {
  std::unique_ptr<users> found;
  std::string why = read_users(found);
  if (why.empty()) take_users(found);
  return why;
}

std::string service::read_users(std::unique_ptr<users>& found) const {
  const std::string file = snapshot()->aclfile;
  if (file.empty()) return {};
  auto read = std::make_unique<users>(commands_);
  const std::string why = read->load_file(file);
  if (!why.empty()) return file + ": " + why;
  found = std::move(read);
  return {};
}

void service::take_users(const std::unique_ptr<users>& found) {
  if (!found) return;
  users_.take(*found);
  if (users_.find(default_user)->any_password) require_password();
}

std::string service::configure_users(std::span<const std::string> before,
                                     std::span<const std::string> lines) {
  const std::shared_ptr<const user> usual = users_.find(default_user);
  std::string why = users_.configure(before, lines);
  if (users_.find(default_user) != usual) require_password();
  return why;
}

std::string service::take_rewritten() {
  const std::scoped_lock alone(files_guard_);
  return std::exchange(rewritten_, {});
}

void service::configure_shards(const settings& s) {
  for (std::uint32_t i = 0; i < keys_.shards(); ++i) {
    keys_.at(i).configure(static_cast<std::size_t>(s.maxmemory) / keys_.shards(),
                          s.maxmemory_policy, samples_of(s));
  }
}

const settings& service::current(unsigned worker) {
  worker_state& w = at(worker);
  if (w.settings_generation != settings_generation_.load(std::memory_order_acquire)) {
    const std::scoped_lock hold(settings_guard_);
    w.settings_seen = settings_;
    w.settings_generation = settings_generation_.load(std::memory_order_relaxed);
  }
  return *w.settings_seen;
}

std::shared_ptr<const settings> service::snapshot() const {
  const std::scoped_lock hold(settings_guard_);
  return settings_;
}

std::string service::replace(settings next) {
  const std::shared_ptr<const settings> before = snapshot();
  std::string too_little = memory_refusal(next.maxmemory, keys_.shards());
  if (!too_little.empty()) return too_little;
  if (hooks.settings_change) {
    std::string why = hooks.settings_change(*before, next);
    if (!why.empty()) return why;
  }
  const auto made = std::make_shared<const settings>(std::move(next));
  if (made->requirepass != before->requirepass) users_.require_password(made->requirepass);
  configure_shards(*made);
  slow_.trim(static_cast<std::size_t>(made->slowlog_max_len));
  const std::scoped_lock hold(settings_guard_);
  settings_ = made;
  settings_generation_.fetch_add(1, std::memory_order_release);
  return {};
}

std::uint64_t service::read_wall_clock_us() const noexcept {
  if (options_.wall_clock != nullptr) return options_.wall_clock(options_.wall_context) * 1000;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

void service::read_time(unsigned worker) noexcept {
  worker_state& w = at(worker);
  w.now_ms = read_wall_clock();
  w.now = time_.now();
}

void service::take_sample(worker_state& w) noexcept {
  const rates before = w.last_sample.so_far;
  const rates now{w.counters.commands.get(), w.counters.input_bytes.get(),
                  w.counters.output_bytes.get()};
  const auto passed = std::chrono::duration<double>(w.now - w.last_sample.when).count();
  const auto rate = [passed](std::uint64_t from, std::uint64_t to) {
    return static_cast<std::uint64_t>(static_cast<double>(to - from) / passed);
  };
  for (auto* const longest : {&w.longest_input, &w.longest_output}) {
    (*longest)[1] = (*longest)[0].exchange(0);
  }
  w.commands_per_second = rate(before.commands, now.commands);
  w.input_per_second = rate(before.input_bytes, now.input_bytes);
  w.output_per_second = rate(before.output_bytes, now.output_bytes);
  w.last_sample = {w.now, now};
}

void service::note_sweep(unsigned worker, cordma::time_point began) {
  const std::uint64_t threshold = current(worker).latency_monitor_threshold;
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(read_clock() - began);
  const auto ms = static_cast<std::uint64_t>(took.count());
  if (threshold != 0 && ms >= threshold) {
    latency_.add("expire-cycle", {.when_s = now_ms(worker) / 1000, .took_ms = ms});
  }
}

void service::mind_freed(worker_state& w, std::size_t object_bytes) {
  constexpr std::size_t much = std::size_t{16} << 20;
  w.object_bytes = std::max(w.object_bytes, object_bytes);
  if (w.object_bytes - object_bytes < much) return;
  w.object_bytes = object_bytes;
  if (hooks.much_was_freed) hooks.much_was_freed();
}

bool service::tick(unsigned worker) {
  read_time(worker);
  worker_state& w = at(worker);
  if (w.now - w.last_sample.when >= sample_time) take_sample(w);
  if (paused_.load(std::memory_order_relaxed) != paused::none &&
      paused_by_client(worker) == paused::none) {
    paused_ = paused::none;
    resume_all(worker);
  }
  if (pausing(worker) != paused::none || loading) return false;
  bool more = false;
  std::size_t bytes = 0;
  std::size_t object_bytes = 0;
  const cordma::time_point began = read_clock();
  for (std::uint32_t shard = worker; shard < keys_.shards(); shard += options_.workers) {
    const keyspace::hold hold(keys_, std::uint64_t{1} << shard);
    keys_.at(shard).tick(w.now_ms);
    keys_.at(shard).keep_expired(is_still(worker));
    more |= keys_.at(shard).sweep(sweep_items);
    more |= keys_.at(shard).free_some(freed_objects);
    more |= keys_.at(shard).tidy(moved_items);
    bytes += keys_.at(shard).usage().bytes;
    object_bytes += keys_.at(shard).usage().object_bytes;
  }
  mind_freed(w, object_bytes);
  if (bytes > w.peak_bytes.load(std::memory_order_relaxed)) w.peak_bytes = bytes;
  note_sweep(worker, began);
  return more;
}

void service::journal_advanced(unsigned worker) { wake_marked(worker); }

void service::attend(unsigned worker) { wake_marked(worker); }

// A wake() may end clients, so ids are collected first and each client is looked up again.
void service::wake_marked(unsigned worker) {
  worker_state& w = at(worker);
  std::vector<std::uint64_t> ids;
  {
    const std::scoped_lock hold(w.guard);
    ids.swap(w.marked);
    if (std::exchange(w.all_marked, false)) {
      for (const auto& [id, c] : w.callers) ids.push_back(id);
    }
  }
  w.counters.looked_at.add(ids.size());
  for (const std::uint64_t id : ids) {
    caller* c = nullptr;
    {
      const std::scoped_lock hold(w.guard);
      const auto found = w.callers.find(id);
      if (found != w.callers.end()) c = found->second;
    }
    if (c != nullptr && c->attention.exchange(false)) c->wake();
  }
}

void service::mark(caller& c) noexcept {
  if (c.attention.load(std::memory_order_relaxed)) return;
  worker_state& w = at(c.origin.worker);
  const std::scoped_lock hold(w.guard);
  mark_in(w, c);
}

void service::mark_in(worker_state& held, caller& c) noexcept {
  if (c.attention.exchange(true)) return;
  try {
    held.marked.push_back(c.id);
  } catch (const std::bad_alloc&) {
    held.all_marked = true;
  }
}

std::uint64_t service::total(relaxed_counter worker_counters::* which) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& w : workers_) sum += (w->counters.*which).get();
  return sum;
}

std::uint64_t service::total(std::size_t command,
                             relaxed_counter command_counters::* which) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& w : workers_) sum += (w->counters.each[command].*which).get();
  return sum;
}

service::rates service::per_second() const noexcept {
  rates sum;
  for (const auto& w : workers_) {
    sum.commands += w->commands_per_second.load(std::memory_order_relaxed);
    sum.input_bytes += w->input_per_second.load(std::memory_order_relaxed);
    sum.output_bytes += w->output_per_second.load(std::memory_order_relaxed);
  }
  return sum;
}

std::size_t service::peak_bytes(std::size_t now) noexcept {
  std::size_t sampled = 0;
  for (const auto& w : workers_) sampled += w->peak_bytes.load(std::memory_order_relaxed);
  const std::size_t seen = std::max(sampled, now);
  std::size_t highest = peak_bytes_.load(std::memory_order_relaxed);
  while (highest < seen &&
         !peak_bytes_.compare_exchange_weak(highest, seen, std::memory_order_relaxed)) {}
  return std::max(highest, seen);
}

void service::count_error(unsigned worker, std::string_view reply) {
  at(worker).counters.error_replies.add();
  const std::string_view code = reply.substr(1, reply.find_first_of(" \r", 1) - 1);
  const std::scoped_lock hold(errors_guard_);
  const auto found = errors_.find(code);
  if (found != errors_.end()) {
    ++found->second;
  } else if (errors_.size() < most_error_names) {
    errors_.emplace(code, 1);
  }
}

std::map<std::string, std::uint64_t, std::less<>> service::errors() const {
  const std::scoped_lock hold(errors_guard_);
  return errors_;
}

// Counts that other workers add meanwhile may be lost.
void service::reset_statistics() {
  for (const auto& w : workers_) {
    worker_counters& c = w->counters;
    for (relaxed_counter* const each :
         {&c.commands, &c.connections, &c.rejected_connections, &c.input_bytes, &c.output_bytes,
          &c.receipts, &c.sendings, &c.error_replies, &c.killed_for_output, &c.writes}) {
      each->clear();
    }
    for (command_counters& one : c.each) {
      one.calls.clear();
      one.nanoseconds.clear();
      one.rejected.clear();
      one.failed.clear();
    }
    w->last_sample.so_far = {};
  }
  const std::scoped_lock hold(errors_guard_);
  errors_.clear();
}

void service::enter(caller& c) {
  worker_state& w = at(c.origin.worker);
  {
    const std::scoped_lock hold(w.guard);
    w.callers.emplace(c.id, &c);
  }
  clients_.fetch_add(1, std::memory_order_relaxed);
  w.counters.connections.add();
}

void service::leave(caller& c) noexcept {
  stop_monitor(c);
  client_goes_on(c);
  show_buffers(c, {});
  worker_state& w = at(c.origin.worker);
  const std::scoped_lock hold(w.guard);
  w.callers.erase(c.id);
  clients_.fetch_sub(1, std::memory_order_relaxed);
}

void service::for_each_client(const std::function<void(caller&)>& each) {
  if (workers_.size() == 1) {
    const std::scoped_lock hold(at(0).guard);
    for (auto& [id, c] : at(0).callers) each(*c);
    return;
  }
  std::map<std::uint64_t, caller*> all;
  std::vector<std::unique_lock<std::mutex>> holds;
  for (const auto& w : workers_) {
    holds.emplace_back(w->guard);
    all.insert(w->callers.begin(), w->callers.end());
  }
  for (auto& [id, c] : all) each(*c);
}

service::client_figures service::figures_of_clients() const noexcept {
  client_figures sum{.blocked = blocked_clients_, .room_bytes = client_room_bytes_};
  for (const auto& w : workers_) {
    for (std::size_t i = 0; i < 2; ++i) {
      sum.recent_input = std::max(sum.recent_input, w->longest_input[i].load());
      sum.recent_output = std::max(sum.recent_output, w->longest_output[i].load());
    }
  }
  return sum;
}

void service::client_waits(caller& c) noexcept {
  if (!c.blocked.exchange(true)) blocked_clients_.fetch_add(1, std::memory_order_relaxed);
}

void service::client_goes_on(caller& c) noexcept {
  if (!c.blocked.load(std::memory_order_relaxed)) return;
  c.blocked = false;
  blocked_clients_.fetch_sub(1, std::memory_order_relaxed);
}

void service::show_buffers(caller& c, const client_buffers& now) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::size_t before = c.input_room.load(relaxed) + c.output_room.load(relaxed);
  const std::size_t after = now.input_room + now.output_room;
  if (before != after) client_room_bytes_.fetch_add(after - before, relaxed);
  c.input_bytes.store(now.input_bytes, relaxed);
  c.input_room.store(now.input_room, relaxed);
  c.output_bytes.store(now.output_bytes, relaxed);
  c.output_room.store(now.output_room, relaxed);
  worker_state& w = at(c.origin.worker);
  if (now.input_bytes > w.longest_input[0].load(relaxed)) w.longest_input[0] = now.input_bytes;
  if (now.output_bytes > w.longest_output[0].load(relaxed)) w.longest_output[0] = now.output_bytes;
}

void service::end_client(caller& c) noexcept {
  c.killed.store(caller::kill::now, std::memory_order_release);
  mark_in(c.of_.at(c.origin.worker), c);
}

void service::start_monitor(caller& c) {
  if (c.monitored) return;
  auto made = std::make_unique<monitor_box>();
  worker_state& w = at(c.origin.worker);
  const std::scoped_lock hold(w.guard);
  w.monitors.push_back(&c);
  w.monitor_count = w.monitors.size();
  c.monitored = std::move(made);
  monitors_.fetch_add(1, std::memory_order_relaxed);
}

void service::stop_monitor(caller& c) noexcept {
  worker_state& w = at(c.origin.worker);
  const std::scoped_lock hold(w.guard);
  if (!c.monitored) return;
  std::erase(w.monitors, &c);
  w.monitor_count = w.monitors.size();
  c.monitored.reset();
  monitors_.fetch_sub(1, std::memory_order_relaxed);
}

void service::show_monitors(const caller& who, std::span<const std::string_view> args) {
  const std::string line = monitor_line(who, read_wall_clock_us(), args);
  std::string ended;
  for (const auto& w : workers_) {
    if (w->monitor_count == 0) continue;
    const std::scoped_lock hold(w->guard);
    at(who.origin.worker).counters.looked_at.add(w->monitors.size());
    for (caller* const each : w->monitors) {
      if (each->killed.load() != caller::kill::no) continue;
      if (each->monitored->add(line)) {
        mark_in(*w, *each);
      } else {
        end_client(*each);
        ended = describe(*each, now_ms(who.origin.worker));
      }
    }
  }
  rouse(who.origin.worker);
  if (!ended.empty() && hooks.warn)
    hooks.warn("disconnected for reading MONITOR too slowly: " + ended);
}

void service::rouse(unsigned from_worker) {
  for (unsigned i = 0; i < options_.workers; ++i) {
    if (hooks.attend) {
      hooks.attend(i);
    } else if (i == from_worker) {
      wake_marked(i);
    }
  }
}

void service::pause(cordma::time_point until, paused what) noexcept {
  // Keeps the stronger mode and the later end of two pauses.
  if (paused_.load() == paused::all) what = paused::all;
  paused_until_ = std::max(until, paused_until_.load());
  paused_ = what;
}

void service::resume_all(unsigned from_worker) {
  paused_ = paused::none;
  paused_until_ = cordma::time_point{};
  for_each_client([this](caller& c) { mark_in(at(c.origin.worker), c); });
  rouse(from_worker);
}

service::paused service::pausing(unsigned worker) const noexcept {
  const paused what = paused_by_client(worker);
  if (what != paused::none) return what;
  return journal != nullptr && journal->backlogged() ? paused::writes : paused::none;
}

service::paused service::paused_by_client(unsigned worker) const noexcept {
  const paused what = paused_.load(std::memory_order_relaxed);
  if (what == paused::none || now(worker) >= paused_until_.load(std::memory_order_relaxed)) {
    return paused::none;
  }
  return what;
}

}  // namespace kv
