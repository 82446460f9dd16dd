#include "sender.hpp"

#include "../files/zeros.hpp"
#include "outgoing.hpp"

#include <cordma/runtime/sleep.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

namespace {

constexpr std::uint32_t largest_small = 128U << 10;  // size limit of a file in a bundle, in bytes
constexpr std::size_t most_in_bundle = 512;          // files

// Limit of open files: enough to keep io_uring busy. Most descriptors are left to the other side,
// which may be in this process, to connections, and to other clients.
std::size_t most_open_files() noexcept {
  constexpr rlim_t share = 4;
  constexpr rlim_t most = 2 * most_in_bundle;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return std::clamp<rlim_t>(limit.rlim_cur / share, 1, most);
}

}  // namespace

sender::sender(cordma::Context& context, cordma::Worker& worker, file_ring& files,
               std::vector<std::unique_ptr<lane>>& lanes, scanner& sources,
               const transfer_options& options, progress& shown, const item_sink& tell)
    : context_(context),
      worker_(worker),
      files_(files),
      walker_(worker.loop(), 1),
      crew_(worker.loop()),
      comparing_(2 * crew_.threads()),
      lanes_(lanes),
      pulse_(lanes, options.silence_s),
      sources_(sources),
      options_(options),
      progress_(shown),
      tell_(tell),
      memory_(lanes.size()),
      is_free_(lanes.size()),
      pools_(options, 1, cordma::access::local_write),
      most_open_(most_open_files()) {
  make_buffers(pools::few);
}

sender::~sender() {
  if (ledger_ != nullptr) ledger_->note_deleting(all_listed_ && unanswered_ == 0);
}

task<outcome> sender::run() {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  scope_ = &all;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    all.spawn(read_lane(i));
    all.spawn(lanes_[i]->write_out());
  }
  all.spawn(list());
  all.spawn(feed_until_finished());
  all.spawn(pulse_.beat());
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
  pulse_.lane_ended();
}

// Lists all entries as they are found.
task<void> sender::list() {
  constexpr std::size_t at_a_time = 256;
  constexpr std::size_t enough = 512U << 10;  // bytes of a frame
  lane& l = *lanes_.front();
  std::vector<entry> found;
  bool more = true;
  std::exception_ptr why;
  auto walk = [&](std::size_t, const std::atomic<bool>&) noexcept {
    try {
      more = sources_.next(at_a_time, found);
    } catch (...) {
      why = std::current_exception();  // out of memory
    }
  };
  while (more) {
    found.clear();
    crew_job walking = walker_.run(walk);
    co_await walking;
    if (why) std::rethrow_exception(why);
    for (std::size_t i = 0; i < found.size();) {
      frame_writer out(l.out(), frame_kind::entries);
      while (i < found.size() && out.payload() < enough) {
        note_found(found[i]);
        encode(out, found[i]);
        entries_.push_back(std::move(found[i++]));
      }
    }
    std::vector<problem> problems = sources_.take_problems();
    for (const problem& p : problems) {
      frame_writer out(l.out(), frame_kind::problems);
      encode(out, p);
    }
    for (problem& p : problems) result_.problems.add(std::move(p));
    l.kick();
    co_await l.room();
  }
  progress_.all_found = true;
  all_listed_ = true;
  frame_writer(l.out(), frame_kind::entries_end).u64(entries_.size());
  l.kick();
}

void sender::note_found(entry& e) {
  if (!has_contents(e.kind)) return;
  ++progress_.files_found;
  progress_.bytes_found += e.size;
  e.finished = ledger_ != nullptr && e.kind == entry_kind::file && ledger_->has_finished(e);
  if (!e.finished) return;
  ++progress_.files_done;
  progress_.bytes_done += e.size;
}

void sender::take(frame_reader& in, std::uint32_t lane) {
  switch (in.kind()) {
    case frame_kind::memory: return take_memory(in, lane);
    case frame_kind::credit: return take_credit(in, lane);
    case frame_kind::wants: return take_wants(in);
    case frame_kind::again: return take_again(in);
    case frame_kind::compare: return take_compare(in);
    case frame_kind::problems:
      while (!in.empty()) result_.problems.add(decode_problem(in));
      return;
    case frame_kind::items:
      while (!in.empty()) tell_(decode_item(in));
      return;
    case frame_kind::finished: return take_finished(in);
    case frame_kind::done: return take_done(in);
    case frame_kind::alive: return in.end();
    case frame_kind::refusal: throw_refusal(in, "the other side");
    default: refuse(in.kind(), "no place in what a receiver says");
  }
}

void sender::take_wants(frame_reader& in) {
  while (!in.empty()) {
    want w = decode_want(in);
    const entry& e = file_of(in, w.file);
    if (!w.here.empty() && w.here.size() != (chunks_of(e) + 7) / 8) {
      refuse(in.kind(), "chunks that are not of that file");
    }
    if (wanted_.size() < entries_.size()) wanted_.resize(entries_.size());
    if (wanted_[w.file] != wanted::no) refuse(in.kind(), "a file that was wanted before");
    wanted_[w.file] = wanted::yes;
    ++unanswered_;
    jobs_.push_back({std::move(w)});
  }
  job_here_.set();
}

void sender::take_memory(frame_reader& in, std::uint32_t lane) {
  const slot_memory m = decode_memory(in);
  std::vector<slot_memory>& known = memory_[lane];
  if (known.size() == 2) refuse(in.kind(), "memory for a lane that has all of its own");
  if (m.slot_bytes < options_.chunk_bytes) refuse(in.kind(), "slots shorter than a chunk");
  const std::uint32_t before = slots_of(lane);
  known.push_back(m);
  is_free_[lane].resize(before + m.slots, true);
  for (std::uint32_t i = 0; i < m.slots; ++i) free_.push_back({lane, before + i});
  place_here_.set();
}

void sender::take_credit(frame_reader& in, std::uint32_t lane) {
  while (!in.empty()) {
    const std::uint32_t slot = in.u32();
    if (slot >= slots_of(lane)) refuse(in.kind(), "a slot that there is not");
    if (is_free_[lane][slot]) refuse(in.kind(), "a slot that is free");
    give_back({lane, slot});
  }
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
  if (j.what.file >= wanted_.size() || wanted_[j.what.file] == wanted::no)
    refuse(in.kind(), "a file that was not wanted");
  // At most the contents of all slots, each a chunk or complete files.
  if (jobs_.size() > entries_.size() + most_slots_of_all)
    refuse(in.kind(), "more chunks than were on their way");
  sent_.take_back(j.what.file, j.index, digest);
  jobs_.push_back(std::move(j));
  job_here_.set();
}

void sender::take_finished(frame_reader& in) {
  result_.done = decode_tally(in);
  if (!all_listed_ || unanswered_ != 0 || finished_) refuse(in.kind(), "files on their way");
  // A failed file may be incomplete, and not counted.
  if (result_.done.manifest != sent_.sum() && !result_.problems.any_failed()) {
    result_.problems.add(
        {problem::kind::failed, ".", "what arrived is not what was sent: the manifests differ"});
  }
  finished_ = true;
  frame_writer(lanes_.front()->out(), frame_kind::all_sent).u64(sent_.sum());
  for (const std::unique_ptr<lane>& l : lanes_) l->finish();
  enough_.request_stop();
}

void sender::take_done(frame_reader& in) {
  if (ledger_ == nullptr) refuse(in.kind(), "what nobody asked for");
  const done_frame d = decode_done(in);
  for (const std::uint32_t file : d.files) ledger_->add_finished(file_of(in, file));
  ledger_->note(d.so_far, d.durable);
}

void sender::take_compare(frame_reader& in) {
  const compare_frame c = decode_compare(in);
  [[maybe_unused]] const entry& e = file_of(in, c.file);
  if (compared_.size() < entries_.size()) compared_.resize(entries_.size());
  if (compared_[c.file]) refuse(in.kind(), "a file that was asked about before");
  compared_[c.file] = true;
  job j;
  j.what.file = c.file;
  j.digest = c.digest;
  jobs_.push_back(std::move(j));
  job_here_.set();
}

const entry& sender::file_of(frame_reader& in, std::uint32_t number) const {
  if (number >= entries_.size() || !has_contents(entries_[number].kind)) {
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

// Chunks requested again after the receiver has finished belong to a file that it has given up.
task<void> sender::feed_until_finished() {
  std::stop_token enough = enough_.get_token();
  task<void> feeding = feed();
  try {
    co_await cordma::with_stop(enough, std::move(feeding));
  } catch (const cordma::error& e) {
    if (!finished_ || e.condition() != cordma::errc::canceled) throw;
  }
}

// Sends wanted files in the order of the requests.
task<void> sender::feed() {
  bundle small;
  std::uint64_t small_bytes = 0;
  while (!finished_) {
    // Sends the bundle if no other job is left, or if its files must be closed before others can be
    // opened.
    if (!small.empty() && (jobs_.empty() || open_ >= most_open_)) {
      bundle full = std::exchange(small, bundle());
      co_await start_bundle(std::move(full));
      small_bytes = 0;
      continue;
    }
    if (jobs_.empty()) {
      co_await job_here_.wait();
      continue;
    }
    if (open_ >= most_open_) {
      co_await closed_here_.wait();
      continue;
    }
    job j = std::move(jobs_.front());
    jobs_.pop_front();
    if (j.again) {
      co_await send_again(j.what.file, j.index);
      continue;
    }
    if (j.digest) {
      co_await start_compare(j.what.file, *j.digest);
      continue;
    }
    const entry& e = entries_[j.what.file];
    if (e.kind == entry_kind::stream) {
      co_await send_stream(j.what.file);
      continue;
    }
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
    add_small(small, j.what.file);
  }
}

// Returns null if the file cannot be read; the error is reported to the receiver.
std::shared_ptr<sender::outgoing> sender::open(std::uint32_t file) {
  auto f = std::make_shared<outgoing>(*this);
  f->number = file;
  f->what = &entries_[file];
  struct stat now{};
  const int fd = sources_.open(*f->what, 0, &now);
  if (fd < 0) {
    const auto how = fd == -ENOENT ? file_end::how::vanished : file_end::how::failed;
    end_file(file, how, std::strerror(-fd));
    return nullptr;
  }
  f->fd.reset(fd);
  if (options_.direct && f->what->size >= direct_way::smallest) {
    f->direct = direct_way(fd, direct_way::purpose::reading);
  }
  if (!is_as_found(*f->what, now)) {
    end_file(file, file_end::how::changed, changed_meanwhile);
    return nullptr;
  }
  return f;
}

task<void> sender::send_file(want w) {
  std::shared_ptr<outgoing> f = open(w.file);
  if (!f) co_return;
  const entry& e = *f->what;
  if (!pools_.has_all() && pools_.is_long(e.size)) make_buffers(pools::rest);
  const std::uint64_t chunks = chunks_of(e);
  const auto is_there = [&w](std::uint64_t i) {
    return !w.here.empty() && (w.here[i / 8] >> i % 8 & 1) != 0;
  };
  for (std::uint64_t i = 0; i < chunks; ++i) {
    f->left += is_there(i) ? 0U : 1U;
    progress_.bytes_done += is_there(i) ? bytes_of(e, i) : 0U;
  }
  if (f->left == 0) conclude(*f);
  // Offset of the next data; a hole precedes it.
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
  f->ended = true;  // the receiver has had its file_end
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
  if (got == 0) got = co_await read_chunk(f, part.bytes(), index * options_.chunk_bytes);
  if (finished_) co_return;  // the receiver gave up this file
  if (got != static_cast<int>(bytes)) {
    if (f->how == file_end::how::whole) {
      f->how = got < 0 ? file_end::how::failed : file_end::how::changed;
      f->why = got < 0 ? std::strerror(-got) : changed_meanwhile;
    }
    give_back(to);
    give_back(buffer);
  } else if (options_.sparse && is_zero(part.bytes())) {
    give_back(to);
    give_back(buffer);
    say_hole(*f, index);
  } else {
    const chunk_frame c{f->number, to.slot, index, bytes, 0, 0};
    co_await put_chunk(c, to.lane, buffer);
  }
  if (--f->left == 0) conclude(*f);
}

// Sends a chunk that has been read.
task<void> sender::put_chunk(chunk_frame c, std::uint32_t lane_number, cordma::Slice buffer) {
  const cordma::Slice part = buffer.first(c.bytes);
  c.digest = digest_of(part.bytes());
  sent_.add(c.file, c.index, c.digest);
  lane& l = *lanes_[lane_number];
  slot_write written = put({lane_number, c.slot}, part);
  encode(l.out(), c);
  l.kick();
  progress_.bytes_moved += c.bytes;
  progress_.bytes_done += c.bytes;
  co_await written.done();
  give_back(buffer);
}

void sender::send_hole(outgoing& f, std::uint64_t index) {
  say_hole(f, index);
  if (--f.left == 0) conclude(f);
}

void sender::say_hole(const outgoing& f, std::uint64_t index) {
  lane& l = *lanes_.front();
  encode(l.out(), chunk_frame{f.number, 0, index, bytes_of(*f.what, index), 1, 0});
  l.kick();
  sent_.add(f.number, index, 0);
  progress_.bytes_done += bytes_of(*f.what, index);
}

// The frame that announces the bytes may follow at once.
slot_write sender::put(place to, const cordma::Slice& bytes) {
  if (flip_every_ != 0 && ++put_ % flip_every_ == 0 && bytes.size() != 0) {
    bytes.data()[bytes.size() / 2] ^= std::byte{1};
  }
  const std::vector<slot_memory>& known = memory_[to.lane];
  const bool in_first = to.slot < known.front().slots;
  const slot_memory& m = in_first ? known.front() : known.back();
  const std::uint32_t within = in_first ? to.slot : to.slot - known.front().slots;
  const std::uint64_t at = m.offset + std::uint64_t{within} * m.slot_bytes;
  return slot_write(*lanes_[to.lane], m, at, bytes);
}

task<int> sender::read_chunk(std::shared_ptr<outgoing> f, std::span<std::byte> into,
                             std::uint64_t offset) {
  if (f->direct.takes(into, offset)) {
    const int got = co_await read_whole(f->direct.get(), into, offset);
    if (got != -EINVAL) co_return got;
    f->direct.give_up();
  }
  const int got = co_await read_whole(f->fd.get(), into, offset);
  co_return got;
}

// Returns the number of bytes read, which is less only at the end of the file; or a negative errno.
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
  is_free_[p.lane][p.slot] = false;
  co_return p;
}

task<cordma::Slice> sender::free_buffer() {
  while (buffers_.empty()) co_await buffer_here_.wait();
  const cordma::Slice s = buffers_.back();  // the last used may still be in the cache
  buffers_.pop_back();
  co_return s;
}

void sender::make_buffers(std::size_t which) {
  pools_.make(which, context_, files_);
  const std::uint32_t more = pools_.pieces(which);
  for (std::uint32_t i = 0; i < more; ++i) {
    const std::size_t at = std::size_t{i} * options_.chunk_bytes;
    buffers_.push_back(pools_.memory(which).all().part(at, options_.chunk_bytes));
  }
  buffer_here_.set();
}

std::uint32_t sender::slots_of(std::uint32_t lane) const noexcept {
  std::uint32_t all = 0;
  for (const slot_memory& m : memory_[lane]) all += m.slots;
  return all;
}

void sender::give_back(const cordma::Slice& buffer) {
  buffers_.push_back(buffer);
  buffer_here_.set();
}

void sender::give_back(place p) {
  is_free_[p.lane][p.slot] = true;
  free_.push_back(p);
  place_here_.set();
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

// Ends a file of which nothing is left to send.
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
}

void sender::end_file(std::uint32_t file, file_end::how how, const std::string& why) {
  encode(lanes_.front()->out(), file_end{file, how, why});
  lanes_.front()->kick();
  answered(file);
}

void sender::answered(std::uint32_t file) {
  if (wanted_[file] != wanted::yes) return;
  wanted_[file] = wanted::answered;
  --unanswered_;
}

}  // namespace copy
