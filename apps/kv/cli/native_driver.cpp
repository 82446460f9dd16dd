// A benchmark client for the native protocol.
#include "../native/client.hpp"
#include "lane.hpp"

#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <vector>

namespace kv::cli {
namespace {

using cordma::task;
using native::status;
using support::ticks;

client_counters operator-(const client_counters& later, const client_counters& earlier) noexcept {
  return {.one_sided = later.one_sided - earlier.one_sided,
          .asked = later.asked - earlier.asked,
          .batches = later.batches - earlier.batches,
          .absent = later.absent - earlier.absent,
          .torn = later.torn - earlier.torn,
          .expiring = later.expiring - earlier.expiring,
          .longer = later.longer - earlier.longer,
          .unmapped = later.unmapped - earlier.unmapped,
          .late = later.late - earlier.late,
          .unsafe = later.unsafe - earlier.unsafe,
          .silent = later.silent - earlier.silent,
          .torn_reads = later.torn_reads - earlier.torn_reads,
          .reads = later.reads - earlier.reads,
          .registrations = later.registrations - earlier.registrations};
}

// State that the tasks of one client share.
struct shared_lane {
  client* with = nullptr;
  lane* what = nullptr;
  std::uint32_t batch = 1;
  bool counting = false;
  client_counters before = {};

  // Like lane::goes_on().
  bool goes_on() {
    const bool on = what->goes_on();
    if (what->measuring() && !counting) {
      counting = true;
      before = with->counters();
    }
    return on;
  }
};

// Waits until the next operation is due. Returns its start time.
task<std::uint64_t> begin(lane* l) {
  const std::int64_t due = l->due_ns();
  const std::int64_t early = due - support::now().ns;
  if (early > 0) co_await cordma::sleep_for(std::chrono::nanoseconds(early));
  co_return l->began(due);
}

void note_write(lane& l, const choice& c, const reply& r) {
  if (!r) return l.has_failed(native::name(r.outcome));
  if (c.what == step::insert) l.has_inserted(c.record);
}

void note_read(lane& l, const choice& c, const reply& r) {
  const bool known = r || r.outcome == status::absent;
  if (!known) return l.has_failed(native::name(r.outcome));
  l.has_read(c.record, static_cast<bool>(r), r.value);
}

// Runs operations one after the other.
task<void> drive_singly(shared_lane* of) {
  lane& l = *of->what;
  std::string value;
  while (of->goes_on()) {
    const choice c = l.next();
    const record_key key(c.record);
    const std::string_view name = key.text();
    std::uint64_t from = ticks();
    if (l.open_loop()) from = co_await begin(&l);
    if (c.what == step::read || c.what == step::modify) {
      const reply r = co_await of->with->get(name, &value);
      note_read(l, c, r);
    }
    if (c.what != step::read) {
      const std::string_view now = l.values.next(c.record);
      const set_options how{};
      const reply r = co_await of->with->set(name, now, how);
      note_write(l, c, r);
    }
    l.took(c.what, ticks() - from);
  }
}

bool add(batch& to, const choice& c, record_values& values) {
  const record_key key(c.record);
  const bool reads = c.what == step::read || c.what == step::modify;
  if (reads && !to.get(key.text())) return false;
  return c.what == step::read || to.set(key.text(), values.next(c.record));
}

void note_all(lane& l, const std::vector<choice>& asked, const batch& answered,
              std::uint64_t time) {
  std::size_t at = 0;
  for (const choice& c : asked) {
    const bool reads = c.what == step::read || c.what == step::modify;
    if (reads) note_read(l, c, answered.replies()[at++]);
    if (c.what != step::read) note_write(l, c, answered.replies()[at++]);
    l.took(c.what, time);
  }
}

// Runs operations in batches.
task<void> drive_in_batches(shared_lane* of) {
  lane& l = *of->what;
  batch b;
  std::vector<choice> asked;
  while (of->goes_on()) {
    b.clear();
    asked.clear();
    while (asked.size() < of->batch) {
      asked.push_back(l.next());
      if (!add(b, asked.back(), l.values)) {
        throw std::runtime_error("a batch of so many values of this length is too long");
      }
    }
    std::uint64_t from = ticks();
    if (l.open_loop()) from = co_await begin(&l);
    co_await of->with->read(&b);
    note_all(l, asked, b, ticks() - from);
  }
}

task<void> drive_all(shared_lane* of, std::uint32_t in_flight) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope lanes(me);
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    lanes.spawn(of->batch == 1 ? drive_singly(of) : drive_in_batches(of));
  }
  co_await lanes.join();
}

task<void> load_share(client* with, lane* l) {
  batch b;
  const std::uint64_t last = l->last_to_load();
  for (std::uint64_t record = l->first_to_load(); record < last;) {
    b.clear();
    while (record < last && b.size() < loaded_at_once) {
      const record_key key(record);
      if (!b.set(key.text(), l->values.next(record))) break;
      ++record;
    }
    if (b.empty()) throw std::runtime_error("such a value is too long");
    co_await with->run(&b);
    for (const reply& r : b.replies()) {
      if (!r) throw std::runtime_error("loading: " + std::string(native::name(r.outcome)));
    }
    if (!l->loaded(b.size())) co_return;
  }
}

class driver_by_native final : public driver {
 public:
  driver_by_native(const service& s, const bench_options& o, lane& l)
      : worker_(context_, cordma::reactor_options{.mode = s.wait}),
        client_(worker_.run(client::connect(&context_, &worker_, s.native, s.as_native()))),
        lane_(l),
        in_flight_(o.in_flight) {
    shared_ = {.with = client_.get(), .what = &l, .batch = o.batch};
  }
  ~driver_by_native() override {
    try {
      worker_.run(client_->close());
    } catch (const cordma::error&) {  // already disconnected
    }
  }
  void load() override { worker_.run(load_share(client_.get(), &lane_)); }
  void drive() override {
    worker_.run(drive_all(&shared_, in_flight_));
    lane_.found.paths = client_->counters() - shared_.before;
  }
  [[nodiscard]] std::string over() const override { return std::string(client_->transport()); }
  [[nodiscard]] bool one_sided() const noexcept override {
    return shared_.batch == 1 ? client_->one_sided() : client_->reads_many();
  }

 private:
  cordma::Context context_;
  cordma::Worker worker_;
  std::unique_ptr<client> client_;
  lane& lane_;
  std::uint32_t in_flight_;
  shared_lane shared_;
};

}  // namespace

std::unique_ptr<driver> native_driver(const service& s, const bench_options& o, lane& l) {
  return std::make_unique<driver_by_native>(s, o, l);
}

}  // namespace kv::cli
