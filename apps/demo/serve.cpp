#include "protocol.hpp"
#include "transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include <fcntl.h>
#include <unistd.h>

namespace demo {
namespace fs = std::filesystem;
namespace {

// The content of all files as one stream. Counts files that differ from their list entry. A file
// that became shorter is padded with zeros; additional bytes of a longer one are omitted.
class contents {
 public:
  contents(fs::path root, const std::vector<entry>& entries)
      : root_(std::move(root)), entries_(entries) {}

  // Fills `into` as far as bytes are left. Returns 0 at the end.
  [[nodiscard]] std::size_t fill(std::span<std::byte> into) {
    std::size_t filled = 0;
    while (filled < into.size() && open_next()) {
      const std::uint64_t left = entries_[next_].size - offset_;
      const auto part = into.subspan(filled, std::min<std::uint64_t>(left, into.size() - filled));
      read_exactly(part);
      filled += part.size();
      offset_ += part.size();
      if (offset_ == entries_[next_].size) close_current();
    }
    return filled;
  }
  [[nodiscard]] std::uint32_t changed() const noexcept { return changed_; }

 private:
  // Returns false if no non-empty file is left.
  bool open_next() {
    if (opened_) return true;
    for (; next_ < entries_.size() && entries_[next_].size == 0; ++next_) {
      if (entries_[next_].kind == entry_kind::file && !is_still(entries_[next_])) ++changed_;
    }
    if (next_ == entries_.size()) return false;
    fd_.reset(::open((root_ / entries_[next_].path).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    opened_ = true;
    offset_ = 0;
    return true;
  }
  [[nodiscard]] bool is_still(const entry& e) const {
    struct stat s{};
    return ::lstat((root_ / e.path).c_str(), &s) == 0 && is_as_found(e, s);
  }
  void close_current() {
    // Also checked by name: another file may have replaced it.
    struct stat s{};
    const entry& e = entries_[next_];
    const bool same = fd_ && ::fstat(fd_.get(), &s) == 0 && is_as_found(e, s) && is_still(e);
    if (!same) ++changed_;
    fd_.reset();
    opened_ = false;
    ++next_;
  }
  void read_exactly(std::span<std::byte> into) {
    std::size_t got = 0;
    while (got < into.size() && fd_) {
      const ssize_t n = ::read(fd_.get(), into.data() + got, into.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    std::memset(into.data() + got, 0, into.size() - got);
  }

  fs::path root_;
  const std::vector<entry>& entries_;
  std::size_t next_ = 0;
  std::uint64_t offset_ = 0;
  cordma::unique_fd fd_;
  bool opened_ = false;
  std::uint32_t changed_ = 0;
};

// One connection and its resources. Sends are few, so each is awaited.
class service {
 public:
  service(cordma::Context& context, cordma::Endpoint& client)
      : client_(client), messages_(context, longest_message, 2 + window_count) {}

  cordma::task<void> send(writer message) {
    cordma::Buffer buffer = messages_.take().value();
    const auto bytes = message.done();
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    co_await client_.send(std::move(buffer), bytes.size());
  }

  cordma::task<void> send_list(const scanned& tree) {
    co_await send_parts(message_kind::list_part, tree.entries);
    co_await send_parts(message_kind::left_out_part, tree.left_out);
    writer end(message_kind::list_end);
    end.u64(tree.bytes);
    co_await send(std::move(end));
  }

  // Fills free windows until the stream ends.
  cordma::task<void> send_contents(const cordma::MemoryRegion& memory, contents& stream) {
    std::vector<std::uint32_t> free(window_count);
    std::iota(free.rbegin(), free.rend(), 0U);
    std::uint32_t out = 0;  // windows in use by the client
    bool more = true;
    while (more || out != 0) {
      if (!more || free.empty()) {
        const std::uint32_t index = co_await next_free();
        free.push_back(index);
        --out;
        continue;
      }
      const cordma::Slice window =
          memory.all().part(std::size_t{free.back()} * window_bytes, window_bytes);
      const std::size_t bytes = stream.fill(window.bytes());
      more = bytes != 0;
      if (!more) continue;
      writer filled(message_kind::window_filled);
      filled.u32(free.back()).u32(static_cast<std::uint32_t>(bytes));
      co_await send(std::move(filled));
      free.pop_back();
      ++out;
    }
  }

 private:
  // Packs as many items as fit into each message.
  template <class Item>
  cordma::task<void> send_parts(message_kind kind, const std::vector<Item>& items) {
    std::size_t next = 0;
    while (next < items.size()) {
      writer part(kind);
      writer grown = part;
      for (; next < items.size(); ++next) {
        encode(grown, items[next]);
        if (grown.done().size() > longest_message) break;
        part = grown;
      }
      co_await send(std::move(part));
    }
  }
  cordma::task<std::uint32_t> next_free() {
    const cordma::Message got = co_await client_.recv(messages_);
    reader in(got.bytes());
    in.expect(message_kind::window_free);
    const std::uint32_t index = in.u32();
    if (index >= window_count) cordma::throw_error({cordma::errc::invalid_value, "no such window"});
    co_return index;
  }

  cordma::Endpoint& client_;
  cordma::BufferPool messages_;
};

}  // namespace

cordma::task<void> serve_tree(cordma::Context context, cordma::ConnectionRequest request,
                              fs::path root) {
  const scanned tree = scan(root);
  cordma::MemoryRegion memory =
      context
          .allocate(std::size_t{window_count} * window_bytes,
                    cordma::transport::access::remote_read | cordma::transport::access::local_write)
          .value();
  windows shape;
  shape.blob = memory.export_blob().value();
  shape.count = window_count;
  shape.bytes = window_bytes;
  const std::vector<std::byte> data = encode(shape);
  cordma::connect_options options;
  options.private_data = data;
  cordma::Endpoint client = co_await request.accept(options);
  service s(context, client);
  co_await s.send_list(tree);
  contents stream(root, tree.entries);
  co_await s.send_contents(memory, stream);
  writer end(message_kind::stream_end);
  end.u32(stream.changed());
  co_await s.send(std::move(end));
  co_await client.state_changed();  // the client closes when it has read everything
}

}  // namespace demo
