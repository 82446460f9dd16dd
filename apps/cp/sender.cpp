#include "sender.hpp"

#include "../support/op_ring.hpp"

#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

namespace {

constexpr std::uint32_t largest_small = 128U << 10;  // bytes of a file that goes in a bundle
constexpr std::size_t most_in_bundle = 512;          // files

bool is_as_found(const entry& e, const struct stat& s) noexcept {
  return static_cast<std::uint64_t>(s.st_size) == e.size && s.st_mtim.tv_sec == e.modified.s &&
         static_cast<std::uint32_t>(s.st_mtim.tv_nsec) == e.modified.ns;
}

constexpr const char* changed_meanwhile = "it changed while it was read";

}  // namespace

struct sender::outgoing {
  std::uint32_t number = 0;
  const entry* what = nullptr;
  cordma::unique_fd fd;
  std::uint64_t left = 0;  // chunks that are not at the receiver
  bool ended = false;      // that nothing more comes of it has been said
  file_end::how how = file_end::how::whole;
  std::string why;
};

sender::sender(cordma::Context& context, cordma::Worker& worker, file_ring& files,
               std::vector<std::unique_ptr<lane>>& lanes, scanner& sources,
               const transfer_options& options, progress& shown, const item_sink& tell)
    : worker_(worker),
      files_(files),
      lanes_(lanes),
      sources_(sources),
      options_(options),
      progress_(shown),
      tell_(tell),
      memory_(lanes.size()) {
  const std::size_t count =
      std::clamp<std::size_t>(options.memory_bytes / options.chunk_bytes, 2, most_slots);
  pool_ = context.allocate(count * options.chunk_bytes).value();
  files_.register_memory(pool_.bytes());
  for (std::size_t i = 0; i < count; ++i) {
    buffers_.push_back(pool_.all().part(i * options.chunk_bytes, options.chunk_bytes));
  }
}

sender::~sender() = default;

task<outcome> sender::run() {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  scope_ = &all;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    all.spawn(read_lane(i));
    all.spawn(lanes_[i]->write_out());
  }
  all.spawn(list());
  all.spawn(feed());
  co_await all.join();
  for (const std::unique_ptr<lane>& l : lanes_) co_await l->stream().close();
  co_return std::move(result_);
}

task<void> sender::read_lane(std::uint32_t number) {
  lane& l = *lanes_[number];
  for (;;) {
    const bool more = co_await l.next();
    if (!more) break;
    frame_reader in = l.frame();
    take(in, number);
  }
  if (!finished_) {
    cordma::throw_error(
        {cordma::errc::connection_reset, "the receiver went before it had finished"});
  }
}

// All that is found, as it is found.
task<void> sender::list() {
  constexpr std::size_t at_a_time = 256;
  constexpr std::size_t enough = 512U << 10;  // bytes of a frame
  lane& l = *lanes_.front();
  std::vector<entry> found;
  bool more = true;
  while (more) {
    found.clear();
    more = sources_.next(at_a_time, found);
    for (std::size_t i = 0; i < found.size();) {
      frame_writer out(l.out(), frame_kind::entries);
      while (i < found.size() && out.payload() < enough) {
        encode(out, found[i]);
        if (found[i].kind == entry_kind::file) {
          ++progress_.files_found;
          progress_.bytes_found += found[i].size;
        }
        entries_.push_back(std::move(found[i++]));
      }
    }
    std::vector<problem> problems = sources_.take_problems();
    for (const problem& p : problems) {
      frame_writer out(l.out(), frame_kind::problems);
      encode(out, p);
    }
    std::ranges::move(problems, std::back_inserter(result_.problems));
    l.kick();
    co_await l.room();
    co_await cordma::yield();
  }
  progress_.all_found = true;
  frame_writer(l.out(), frame_kind::entries_end).u64(entries_.size());
  l.kick();
}

void sender::take(frame_reader& in, std::uint32_t lane) {
  switch (in.kind()) {
    case frame_kind::memory: return take_memory(in, lane);
    case frame_kind::credit: return take_credit(in, lane);
    case frame_kind::wants:
      while (!in.empty()) {
        want w = decode_want(in);
        const entry& e = file_of(in, w.file);
        if (!w.here.empty() && w.here.size() != (chunks_of(e) + 7) / 8) {
          refuse(in.kind(), "chunks that are not of that file");
        }
        jobs_.push_back({std::move(w)});
      }
      job_here_.set();
      return;
    case frame_kind::again: return take_again(in);
    case frame_kind::problems:
      while (!in.empty()) result_.problems.push_back(decode_problem(in));
      return;
    case frame_kind::items:
      while (!in.empty()) tell_(decode_item(in));
      return;
    case frame_kind::finished: return take_finished(in);
    case frame_kind::refusal:
      cordma::throw_error({cordma::errc::rejected, "the other side: " + in.text()});
    default: refuse(in.kind(), "no place in what a receiver says");
  }
}

void sender::take_memory(frame_reader& in, std::uint32_t lane) {
  const slot_memory m = decode_memory(in);
  if (memory_[lane]) refuse(in.kind(), "memory for a lane that has its own");
  if (m.slot_bytes < options_.chunk_bytes) refuse(in.kind(), "slots shorter than a chunk");
  memory_[lane] = m;
  for (std::uint32_t i = 0; i < m.slots; ++i) free_.push_back({lane, i});
  place_here_.set();
}

void sender::take_credit(frame_reader& in, std::uint32_t lane) {
  if (!memory_[lane]) refuse(in.kind(), "a slot of no memory");
  while (!in.empty()) {
    const std::uint32_t slot = in.u32();
    if (slot >= memory_[lane]->slots) refuse(in.kind(), "a slot that there is not");
    free_.push_back({lane, slot});
  }
  if (free_.size() > std::size_t{most_slots} * most_lanes)
    refuse(in.kind(), "more slots than there are");
  place_here_.set();
}

void sender::take_again(frame_reader& in) {
  job j;
  j.what.file = in.u32();
  j.index = in.u64();
  const std::uint64_t digest = in.u64();
  in.end();
  j.again = true;
  if (j.index >= chunks_of(file_of(in, j.what.file)))
    refuse(in.kind(), "a chunk that there is not");
  sent_.take_back(j.what.file, j.index, digest);
  jobs_.push_back(std::move(j));
  job_here_.set();
}

void sender::take_finished(frame_reader& in) {
  result_.done = decode_tally(in);
  if (result_.done.manifest != sent_.sum()) {
    result_.problems.push_back(
        {problem::kind::failed, ".", "what arrived is not what was sent: the manifests differ"});
  }
  finished_ = true;
  frame_writer(lanes_.front()->out(), frame_kind::all_sent).u64(sent_.sum());
  for (const std::unique_ptr<lane>& l : lanes_) l->finish();
  job_here_.set();
}

const entry& sender::file_of(frame_reader& in, std::uint32_t number) const {
  if (number >= entries_.size() || entries_[number].kind != entry_kind::file) {
    refuse(in.kind(), "a file that there is not");
  }
  return entries_[number];
}

std::uint64_t sender::chunks_of(const entry& e) const noexcept {
  return (e.size + options_.chunk_bytes - 1) / options_.chunk_bytes;
}

std::uint32_t sender::bytes_of(const entry& e, std::uint64_t index) const noexcept {
  const std::uint64_t begin = index * options_.chunk_bytes;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.chunk_bytes, e.size - begin));
}

// What is wanted, in the order in which it is.
task<void> sender::feed() {
  bundle small;
  std::uint64_t small_bytes = 0;
  while (!finished_) {
    if (jobs_.empty() && !small.empty()) {
      bundle full = std::exchange(small, bundle());
      co_await start_bundle(std::move(full));
      small_bytes = 0;
      continue;
    }
    if (jobs_.empty()) {
      co_await job_here_.wait();
      continue;
    }
    job j = std::move(jobs_.front());
    jobs_.pop_front();
    if (j.again) {
      co_await send_again(j.what.file, j.index);
      continue;
    }
    const entry& e = entries_[j.what.file];
    if (e.size > largest_small || e.size > options_.chunk_bytes) {
      co_await send_file(std::move(j.what));
      continue;
    }
    if (small_bytes + e.size > options_.chunk_bytes || small.size() == most_in_bundle) {
      bundle full = std::exchange(small, bundle());
      co_await start_bundle(std::move(full));
      small_bytes = 0;
    }
    small_bytes += e.size;
    open_small(small, std::move(j.what));
  }
}

// Null where it cannot be read, which is said then.
std::shared_ptr<sender::outgoing> sender::open(std::uint32_t file) {
  auto f = std::make_shared<outgoing>();
  f->number = file;
  f->what = &entries_[file];
  const int fd = sources_.open(*f->what, 0);
  if (fd < 0) {
    const auto how = fd == -ENOENT ? file_end::how::vanished : file_end::how::failed;
    end_file(file, how, std::strerror(-fd));
    return nullptr;
  }
  f->fd.reset(fd);
  struct stat now{};
  if (::fstat(fd, &now) != 0 || !is_as_found(*f->what, now)) {
    end_file(file, file_end::how::changed, changed_meanwhile);
    return nullptr;
  }
  return f;
}

task<void> sender::send_file(want w) {
  std::shared_ptr<outgoing> f = open(w.file);
  if (!f) co_return;
  const entry& e = *f->what;
  const std::uint64_t chunks = chunks_of(e);
  const auto is_there = [&w](std::uint64_t i) {
    return !w.here.empty() && (w.here[i / 8] >> i % 8 & 1) != 0;
  };
  for (std::uint64_t i = 0; i < chunks; ++i) f->left += is_there(i) ? 0U : 1U;
  if (f->left == 0) conclude(*f);
  // Where the next data begins: what is before it is a hole.
  const bool has_holes = e.allocated < e.size;
  std::uint64_t data_at = 0;
  for (std::uint64_t i = 0; i < chunks; ++i) {
    if (is_there(i)) continue;
    const std::uint64_t begin = i * options_.chunk_bytes;
    if (has_holes && data_at <= begin) {
      const off_t at = ::lseek(f->fd.get(), static_cast<off_t>(begin), SEEK_DATA);
      data_at = at >= 0 ? static_cast<std::uint64_t>(at) : e.size;
      if (at < 0 && errno != ENXIO) data_at = begin;
    }
    if (has_holes && data_at >= begin + bytes_of(e, i)) {
      send_hole(*f, i);
      co_await lanes_.front()->room();
    } else {
      co_await start_chunk(f, i);
    }
  }
}

task<void> sender::send_again(std::uint32_t file, std::uint64_t index) {
  std::shared_ptr<outgoing> f = open(file);
  if (!f) co_return;
  f->left = 1;
  f->ended = true;  // the receiver knows
  co_await start_chunk(f, index);
}

task<void> sender::start_chunk(std::shared_ptr<outgoing> f, std::uint64_t index) {
  co_await pace(bytes_of(*f->what, index));
  const place to = co_await free_place();
  const cordma::Slice buffer = co_await free_buffer();
  scope_->spawn(send_chunk(std::move(f), index, to, buffer));
}

task<void> sender::send_chunk(std::shared_ptr<outgoing> f, std::uint64_t index, place to,
                              cordma::Slice buffer) {
  const std::uint32_t bytes = bytes_of(*f->what, index);
  const cordma::Slice part = buffer.first(bytes);
  int got = f->how == file_end::how::whole ? 0 : -ECANCELED;
  if (got == 0) got = co_await read_whole(f->fd.get(), part.bytes(), index * options_.chunk_bytes);
  if (got != static_cast<int>(bytes)) {
    if (f->how == file_end::how::whole) {
      f->how = got < 0 ? file_end::how::failed : file_end::how::changed;
      f->why = got < 0 ? std::strerror(-got) : changed_meanwhile;
    }
    free_.push_back(to);
    place_here_.set();
    give_back(buffer);
  } else {
    const std::uint64_t digest = digest_of(part.bytes());
    sent_.add(f->number, index, digest);
    lane& l = *lanes_[to.lane];
    slot_write written = put(to, part);
    encode(l.out(), chunk_frame{f->number, to.slot, index, bytes, 0, digest});
    l.kick();
    progress_.bytes_moved += bytes;
    co_await written.done();
    give_back(buffer);
  }
  if (--f->left == 0) conclude(*f);
}

void sender::send_hole(outgoing& f, std::uint64_t index) {
  lane& l = *lanes_.front();
  encode(l.out(), chunk_frame{f.number, 0, index, bytes_of(*f.what, index), 1, 0});
  l.kick();
  sent_.add(f.number, index, 0);
  if (--f.left == 0) conclude(f);
}

// What is open is not exchanged any more; it is read when the bundle is.
void sender::open_small(bundle& b, want w) {
  const std::shared_ptr<outgoing> f = open(w.file);
  if (!f) return;
  small_file s;
  s.file = w.file;
  s.bytes = static_cast<std::uint32_t>(f->what->size);
  s.fd = std::move(f->fd);
  b.push_back(std::move(s));
}

task<void> sender::start_bundle(bundle b) {
  if (b.empty()) co_return;
  std::uint64_t bytes = 0;
  for (const small_file& s : b) bytes += s.bytes;
  co_await pace(bytes);
  const place to = co_await free_place();
  const cordma::Slice buffer = co_await free_buffer();
  scope_->spawn(send_bundle(std::move(b), to, buffer));
}

task<void> sender::send_bundle(bundle b, place to, cordma::Slice buffer) {
  support::op_ring<file_operation> reading(static_cast<std::uint32_t>(b.size()));
  std::size_t at = 0;
  for (const small_file& s : b) {
    const std::span<std::byte> into = buffer.bytes().subspan(at, s.bytes);
    reading.start([&] { return files_.read(s.fd.get(), into, 0); });
    at += s.bytes;
  }
  for (small_file& s : b) {
    file_operation& oldest = reading.oldest();
    const cordma::result<int> got = co_await oldest.result();
    reading.pop();
    struct stat now{};
    if (!got) {
      s.error = got.why().os_errno();
    } else if (static_cast<std::uint32_t>(got.value()) != s.bytes ||
               ::fstat(s.fd.get(), &now) != 0 || !is_as_found(entries_[s.file], now)) {
      s.error = ESTALE;
    }
    s.fd.reset();
  }
  // Those that could not be read leave no gap.
  bundle_frame frame;
  frame.slot = to.slot;
  std::size_t from = 0;
  std::size_t end = 0;
  for (const small_file& s : b) {
    if (s.error == 0) {
      const std::span<std::byte> bytes = buffer.bytes();
      if (from != end) std::memmove(bytes.data() + end, bytes.data() + from, s.bytes);
      frame.files.push_back({s.file, s.bytes});
      sent_.add(s.file, 0, s.bytes);
      end += s.bytes;
    } else {
      const bool changed = s.error == ESTALE;
      end_file(s.file, changed ? file_end::how::changed : file_end::how::failed,
               changed ? changed_meanwhile : std::strerror(s.error));
    }
    from += s.bytes;
  }
  const cordma::Slice part = buffer.first(end);
  frame.digest = digest_of(part.bytes());
  lane& l = *lanes_[to.lane];
  slot_write written = put(to, part);
  encode(l.out(), frame);
  l.kick();
  progress_.bytes_moved += end;
  progress_.bytes_done += end;
  progress_.files_done += frame.files.size();
  co_await written.done();
  give_back(buffer);
}

// The frame that tells of it may follow at once.
slot_write sender::put(place to, const cordma::Slice& bytes) {
  if (flip_every_ != 0 && ++put_ % flip_every_ == 0 && bytes.size() != 0) {
    bytes.data()[bytes.size() / 2] ^= std::byte{1};
  }
  const slot_memory& m = *memory_[to.lane];
  const std::uint64_t at = m.offset + std::uint64_t{to.slot} * m.slot_bytes;
  return slot_write(*lanes_[to.lane], m, at, bytes);
}

// Bytes read, fewer only at the file's end; or a negative errno.
task<int> sender::read_whole(int fd, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < into.size()) {
    const std::span<std::byte> rest = into.subspan(done);
    file_operation reading = files_.read(fd, rest, offset + done);
    const cordma::result<int> got = co_await reading.result();
    if (!got && got.why().os_errno() == EINTR) continue;
    if (!got) co_return -got.why().os_errno();
    if (got.value() == 0) break;
    done += static_cast<std::size_t>(got.value());
  }
  co_return static_cast<int>(done);
}

task<sender::place> sender::free_place() {
  while (free_.empty()) co_await place_here_.wait();
  const place p = free_.front();
  free_.pop_front();
  co_return p;
}

task<cordma::Slice> sender::free_buffer() {
  while (buffers_.empty()) co_await buffer_here_.wait();
  const cordma::Slice s = buffers_.back();  // the one that was used last may still be in the cache
  buffers_.pop_back();
  co_return s;
}

void sender::give_back(const cordma::Slice& buffer) {
  buffers_.push_back(buffer);
  buffer_here_.set();
}

task<void> sender::pace(std::uint64_t bytes) {
  if (options_.bytes_per_s == 0) co_return;
  const cordma::time_point now = worker_.loop().now();
  next_ = std::max(next_, now);
  const double s = static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_s);
  const cordma::time_point when = next_;
  next_ += std::chrono::duration_cast<cordma::duration>(std::chrono::duration<double>(s));
  if (when > now) co_await cordma::sleep_until(when);
}

// Nothing of it is left to be sent.
void sender::conclude(outgoing& f) {
  struct stat now{};
  if (f.how == file_end::how::whole &&
      (::fstat(f.fd.get(), &now) != 0 || !is_as_found(*f.what, now))) {
    f.how = file_end::how::changed;
    f.why = changed_meanwhile;
  }
  if (f.ended && f.how == file_end::how::whole) return;
  end_file(f.number, f.how, f.why);
  ++progress_.files_done;
  progress_.bytes_done += f.what->size;
}

void sender::end_file(std::uint32_t file, file_end::how how, const std::string& why) {
  encode(lanes_.front()->out(), file_end{file, how, why});
  lanes_.front()->kick();
}

}  // namespace copy
