#include "latency.hpp"

#include "../../support/histogram.hpp"
#include "../../support/ticks.hpp"
#include "../native/blocking_client.hpp"
#include "interrupts.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace kv::cli {
namespace {

struct probe {
  std::string name;
  std::function<void()> once;
  support::histogram times = {};
};

void require(bool done, const std::string& why) {
  if (!done) throw std::runtime_error(why);
}

// The probes of one server.
class prober {
 public:
  virtual ~prober() = default;
  [[nodiscard]] virtual std::vector<probe> probes() = 0;
  [[nodiscard]] virtual std::string over() const = 0;
};

std::string own_key() { return "cordma-kv-cli-latency-" + std::to_string(::getpid()); }

class native_prober final : public prober {
 public:
  native_prober(const service& s, std::uint32_t bytes)
      : client_(s.native, s.as_native(), s.wait), value_(bytes, 'v') {
    put();
  }
  ~native_prober() override {
    try {
      client_.erase(key_);
      // the connection is closed, and only this program uses the key
    } catch (const cordma::error&) {}
  }
  std::vector<probe> probes() override {
    std::vector<probe> all;
    if (client_.inner().one_sided()) all.push_back({"get, one-sided", [this] { get(); }});
    all.push_back({"get, asked", [this] { ask(); }});
    all.push_back({"set", [this] { put(); }});
    return all;
  }
  [[nodiscard]] std::string over() const override {
    return std::string(const_cast<native_prober*>(this)->client_.inner().transport());
  }

 private:
  void get() {
    const reply r = client_.get(key_, into_);
    require(static_cast<bool>(r), "get: " + std::string(native::name(r.outcome)));
  }
  void ask() {
    batch_.clear();
    static_cast<void>(batch_.get(key_));
    client_.run(batch_);
    const reply& r = batch_.replies().front();
    require(static_cast<bool>(r), "get: " + std::string(native::name(r.outcome)));
  }
  void put() {
    const reply r = client_.set(key_, value_);
    require(static_cast<bool>(r), "set: " + std::string(native::name(r.outcome)));
  }
  blocking_client client_;
  std::string key_ = own_key();
  std::string value_;
  std::string into_;
  batch batch_;
};

class resp_prober final : public prober {
 public:
  resp_prober(const service& s, std::uint32_t bytes)
      : client_(s.resp, s.as_resp()), value_(bytes, 'v') {
    call({"SET", key_, value_});
  }
  ~resp_prober() override {
    try {
      client_.call({"DEL", key_});
      // the connection is closed, and only this program uses the key
    } catch (const std::exception&) {}
  }
  std::vector<probe> probes() override {
    std::vector<probe> all;
    all.push_back({"get", [this] { call({"GET", key_}); }});
    all.push_back({"set", [this] { call({"SET", key_, value_}); }});
    return all;
  }
  [[nodiscard]] std::string over() const override { return "resp"; }

 private:
  void call(std::initializer_list<std::string_view> words) {
    client_.add(words);
    client_.flush();
    const resp_value& r = client_.receive();
    require(!r.is_error(), r.text);
  }
  resp_client client_;
  std::string key_ = own_key();
  std::string value_;
};

std::string to_table(const std::vector<probe>& all, double us) {
  std::string text;
  char line[160];
  std::snprintf(line, sizeof line, "%-16s %10s %9s %9s %9s %9s %9s %9s\n", "microseconds", "count",
                "min", "p50", "p90", "p99", "p99.9", "max");
  text += line;
  for (const probe& p : all) {
    const support::histogram& h = p.times;
    std::snprintf(line, sizeof line, "%-16s %10llu %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n",
                  p.name.c_str(), static_cast<unsigned long long>(h.count()),
                  static_cast<double>(h.min()) * us, h.at(0.5) * us, h.at(0.9) * us,
                  h.at(0.99) * us, h.at(0.999) * us, static_cast<double>(h.max()) * us);
    text += line;
  }
  return text;
}

std::string to_json(const std::vector<probe>& all, double us, const std::string& over,
                    const latency_options& o) {
  nlohmann::ordered_json j{{"schema", "cordma-kv-latency/1"},
                           {"over", over},
                           {"value_bytes", o.value_bytes},
                           {"latency_us", nlohmann::ordered_json::object()}};
  for (const probe& p : all) {
    const support::histogram& h = p.times;
    j["latency_us"][p.name] = {
        {"n", h.count()},           {"min", static_cast<double>(h.min()) * us},
        {"mean", h.mean() * us},    {"p50", h.at(0.5) * us},
        {"p90", h.at(0.9) * us},    {"p99", h.at(0.99) * us},
        {"p999", h.at(0.999) * us}, {"max", static_cast<double>(h.max()) * us}};
  }
  return j.dump(1) + "\n";
}

void round(std::vector<probe>& all) {
  for (probe& p : all) {
    const std::uint64_t from = support::ticks();
    p.once();
    p.times.record(support::ticks() - from);
  }
}

// On a terminal, shows the intermediate results once a second, replacing the previous ones.
class live_table {
 public:
  explicit live_table(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) != 0) {}
  void show(const std::vector<probe>& all, const support::instant& began,
            const support::instant& now) {
    constexpr std::int64_t second = 1'000'000'000;
    if (!wanted_ || now.ns - last_ns_ < second) return;
    last_ns_ = now.ns;
    clear();
    const std::string text = to_table(all, support::ns_per_tick(began, now) / 1e3);
    std::fputs(text.c_str(), stderr);
    lines_ = all.size() + 1;
  }
  void clear() {
    if (lines_ != 0) std::fprintf(stderr, "\x1b[%zuA\r\x1b[J", lines_);
    lines_ = 0;
  }

 private:
  bool wanted_;
  std::int64_t last_ns_ = support::now().ns;
  std::size_t lines_ = 0;
};

}  // namespace

int run_latency(const service& s, const latency_options& o) {
  interrupts by_hand;
  std::unique_ptr<prober> server;
  if (s.is_resp()) {
    server = std::make_unique<resp_prober>(s, o.value_bytes);
  } else {
    server = std::make_unique<native_prober>(s, o.value_bytes);
  }
  std::vector<probe> all = server->probes();
  constexpr int warm_up_rounds = 200;
  for (int i = 0; i < warm_up_rounds; ++i) round(all);
  for (probe& p : all) p.times.clear();

  constexpr int rounds_at_once = 64;  // between two readings of the clock, without pauses
  live_table live(!o.json);
  const support::instant began = support::now();
  support::instant now = began;
  while (!by_hand.came()) {
    for (int i = 0; i < (o.pause_ms > 0 ? 1 : rounds_at_once); ++i) round(all);
    if (o.pause_ms > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(o.pause_ms));
    }
    now = support::now();
    live.show(all, began, now);
    if (o.duration_s > 0 && static_cast<double>(now.ns - began.ns) >= o.duration_s * 1e9) break;
  }
  live.clear();
  const double us = support::ns_per_tick(began, now) / 1e3;
  if (o.json) {
    std::fputs(to_json(all, us, server->over(), o).c_str(), stdout);
  } else {
    std::printf("over %s, from %s, values of %u bytes\n%s", server->over().c_str(),
                s.name().c_str(), o.value_bytes, to_table(all, us).c_str());
  }
  return 0;
}

}  // namespace kv::cli
