// A benchmark client for RESP.
#include "lane.hpp"
#include "resp_client.hpp"

#include <cerrno>
#include <ctime>
#include <stdexcept>
#include <vector>

#include <sys/prctl.h>

namespace kv::cli {
namespace {

using support::ticks;

class driver_by_resp final : public driver {
 public:
  driver_by_resp(const service& s, const bench_options& o, lane& l)
      : client_(s.resp, s.as_resp()), lane_(l), batch_(o.batch) {
    ::prctl(PR_SET_TIMERSLACK, 1);  // avoids the default slack of 50 us for due operations
  }

  void load() override {
    const std::uint64_t last = lane_.last_to_load();
    for (std::uint64_t record = lane_.first_to_load(); record < last;) {
      std::uint64_t sent = 0;
      for (; record < last && sent < loaded_at_once; ++record, ++sent) {
        client_.add({"SET", record_key(record).text(), lane_.values.next(record)});
      }
      client_.flush();
      for (std::uint64_t i = 0; i < sent; ++i) {
        const resp_value& r = client_.receive();
        if (r.is_error()) throw std::runtime_error("loading: " + r.text);
      }
      if (!lane_.loaded(sent)) return;
    }
  }

  void drive() override {
    while (lane_.goes_on()) {
      asked_.clear();
      while (asked_.size() < batch_) asked_.push_back(lane_.next());
      const std::uint64_t from = begin();
      ask();
      // A value to modify must be read first; both steps then take another round trip.
      const bool again = receive_first();
      if (again) modify();
      const std::uint64_t time = ticks() - from;
      for (const choice& c : asked_) lane_.took(c.what, time);
    }
  }
  [[nodiscard]] std::string over() const override { return "resp"; }

 private:
  static bool reads(const choice& c) noexcept {
    return c.what == step::read || c.what == step::modify;
  }
  void set(const choice& c) {
    client_.add({"SET", record_key(c.record).text(), lane_.values.next(c.record)});
  }
  void ask() {
    for (const choice& c : asked_) {
      if (reads(c)) {
        client_.add({"GET", record_key(c.record).text()});
      } else {
        set(c);
      }
    }
    client_.flush();
  }
  void receive_write(const choice& c) {
    const resp_value& r = client_.receive();
    if (r.is_error()) return lane_.has_failed(r.text);
    if (c.what == step::insert) lane_.has_inserted(c.record);
  }
  bool receive_first() {
    bool modifies = false;
    for (const choice& c : asked_) {
      modifies |= c.what == step::modify;
      if (!reads(c)) {
        receive_write(c);
        continue;
      }
      const resp_value& r = client_.receive();
      if (r.is_error()) {
        lane_.has_failed(r.text);
      } else {
        lane_.has_read(c.record, !r.is_nil(), r.text);
      }
    }
    return modifies;
  }
  void modify() {
    for (const choice& c : asked_) {
      if (c.what == step::modify) set(c);
    }
    client_.flush();
    for (const choice& c : asked_) {
      if (c.what == step::modify) receive_write(c);
    }
  }

  // Waits until the next batch is due. Returns its start time.
  std::uint64_t begin() noexcept {
    if (!lane_.open_loop()) return ticks();
    const std::int64_t due = lane_.due_ns();
    constexpr std::int64_t second = 1'000'000'000;
    const timespec until{.tv_sec = due / second, .tv_nsec = due % second};
    while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {}
    return lane_.began(due);
  }

  resp_client client_;
  lane& lane_;
  std::uint32_t batch_;
  std::vector<choice> asked_;
};

}  // namespace

std::unique_ptr<driver> resp_driver(const service& s, const bench_options& o, lane& l) {
  return std::make_unique<driver_by_resp>(s, o, l);
}

}  // namespace kv::cli
