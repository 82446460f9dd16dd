// Implementation of a Stream: two rings, the requests of both directions, and the waiting
// operations.
#pragma once

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/protocol/stream_window.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/net/streams/mapped_memory.hpp>
#include <cordma/net/streams/staging_ring.hpp>
#include <cordma/net/transport/checked_state.hpp>
#include <cordma/runtime/event.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::detail {

// State of the end of this side's output.
enum class own_end : std::uint8_t {
  open,
  due,    // shutdown_send() was called
  said,   // the notification of the end is posted, behind all written bytes
  there,  // the notification has arrived at the peer
};
[[nodiscard]] constexpr bool operator>>(own_end from, own_end to) noexcept {
  return static_cast<int>(to) == static_cast<int>(from) + 1;
}

// Written bytes go to the peer's ring: during the call, if the transport supports it; otherwise, if
// they must be copied first, through a ring on this side. Bound to the thread of its Worker.
//   stream_core.cpp        receiving, reading, the end
//   stream_core_write.cpp  notifications and writing
class stream_core {
 public:
  stream_core(const Context& context, Endpoint connected, const stream_options& options);
  stream_core(const stream_core&) = delete;
  stream_core& operator=(const stream_core&) = delete;
  ~stream_core();

  // Posts the receives and sends hello; done when the peer's hello has arrived.
  [[nodiscard]] task<void> start();

  void read(stream_read_operation& op) noexcept;
  void write(stream_write_operation& op) noexcept;
  // The operation was moved or destroyed while parts of it were in flight.
  void moved(const stream_write_operation& from, stream_write_operation& to) noexcept;
  void left(const stream_write_operation& op) noexcept;
  [[nodiscard]] std::span<const std::byte> peek() const noexcept;
  void consume(std::size_t bytes) noexcept;
  [[nodiscard]] result<std::uint32_t> map(const MemoryRegion& memory);
  [[nodiscard]] result<RemoteSlice> mapped(std::uint32_t number, std::uint64_t offset,
                                           std::uint64_t bytes) const;
  [[nodiscard]] result<void> shutdown_send() noexcept;
  // True if everything that was started has been posted, and has completed.
  [[nodiscard]] bool drained() const noexcept;
  // The cause of the connection's end, if some data had not arrived at the peer by then. Call it
  // after that end.
  [[nodiscard]] std::optional<failure> loss() const noexcept;
  // Null once the Worker is destroyed.
  [[nodiscard]] reactor* home() noexcept { return endpoint_.core().home(); }
  [[nodiscard]] Endpoint& endpoint() noexcept { return endpoint_; }
  // Expires with the Stream: code that awaits an operation of the endpoint checks it afterwards.
  [[nodiscard]] std::weak_ptr<const char> life() const noexcept { return life_; }
  // Done when a condition of start() or close() may have changed.
  [[nodiscard]] auto next_change() noexcept {
    changed_.reset();
    return changed_.wait();
  }
  [[nodiscard]] bool has_ended() const noexcept { return ended_.has_value(); }
  // A flush is done: all written bytes are in the peer's memory.
  void note_all_seen() noexcept { all_seen_ = true; }
  // Sends pending notifications and data, as far as there is space.
  void pump() noexcept {
    if (!writers_.empty() || is_word_due()) pump_slowly();
  }
  // True if an operation can be started on this thread; and the reason if not. The latter REQUIRES
  // that none can.
  [[nodiscard]] bool is_in_place() noexcept {
    const reactor* const at = home();
    return at != nullptr && at->on_owner_thread();
  }
  [[nodiscard]] failure out_of_place() noexcept;

  // A notification without data: the window, the end, or mapped memory. Little-endian:
  // offset 0 u32 kind, 4 u32 number, 8 u64 consumed, 16 u64 given, 24 a blob of 64 bytes.
  enum class word : std::uint32_t { hello = 1, window = 2, end = 3, mapped = 4 };
  static constexpr std::size_t word_bytes = 24 + RemoteMemory::blob_bytes;
  static constexpr std::size_t room_bytes = 128;  // of a receive, and of an outgoing notification
  static constexpr std::uint32_t version = 1;
  static_assert(word_bytes == 24 + 64 && RemoteMemory::blob_bytes == 64, "the layout above");
  static_assert(word_bytes <= room_bytes);
  static_assert(room_bytes % 64 == 0, "words that come and words that go share no cache line");
  static_assert(static_cast<std::uint32_t>(word::mapped) == 4, "said by peers of other builds");

 private:
  struct incoming {
    stream_core* core = nullptr;
    Slice room;
    std::optional<recv_operation> op;
  };
  struct outgoing {
    stream_core* core = nullptr;
    Slice room;          // memory of a notification
    MemoryRegion keeps;  // for a destroyed write; otherwise `op` pins it
    std::optional<send_operation> op;
    stream_write_operation* for_op = nullptr;
    std::uint64_t staged = 0;  // bytes that were copied for it
    std::uint64_t bytes = 0;   // of the stream
    bool is_end = false;
    bool busy = false;
  };
  // The output to the peer, once its hello has arrived.
  struct outlet {
    [[nodiscard]] RemoteSlice part(std::uint64_t at, std::uint64_t bytes) const noexcept {
      return RemoteSlice(ring.addr() + at, bytes, ring.keys());
    }
    // Number of the waiting bytes that can be written to `at` now. A write is sent in pieces, so
    // that the reader works meanwhile.
    [[nodiscard]] std::uint64_t piece(std::uint64_t at, std::uint64_t bytes) const noexcept {
      constexpr std::uint64_t pieces = 4;  // of a window
      const std::uint64_t most = std::max<std::uint64_t>(ring.size() / pieces, 1);
      return std::min({bytes, flow.room(), ring.size() - at, most});
    }
    protocol::stream_sender flow;
    RemoteSlice ring;
    staging_ring staged;
  };

  void expect(incoming& in) noexcept;
  void on_received(incoming& in) noexcept;
  // These throw std::bad_alloc.
  void take(incoming& in);
  void on_word(std::span<const std::byte> text);
  void on_hello(std::span<const std::byte> text);
  void say_what_is_due();
  void on_sent(outgoing& out) noexcept;
  [[nodiscard]] outgoing* free_outgoing() noexcept;
  void launch(outgoing& out) noexcept;
  void say(outgoing& out, word what, std::uint32_t number,
           std::span<const std::byte> blob) noexcept;
  // True if the operation is done.
  [[nodiscard]] bool write_now(stream_write_operation& op) noexcept;
  // True if the transport may write to the peer's ring during the call.
  [[nodiscard]] bool may_put() noexcept {
    const endpoint_core& e = endpoint_.core();
    return e.posts_now() && e.is_open_to(transport::opcode::write_imm);
  }
  [[nodiscard]] bool put(stream_write_operation& op) noexcept;
  [[nodiscard]] bool put(std::span<const std::byte> bytes, const Slice& registered,
                         std::uint64_t at) noexcept;
  void pump_slowly() noexcept;
  // True if a notification is due; it is sent before data.
  [[nodiscard]] bool is_word_due() const noexcept {
    return reader_.has_to_tell() || mapped_.has_unsaid() || own_end_ == own_end::due ||
           !hello_said_;
  }
  [[nodiscard]] bool is_writable() const noexcept {
    return own_end_ == own_end::open && !ended_ && endpoint_.state() == endpoint_state::connected;
  }
  // REQUIRES !is_writable().
  [[nodiscard]] failure why_not() const noexcept;
  void serve_readers() noexcept;
  [[nodiscard]] bool fill(stream_read_operation& op) noexcept;
  void finish(stream_read_operation& op) noexcept;
  void serve_first() noexcept;
  [[nodiscard]] bool is_over() const noexcept { return end_heard_ && reader_.available() == 0; }
  void end(failure why) noexcept;
  void broken(const char* what) noexcept;
  void out_of_memory() noexcept;

  [[nodiscard]] failure first_cause_or(failure other) const noexcept;

  Context context_;
  Endpoint endpoint_;
  stream_options options_;
  MemoryRegion ring_;   // written by the peer
  MemoryRegion rooms_;  // memory of receives and of notifications
  protocol::stream_reader reader_;
  std::optional<outlet> to_peer_;
  // Declared after the memory that they refer to, so that they are destroyed first.
  std::vector<incoming> receives_;
  std::vector<outgoing> sends_;
  std::uint64_t there_ = 0;  // bytes that have arrived at the peer
  mapped_memory mapped_;
  list<stream_read_operation> readers_;
  stream_read_operation* served_ = nullptr;  // resumes when on_received() returns
  list<stream_write_operation> writers_;
  event changed_;
  std::optional<failure> ended_;
  std::uint32_t expected_ = 0;  // posted receives
  std::shared_ptr<const char> life_ = std::make_shared<const char>();
  transport::checked_state<own_end> own_end_{own_end::open};
  bool hello_said_ = false;
  bool all_seen_ = false;   // all bytes before this side's end are in the peer's memory
  bool cut_short_ = false;  // the connection ended before all data was posted
  bool end_heard_ = false;
  bool pumping_ = false;
};

}  // namespace cordma::detail
