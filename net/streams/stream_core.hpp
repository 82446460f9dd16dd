// What stands behind a Stream: two rings, the requests of both directions, and who waits.
#pragma once

#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/protocol/stream_window.hpp>
#include <cordma/net/stream.hpp>
#include <cordma/runtime/event.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cordma::detail {

// What is written goes into the peer's ring; where it is copied first, by way of a ring here, `staged`.
struct stream_core {
  stream_core(const Context& context, Endpoint connected, const stream_options& options);
  stream_core(const stream_core&) = delete;
  stream_core& operator=(const stream_core&) = delete;
  ~stream_core();

  // Posts the receives and says hello; done when the peer has said it too.
  [[nodiscard]] task<void> start();

  void read(stream_read_operation& op) noexcept;
  void write(stream_write_operation& op) noexcept;
  // It is somewhere else, or gone, while parts of it are under way.
  void moved(const stream_write_operation& from, stream_write_operation& to) noexcept;
  void left(const stream_write_operation& op) noexcept;
  [[nodiscard]] std::span<const std::byte> peek() const noexcept;
  void consume(std::size_t bytes) noexcept;
  [[nodiscard]] result<std::uint32_t> map(const MemoryRegion& memory);
  [[nodiscard]] result<RemoteSlice> mapped(std::uint32_t number, std::uint64_t offset,
                                           std::uint64_t bytes) const;
  [[nodiscard]] result<void> shutdown_send() noexcept;
  // Whether all that was started has been posted, and has come to its end.
  [[nodiscard]] bool drained() const noexcept;
  // What the connection ended for, where not all of it was at the peer by then. After that end.
  [[nodiscard]] std::optional<failure> loss() const noexcept;
  // Null once the Worker is gone.
  [[nodiscard]] reactor* home() noexcept { return endpoint.core().home; }
  // Why nothing can be started: on this thread, or any more.
  [[nodiscard]] std::optional<failure> out_of_place() noexcept;
  // Why nothing can be written any more.
  [[nodiscard]] std::optional<failure> why_not() const noexcept;

  // A word that is no data: the window, the end, or memory that is mapped. Little-endian:
  // offset 0 u32 kind, 4 u32 number, 8 u64 consumed, 16 u64 given, 24 a blob of 64 bytes.
  enum class word : std::uint32_t { hello = 1, window = 2, end = 3, mapped = 4 };
  static constexpr std::size_t word_bytes = 24 + RemoteMemory::blob_bytes;
  static constexpr std::size_t room_bytes = 128;  // of a receive, and of a word that goes out
  static constexpr std::uint32_t version = 1;
  static constexpr std::size_t most_mapped = 16;
  static_assert(word_bytes == 24 + 64 && RemoteMemory::blob_bytes == 64, "the layout above");
  static_assert(word_bytes <= room_bytes);
  static_assert(room_bytes % 64 == 0, "words that come and words that go share no cache line");
  static_assert(static_cast<std::uint32_t>(word::mapped) == 4, "said by peers of other builds");

  struct incoming {
    stream_core* core = nullptr;
    Slice room;
    std::optional<recv_operation> op;
  };
  struct outgoing {
    stream_core* core = nullptr;
    Slice room;          // where a word lies
    MemoryRegion keeps;  // where the write that `op` carries was destroyed; `op` pins it as it goes
    std::optional<send_operation> op;
    stream_write_operation* for_op = nullptr;
    std::uint64_t staged = 0;  // bytes that were copied for it
    std::uint64_t bytes = 0;   // of the stream
    bool is_end = false;
    bool busy = false;
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
  void launch(outgoing& out, send_operation op) noexcept;
  void say(outgoing& out, word what, std::uint32_t number,
           std::span<const std::byte> blob) noexcept;
  // Says and writes what waits, as far as there is room.
  void pump() noexcept;
  [[nodiscard]] bool write_now(stream_write_operation& op) noexcept;
  [[nodiscard]] Slice stage(outgoing& out, std::span<const std::byte> bytes) noexcept;
  void serve_readers() noexcept;
  void end(failure why) noexcept;
  void broken(const char* what) noexcept;
  void out_of_memory() noexcept;

  Context context;
  Endpoint endpoint;
  stream_options options;
  MemoryRegion ring;    // the peer writes here
  MemoryRegion staged;  // what was copied, until it has been written there
  MemoryRegion rooms;   // of receives and of words
  std::vector<incoming> receives;
  std::vector<outgoing> sends;
  protocol::stream_reader reader;
  std::optional<protocol::stream_sender> sender;  // once the peer has said its window
  RemoteSlice peer_ring;
  std::uint64_t peer_window = 0;
  std::uint64_t staged_at = 0;     // where the next bytes go
  std::uint64_t staged_bytes = 0;  // that are on their way
  std::uint64_t there = 0;         // bytes that the peer has
  std::vector<std::optional<RemoteMemory>> peer_mapped;
  std::vector<MemoryRegion> mine_mapped;
  std::size_t said_mapped = 0;
  list<stream_read_operation> readers;
  list<stream_write_operation> writers;
  event changed;  // set whenever something has happened that start() or close() may wait for
  std::optional<failure> ended;
  std::uint32_t expected = 0;  // receives that are posted
  // Who waits for something of the endpoint's may find the Stream gone.
  std::shared_ptr<const char> life = std::make_shared<const char>();
  bool hello_said = false;
  bool end_due = false;
  bool end_said = false;
  bool end_there = false;  // the peer has that
  bool all_seen = false;   // and all before it lies in its memory
  bool cut_short = false;  // the connection ended before all was posted that was to be
  bool end_heard = false;
  bool pumping = false;
  bool going = false;  // the Stream is being destroyed
};

}  // namespace cordma::detail
