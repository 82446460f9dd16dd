// stream: a file that records are appended to by any thread, and that one thread writes.
#pragma once

#include "disk.hpp"
#include "record.hpp"

#include <cordma/runtime/unique_fd.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kv {

// When what was written is brought onto the disk for good: Redis's appendfsync.
enum class sync_policy : std::uint8_t { no, every_second, always };
[[nodiscard]] std::string_view name(sync_policy policy) noexcept;  // "no", "everysec", "always"
[[nodiscard]] std::optional<sync_policy> parse_sync_policy(std::string_view text) noexcept;

struct stream_options {
  // Above which backlogged() says so.
  std::size_t most_pending = std::size_t{64} << 20;
  // What cannot be written is tried again each second. Otherwise the first failure is the end.
  bool keeps_trying = false;
};

struct stream_counters {
  std::uint64_t writes = 0;
  std::uint64_t syncs = 0;
  std::uint64_t slow_syncs = 0;  // above slow_sync
  cordma::duration last_sync{};  // how long it took
};

// Changes that belong together, as they come from their encoders.
struct record_body {
  std::span<const std::string_view> pieces;
  std::size_t bytes = 0;  // of all pieces
  std::uint32_t crc = crc_begin;
};

// append() and what it says is for any thread that holds the guard; the rest for the disk's thread. What is appended
// while a write is under way goes into the next one, as one.
class stream final : public disk::client {
 public:
  // `moved`: durable(), failed() or trouble() changed, or there is room again.
  stream(disk& on, std::mutex& guard, const stream_options& options, std::function<void()> moved);
  // What is under way is waited for; what is not is not done.
  ~stream() override;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  // What is appended from now on goes to this file, which has so many bytes and this salt, behind record `last`.
  // REQUIRES that nothing was appended yet.
  void go_on_in(cordma::unique_fd fd, std::uint64_t size, std::uint32_t salt, std::uint64_t last);
  // The next record comes behind this one. REQUIRES as go_on_in().
  void begin_behind(std::uint64_t last) noexcept { appended_ = durable_ = written_ = last; }
  // What is appended from now on goes to this new file, once all before is on the disk in the old one. `first`: for
  // its header; 0: the next record's. REQUIRES the guard, and settled().
  void go_to(cordma::unique_fd fd, log_kind kind, std::uint64_t first = 0);
  // Whether it writes to the file that is appended to.
  [[nodiscard]] bool settled() const;
  // The file of the last go_to() is given up, with all that was appended since: what is not written never will be. False:
  // something of it is still under way; `moved` is called when that has ended, and then it is to be asked again.
  // REQUIRES that nothing is appended from the first time until the next go_to().
  [[nodiscard]] bool forget_last() noexcept;

  // Whether something is not on the disk yet.
  [[nodiscard]] bool busy() const noexcept {
    return pending() != 0 || dirty_ || sync_under_way_ || write_under_way_;
  }
  // The number of the first record in the file that is appended to. REQUIRES the guard.
  [[nodiscard]] std::uint64_t first_in_file() const noexcept { return first_in_file_; }

  void set_policy(sync_policy policy) noexcept { policy_.store(policy); }
  [[nodiscard]] sync_policy policy() const noexcept { return policy_.load(); }
  // What is appended until now will be on the disk soon, whatever the policy.
  void flush() noexcept {
    flush_until_ = appended_.load();
    flush_ = true;
  }
  // From time to time: fsyncs that are due. Returns whether one takes longer than slow_sync, once for each.
  [[nodiscard]] bool tick() noexcept;
  static constexpr cordma::duration slow_sync = std::chrono::seconds(2);

  // The record's number. REQUIRES the guard, and at most max_record_bytes.
  std::uint64_t append(const record_body& body);

  // Any thread:
  [[nodiscard]] std::uint64_t appended() const noexcept { return appended_.load(); }
  // All until this one will be there after the power was lost.
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load(); }
  // Bytes that are not written yet, or may have to be written again.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.load(); }
  [[nodiscard]] bool backlogged() const noexcept { return pending() > options_.most_pending; }
  // Of the file that is appended to, with what is pending.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(); }
  // Why it cannot be written just now, as strerror() has it.
  [[nodiscard]] std::optional<std::string> trouble() const;
  [[nodiscard]] bool in_trouble() const noexcept { return troubled_.load(); }
  // REQUIRES the guard.
  [[nodiscard]] std::optional<std::string> trouble_locked() const;
  // Without keeps_trying: it is over. 0, or an errno. What is being written then stays in memory until that has ended.
  [[nodiscard]] int failed() const noexcept { return failed_.load(); }
  // Since the last go_on_in() an fsync failed, without the bytes still being here to be written again: what the disk
  // has is not known.
  [[nodiscard]] bool suspect() const noexcept { return suspect_; }
  void trust() noexcept { suspect_ = false; }
  [[nodiscard]] const stream_counters& counters() const noexcept { return counters_; }

  bool work() noexcept override;
  [[nodiscard]] bool has_work() const noexcept override;

 private:
  static constexpr std::size_t chunk_bytes = std::size_t{256} << 10;
  static constexpr std::size_t most_spare = 4;
  static constexpr std::size_t batch_bytes = std::size_t{256} << 20;  // or one record
  static constexpr cordma::duration sync_interval = std::chrono::milliseconds(900);
  static constexpr cordma::duration retry_after = std::chrono::seconds(1);

  struct output {
    cordma::unique_fd fd;
    std::uint64_t offset = 0;  // where the next write goes
    std::uint32_t salt = 0;
  };
  struct chunk {
    output* to = nullptr;
    std::uint64_t last = 0;  // the record that ends in it
    std::vector<char> bytes;
  };
  struct write_job final : disk::job {
    explicit write_job(stream& s) noexcept;
    stream& owner;
  };
  struct sync_job final : disk::job {
    explicit sync_job(stream& s) noexcept;
    stream& owner;
  };
  struct retry_timer final : cordma::timer {
    explicit retry_timer(stream& s) noexcept;
    stream& owner;
  };

  [[nodiscard]] chunk& room(output& to, std::size_t bytes);
  [[nodiscard]] bool take_batch() noexcept;
  void write_batch() noexcept;
  void written() noexcept;
  void batch_done() noexcept;
  void synced() noexcept;
  [[nodiscard]] bool sync_wanted() const noexcept;
  [[nodiscard]] bool leave_output() noexcept;
  void begin_sync() noexcept;
  void into_trouble(int code) noexcept;
  void out_of_trouble() noexcept;
  void give_up(int code) noexcept;
  [[nodiscard]] bool given_up() const noexcept { return failed_.load() != 0 || forgetting_; }
  void release(std::vector<chunk>& chunks) noexcept;

  disk& disk_;
  std::mutex& guard_;
  const stream_options options_;
  std::function<void()> moved_;
  std::atomic<sync_policy> policy_{sync_policy::every_second};

  // Under the guard.
  std::deque<std::unique_ptr<output>>
      outputs_;  // from the one that is written to the one that is appended to
  std::deque<chunk> queue_;
  std::vector<chunk> spare_;
  std::string trouble_;
  std::uint64_t first_in_file_ = 1;

  std::atomic<bool> troubled_{false};
  std::atomic<int> failed_{0};
  std::atomic<std::uint64_t> appended_{0};
  std::atomic<std::uint64_t> durable_{0};
  std::atomic<std::size_t> pending_{0};
  std::atomic<std::size_t> queued_{0};  // bytes in queue_
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::size_t> outputs_count_{0};

  // The disk's thread's.
  output* writing_to_ = nullptr;
  std::vector<chunk> batch_;
  std::size_t batch_written_ = 0;  // bytes of it
  std::size_t batch_bytes_ = 0;
  bool batch_syncs_ = false;
  std::vector<iovec> pieces_;
  bool write_under_way_ = false;
  bool sync_under_way_ = false;
  bool slow_told_ = false;
  bool dirty_ = false;  // written, and no fsync begun since
  bool flush_ = false;  // an fsync is due once flush_until_ is written
  std::uint64_t flush_until_ = 0;
  bool sync_failing_ = false;
  bool forgetting_ = false;  // nothing more is begun
  bool blocked_ = false;     // what is queued cannot be written until an fsync is done
  bool suspect_ = false;
  std::uint64_t written_ = 0;
  std::uint64_t sync_covers_ = 0;
  cordma::time_point sync_began_{};
  write_job write_{*this};
  sync_job sync_{*this};
  retry_timer retry_{*this};
  stream_counters counters_;
};

}  // namespace kv
