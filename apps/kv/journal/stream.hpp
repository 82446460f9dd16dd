// stream: a file to which any thread appends records and one thread writes them.
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

// When written records are synced to the disk: Redis's appendfsync.
enum class sync_policy : std::uint8_t { no, every_second, always };
[[nodiscard]] std::string_view name(sync_policy policy) noexcept;  // "no", "everysec", "always"
[[nodiscard]] std::optional<sync_policy> parse_sync_policy(std::string_view text) noexcept;

struct stream_options {
  // Limit above which backlogged() is true.
  std::size_t most_pending = std::size_t{64} << 20;
  // True: a failed write is repeated each second. False: the first failure is final.
  bool keeps_trying = false;
};

struct stream_counters {
  std::uint64_t writes = 0;
  std::uint64_t syncs = 0;
  std::uint64_t slow_syncs = 0;  // longer than slow_sync
  cordma::duration last_sync{};  // its duration
};

// Changes that belong together, as their encoders produced them.
struct record_body {
  std::span<const std::string_view> pieces;
  std::size_t bytes = 0;  // of all pieces
  std::uint32_t crc = crc_begin;
};

// append() and its results are for any thread that holds the guard; the rest is for the disk's
// thread. Records appended during a write are written together by the next one.
class stream final : public disk::client {
 public:
  // `moved` is called when durable(), failed() or trouble() changed, or when there is free space
  // again.
  stream(disk& on, std::mutex& guard, const stream_options& options, std::function<void()> moved);
  // Waits for the operations in flight; starts no others.
  ~stream() override;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  // Appends from now on go to this file of `size` bytes with this salt, after record `last`.
  // REQUIRES that nothing was appended yet.
  void go_on_in(cordma::unique_fd fd, std::uint64_t size, std::uint32_t salt, std::uint64_t last);
  // The next record follows `last`. REQUIRES as go_on_in().
  void begin_behind(std::uint64_t last) noexcept { appended_ = durable_ = written_ = last; }
  // Appends from now on go to this new file, which is written once all earlier records are on the
  // disk in the old one. `first` is for its header; 0: the next record's number. REQUIRES the
  // guard, and settled().
  void go_to(cordma::unique_fd fd, log_kind kind, std::uint64_t first = 0);
  // True if it writes to the same file that records are appended to.
  [[nodiscard]] bool settled() const;
  // Abandons the file of the last go_to() and all records appended since: unwritten ones are never
  // written. Returns false while an operation on it is in flight; `moved` is called when that ends,
  // and then the caller must call this again. REQUIRES no append from the first call until the next
  // go_to().
  [[nodiscard]] bool forget_last() noexcept;

  // True if something is not on the disk yet.
  [[nodiscard]] bool busy() const noexcept {
    return pending() != 0 || dirty_ || sync_under_way_ || write_under_way_;
  }
  // Number of the first record in the file that records are appended to. REQUIRES the guard.
  [[nodiscard]] std::uint64_t first_in_file() const noexcept { return first_in_file_; }

  void set_policy(sync_policy policy) noexcept { policy_.store(policy); }
  [[nodiscard]] sync_policy policy() const noexcept { return policy_.load(); }
  // Records appended until now will be on the disk soon, under any policy.
  void flush() noexcept {
    flush_until_ = appended_.load();
    flush_ = true;
  }
  // Begins fsyncs that are due; to be called at intervals. Returns true once for each fsync that
  // exceeds slow_sync.
  [[nodiscard]] bool tick() noexcept;
  static constexpr cordma::duration slow_sync = std::chrono::seconds(2);

  // Returns the record's number. REQUIRES the guard, and at most max_record_bytes.
  std::uint64_t append(const record_body& body);

  // Any thread:
  [[nodiscard]] std::uint64_t appended() const noexcept { return appended_.load(); }
  // Records up to this number survive a power loss.
  [[nodiscard]] std::uint64_t durable() const noexcept { return durable_.load(); }
  // Bytes that are unwritten or may have to be written again.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.load(); }
  [[nodiscard]] bool backlogged() const noexcept { return pending() > options_.most_pending; }
  // Size of the file that records are appended to, including pending bytes.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(); }
  // Why writing fails at present, as strerror() states it.
  [[nodiscard]] std::optional<std::string> trouble() const;
  [[nodiscard]] bool in_trouble() const noexcept { return troubled_.load(); }
  // REQUIRES the guard.
  [[nodiscard]] std::optional<std::string> trouble_locked() const;
  // Without keeps_trying: 0, or the errno of the final failure. Bytes of a write in flight stay in
  // memory until it ends.
  [[nodiscard]] int failed() const noexcept { return failed_.load(); }
  // True if an fsync failed since the last trust() when its bytes were no longer in memory to be
  // written again: the content on the disk is unknown.
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
    std::uint64_t offset = 0;  // position of the next write
    std::uint32_t salt = 0;
  };
  struct chunk {
    output* to = nullptr;
    std::uint64_t last = 0;  // number of the last record that ends in it
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
  std::deque<std::unique_ptr<output>> outputs_;  // from the written file to the appended-to file
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

  // Used on the disk's thread only.
  output* writing_to_ = nullptr;
  std::vector<chunk> batch_;
  std::size_t batch_written_ = 0;  // bytes already written of it
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
  bool forgetting_ = false;  // no further operation is begun
  bool blocked_ = false;     // queued bytes cannot be written until an fsync has ended
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
