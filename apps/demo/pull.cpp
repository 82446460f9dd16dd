#include "../support/op_ring.hpp"
#include "../support/status_line.hpp"
#include "protocol.hpp"
#include "transfer.hpp"

#include <array>
#include <chrono>
#include <cstdio>

namespace demo {
namespace {

using seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

// Updates the line at most ten times a second.
class meter {
 public:
  meter(show_progress show, std::uint64_t of) noexcept : show_(show), of_(of == 0 ? 1 : of) {}
  void at(std::uint64_t bytes) {
    if (show_ == show_progress::silent) return;
    const auto now = steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double share = static_cast<double>(bytes) / static_cast<double>(of_);
    const double rate = static_cast<double>(bytes) / 1e6 / seconds(now - began_).count();
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "  %3.0f %%, %.0f MB/s", share * 100, rate);
    line_.show(text.data());
  }

 private:
  show_progress show_;
  std::uint64_t of_;
  steady_clock::time_point began_ = steady_clock::now();
  steady_clock::time_point last_ = began_;
  support::status_line line_;
};

// Reads the filled windows of the server, and writes them to files in their order.
class window_reader {
 public:
  window_reader(cordma::Context& context, cordma::Endpoint& server, const windows& shape)
      : server_(server),
        shape_(shape),
        remote_(cordma::RemoteMemory::import(shape.blob).value()),
        local_(context.allocate(std::size_t{shape.count} * shape.bytes).value()),
        messages_(context, longest_message, shape.count + 2),
        arriving_(shape.count + 1),
        reading_(shape.count),
        filled_(shape.count) {
    listen();
  }

  // Returns the server's next message. If it announces a filled window, the read of that window is
  // started at once.
  cordma::task<cordma::Message> next_message() {
    auto& oldest = arriving_.oldest();
    cordma::Message got = co_await oldest;
    arriving_.pop();
    listen();
    co_return got;
  }
  [[nodiscard]] bool message_is_here() noexcept { return arriving_.oldest().done(); }

  void start_reading(reader& message) {
    const std::uint32_t index = message.u32();
    const std::uint32_t bytes = message.u32();
    if (index >= shape_.count || bytes > shape_.bytes || reading_.full()) {
      cordma::throw_error({cordma::errc::invalid_value, "the server speaks of no window it has"});
    }
    const std::size_t offset = std::size_t{index} * shape_.bytes;
    const cordma::RemoteSlice from = remote_.slice(offset, bytes).value();
    const cordma::Slice into = local_.slice(offset, bytes).value();
    reading_.start([&] { return server_.read(from, into); });
    filled_[newest_] = full_window{index, into};
    newest_ = (newest_ + 1) % shape_.count;
  }
  [[nodiscard]] seconds writing() const noexcept { return writing_; }
  [[nodiscard]] bool idle() const noexcept { return reading_.empty(); }

  // Completes the oldest read, passes its bytes on, and returns the window to the server.
  cordma::task<std::size_t> take(tree_writer& into) {
    auto& oldest = reading_.oldest();
    co_await oldest;
    reading_.pop();
    const full_window w = filled_[oldest_];
    oldest_ = (oldest_ + 1) % shape_.count;
    writer free(message_kind::window_free);
    free.u32(w.index);
    cordma::send_operation told = server_.send_inline(free.done());
    // The bytes are local now: the server may fill its window again while they are written to
    // files.
    told.start();
    const auto began = steady_clock::now();
    into.write(w.bytes.data(), w.bytes.size());
    writing_ += steady_clock::now() - began;
    co_await told;
    co_return w.bytes.size();
  }

 private:
  struct full_window {
    std::uint32_t index = 0;
    cordma::Slice bytes;
  };
  void listen() {
    while (!arriving_.full()) {
      arriving_.start([&] { return server_.recv(messages_); });
    }
  }

  cordma::Endpoint& server_;
  windows shape_;
  cordma::RemoteMemory remote_;
  cordma::MemoryRegion local_;
  cordma::BufferPool messages_;
  support::op_ring<cordma::message_operation> arriving_;
  support::op_ring<cordma::send_operation> reading_;
  std::vector<full_window> filled_;
  std::size_t oldest_ = 0;
  std::size_t newest_ = 0;
  seconds writing_{0};
};

cordma::task<std::uint64_t> take_list(window_reader& from, pulled& result) {
  for (;;) {
    const cordma::Message got = co_await from.next_message();
    reader in(got.bytes());
    const auto kind = static_cast<message_kind>(in.u8());
    if (kind == message_kind::list_end) {
      const std::uint64_t total = in.u64();
      co_return total;
    }
    if (kind == message_kind::list_part) {
      while (!in.empty()) result.entries.push_back(decode_entry(in));
    } else if (kind == message_kind::left_out_part) {
      while (!in.empty()) result.left_out.push_back(decode_omission(in));
    } else {
      cordma::throw_error({cordma::errc::invalid_value, "the server broke off its list"});
    }
  }
}

cordma::task<void> take_contents(window_reader& from, tree_writer& into, meter& progress,
                                 pulled& result) {
  bool more = true;
  while (more || !from.idle()) {
    // Reads start as soon as windows are announced; files are written meanwhile.
    if (more && (from.idle() || from.message_is_here())) {
      const cordma::Message got = co_await from.next_message();
      reader in(got.bytes());
      const auto kind = static_cast<message_kind>(in.u8());
      if (kind == message_kind::window_filled) {
        from.start_reading(in);
        ++result.reads;
      } else if (kind == message_kind::stream_end) {
        result.changed = in.u32();
        more = false;
      } else {
        cordma::throw_error({cordma::errc::invalid_value, "the server broke off its contents"});
      }
      continue;
    }
    const std::size_t bytes = co_await from.take(into);
    result.bytes += bytes;
    progress.at(result.bytes);
  }
}

}  // namespace

cordma::task<pulled> pull_tree(cordma::Context& context, cordma::Worker& worker,
                               std::string address, cordma::connect_options options,
                               std::filesystem::path target, show_progress show) {
  pulled result;
  const auto began = steady_clock::now();
  cordma::Endpoint server = co_await worker.connect(std::move(address), options);
  result.transport = cordma::transport::name(server.transport());
  result.reason = server.transport_reason();
  const windows shape = decode_windows(server.peer_data());
  window_reader from(context, server, shape);
  const std::uint64_t total = co_await take_list(from, result);
  tree_writer into(std::move(target), result.entries);
  meter progress(show, total);
  co_await take_contents(from, into, progress, result);
  into.finish();
  result.seconds = seconds(steady_clock::now() - began).count();
  result.writing_s = from.writing().count();
  co_await server.close();
  co_return result;
}

}  // namespace demo
