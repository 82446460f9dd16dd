// A client that runs random operations on a few keys and records its observations.
#pragma once

#include "../../apps/kv/native/blocking_client.hpp"
#include "linearizable.hpp"

#include <doctest/doctest.h>
#include <support/stage.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace kv::test {

constexpr std::size_t storm_keys = 8;

// Returns a text that identifies its value. Its length differs for each value, so that torn reads
// are likely and are detected.
inline std::string spell(value_id v) {
  std::string text = std::to_string(v) + ":";
  text.resize(16 + v * 7919 % 3'000, static_cast<char>('a' + v % 26));
  return text;
}
constexpr value_id nobodys = UINT64_MAX;  // never written
inline value_id spelled(std::string_view text) {
  const value_id v = std::stoull(std::string(text.substr(0, text.find(':'))));
  return spell(v) == text ? v : nobodys;
}

inline instant clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class storm {
 public:
  using connector = std::function<std::unique_ptr<blocking_client>()>;
  storm(connector connect, std::size_t number)
      : connect_(std::move(connect)), chance_(number + 1), last_(number * values_apart) {}

  void step() {
    const std::size_t key = chance_.below(storm_keys);
    const std::string name = "k" + std::to_string(key);
    event e{.start = clock_now()};
    try {
      if (!client_) client_ = connect_();
      switch (chance_.below(10)) {
        case 0:
        case 1: set(name, e); break;
        case 2: erase(name, e); break;
        case 3:
          look(name, key, e);
          e.end = clock_now();
          note(key, e);
          e = {.start = clock_now()};
          swap(name, key, e);
          break;
        case 4:
          look_at_all(e);
          ++answered_;
          return;
        default: look(name, key, e); break;
      }
      e.end = clock_now();
      note(key, e);
      ++answered_;
    } catch (const cordma::error&) {  // its outcome is unknown
      if (e.what != event::kind::get) note(key, e);
      client_.reset();
      ++broken_;
      std::this_thread::yield();
    }
  }

  [[nodiscard]] const std::vector<event>& seen(std::size_t key) const { return seen_[key]; }
  [[nodiscard]] std::uint64_t one_sided() const noexcept { return one_sided_; }
  [[nodiscard]] std::uint64_t broken() const noexcept { return broken_; }
  // Completed steps; any thread may call it.
  [[nodiscard]] std::uint64_t answered() const noexcept { return answered_.load(); }

 private:
  static constexpr std::size_t values_apart = 1'000'000;  // offset between two clients' values
  static constexpr value_id untold = UINT64_MAX - 1;

  void note(std::size_t key, const event& e) {
    if (e.seen != untold) seen_[key].push_back(e);
  }
  void set(const std::string& name, event& e) {
    e.what = event::kind::set;
    e.written = ++last_;
    const reply r = client_->set(name, spell(last_), {});
    REQUIRE(r);
  }
  void erase(const std::string& name, event& e) {
    e.what = event::kind::erase;
    const reply r = client_->erase(name);
    e.seen = r ? 1 : nothing;
  }
  void look(const std::string& name, std::size_t key, event& e) {
    const std::uint64_t before = client_->inner().counters().one_sided;
    const reply r = client_->get(name, text_);
    REQUIRE((r || r.outcome == native::status::absent));
    one_sided_ += client_->inner().counters().one_sided - before;
    if (r) e.seen = spelled(text_);
    known_[key] = {e.seen, r.version};
  }
  // Checks each key separately, because the reads do not share one moment.
  void look_at_all(event e) {
    const std::uint64_t before = client_->inner().counters().one_sided;
    all_.clear();
    for (std::size_t key = 0; key < storm_keys; ++key) all_.get("k" + std::to_string(key));
    client_->read(all_);
    e.end = clock_now();
    one_sided_ += client_->inner().counters().one_sided - before;
    for (std::size_t key = 0; key < storm_keys; ++key) {
      const reply& r = all_.replies()[key];
      REQUIRE((r || r.outcome == native::status::absent));
      e.seen = r ? spelled(r.value) : nothing;
      known_[key] = {e.seen, r.version};
      note(key, e);
    }
  }
  void swap(const std::string& name, std::size_t key, event& e) {
    const auto [value, version] = known_[key];
    e.what = event::kind::swap;
    e.written = ++last_;
    e.expected = value;
    const std::string text = spell(last_);
    const set_options how =
        value == nothing ? set_options{.flags = native::op_head::if_absent}
                         : set_options{.flags = native::op_head::if_version, .version = version};
    const reply r = client_->set(name, text, how);
    e.swapped = bool(r);
    if (r) return;
    // The value that prevented the swap is reported only if the key is absent.
    e.what = event::kind::get;
    e.seen = r.outcome == native::status::absent ? nothing : untold;
  }

  connector connect_;
  std::unique_ptr<blocking_client> client_;
  cordma::test::dice chance_;
  value_id last_;
  std::string text_;
  batch all_;
  std::array<std::vector<event>, storm_keys> seen_;
  std::array<std::pair<value_id, std::uint64_t>, storm_keys> known_;
  std::uint64_t one_sided_ = 0;
  std::uint64_t broken_ = 0;
  std::atomic<std::uint64_t> answered_{0};
};

inline void check_histories(const std::vector<std::unique_ptr<storm>>& storms,
                            const may_vanish& vanishing = {}) {
  for (std::size_t key = 0; key < storm_keys; ++key) {
    std::vector<event> all;
    for (const auto& s : storms) all.insert(all.end(), s->seen(key).begin(), s->seen(key).end());
    CAPTURE(key);
    CHECK(linearizer(all, vanishing).check() == "");
  }
}

}  // namespace kv::test
