// Test fixtures for journals: a directory, a keyspace, a reactor, and a keyspace's contents as a
// value.
#pragma once

#include "../../apps/kv/journal/journal.hpp"
#include "../copy/temporary_tree.hpp"

#include <cordma/runtime/reactor.hpp>
#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv::test {

using copy::test::temporary_tree;

// One key of a keyspace.
struct content {
  std::string text;
  std::map<std::string, std::string> fields;
  unix_ms expiry = never_expires;
  friend bool operator==(const content&, const content&) = default;
};
using contents = std::map<std::string, content>;

inline keyspace make_keyspace(std::uint32_t shards, std::uint64_t seed = 1) {
  std::vector<std::unique_ptr<memory_source>> memory;
  for (std::uint32_t i = 0; i < shards; ++i) memory.push_back(std::make_unique<plain_memory>());
  return keyspace(std::move(memory), store_options{.hash_seed = seed});
}

inline contents contents_of(keyspace& keys) {
  contents all;
  for (std::uint32_t i = 0; i < keys.shards(); ++i) {
    std::uint32_t cursor = 0;
    do {
      cursor = keys.at(i).scan(cursor, [&](const found& f) {
        content c;
        c.text = f.value;
        c.expiry = f.at->expiry();
        if (!f.is_string()) {
          f.fields->for_each(
              [&c](const hash_value::entry& e) { c.fields[std::string(e.field)] = e.value; });
        }
        all[std::string(f.at->key())] = std::move(c);
      });
    } while (cursor != 0);
  }
  return all;
}

// Applies the changes of a file to such a value.
class model_target final : public change_target {
 public:
  void put(std::string_view key, std::string_view value, unix_ms expiry,
           std::uint64_t) noexcept override {
    all[std::string(key)] = {std::string(value), {}, expiry};
  }
  void erased(std::string_view key) noexcept override { all.erase(std::string(key)); }
  void expiry_set(std::string_view key, unix_ms expiry) noexcept override {
    const auto at = all.find(std::string(key));
    if (at != all.end()) at->second.expiry = expiry;
  }
  void field_put(std::string_view key, std::string_view field,
                 std::string_view value) noexcept override {
    content& c = all[std::string(key)];
    if (c.fields.empty()) c = {};
    c.fields[std::string(field)] = value;
  }
  void field_erased(std::string_view key, std::string_view field) noexcept override {
    const auto at = all.find(std::string(key));
    if (at == all.end() || at->second.fields.empty()) return;
    at->second.fields.erase(std::string(field));
    if (at->second.fields.empty()) all.erase(at);
  }
  void cleared_part(const hash_part& part) noexcept override {
    std::erase_if(all, [&](const auto& entry) {
      return shard_of(hash_key(entry.first, part.seed).hash, part.shards) == part.shard;
    });
  }
  void ended(std::uint64_t records) noexcept override { end = records; }

  contents all;
  std::uint64_t end = 0;
};

// The real time plus the skipped time.
class skipping_clock final : public cordma::clock {
 public:
  [[nodiscard]] cordma::time_point now() noexcept override {
    return cordma::real_clock().now() + skipped_;
  }
  bool advance_to(cordma::time_point) noexcept override { return false; }
  void skip(cordma::duration by) noexcept { skipped_ += by; }

 private:
  cordma::duration skipped_{};
};

// A server without its doors: one thread that owns the keyspace and the journal.
struct scene {
  scene(const temporary_tree& tree, std::uint32_t shards, journal_options options = {})
      : keys(make_keyspace(shards)),
        loop(cordma::reactor_options{.mode = cordma::wait_mode::event, .time = &time}),
        written(loop, keys, in(tree, std::move(options)),
                journal_events{
                    .on_durable =
                        [this] {
                          const std::function<void()> now = advanced;  // the call may clear it
                          if (now) now();
                        },
                    .on_background = [this](const background_report& r) { ends.push_back(r); },
                    .log = [this](const std::string& line) { lines.push_back(line); },
                    .warn =
                        [this](const std::string& line) {
                          lines.push_back(line);
                          warnings.push_back(line);
                        }}) {}

  static journal_options in(const temporary_tree& tree, journal_options options) {
    options.dir = tree.root();
    return options;
  }
  cordma::result<load_report> load() {
    load_options how;
    how.log = [this](const std::string& line) { lines.push_back(line); };
    return written.load(how);
  }
  void open() { cordma::run(loop, written.open()); }
  void begin() {
    const cordma::result<load_report> done = load();
    REQUIRE_MESSAGE(done.ok(), (done ? "" : done.why().describe()));
    report = *done;
    open();
  }
  void close() { cordma::run(loop, written.close()); }
  // Runs the reactor until so() is true.
  template <class So>
  void until(So so) {
    while (!so()) {
      if (!loop.turn()) cordma::run(loop, pause());
    }
  }
  static cordma::task<void> pause() { co_await cordma::sleep_for(std::chrono::milliseconds(1)); }
  // Returns the last line of the log, or "". Skips reports of a slow fsync: they may appear at any
  // time, because skipping time makes every fsync in progress look slow.
  [[nodiscard]] std::string_view last_line() const {
    const auto at = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
      return line.find("an fsync of the journal takes longer") != 0;
    });
    return at == lines.rend() ? std::string_view() : *at;
  }
  // Returns the number of warnings that contain this text.
  [[nodiscard]] std::ptrdiff_t warned(std::string_view text) const {
    return std::ranges::count_if(
        warnings, [text](const std::string& line) { return line.find(text) != std::string::npos; });
  }
  void background(kv::background what) {
    const std::size_t before = ends.size();
    CHECK(written.ask_for(what) == journal::asked::begun);
    until([&] { return ends.size() > before; });
  }

  store& of(std::string_view key) { return keys.of(keys.key(key)); }
  void put(std::string_view key, std::string_view value, unix_ms expiry = never_expires) {
    REQUIRE(of(key).put(keys.key(key), value, expiry) == put_outcome::done);
  }
  void field(std::string_view key, std::string_view field, std::string_view value) {
    REQUIRE(of(key).field_put(keys.key(key), field, value) == put_outcome::done);
  }

  skipping_clock time;
  keyspace keys;
  cordma::reactor loop;
  std::vector<background_report> ends;
  std::vector<std::string> lines;
  std::vector<std::string> warnings;  // the lines that are warnings
  std::function<void()> advanced;     // journal_events::on_durable
  load_report report;
  journal written;
};

}  // namespace kv::test
