#include "receiver.hpp"

#include "incoming.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

namespace {

constexpr std::uint64_t save_after = 64U << 20;  // bytes in a file that would have to come again

const char* describe(int error) noexcept { return std::strerror(error); }

}  // namespace

receiver::receiver(cordma::Context& context, cordma::Worker& worker, file_ring& files,
                   std::vector<std::unique_ptr<lane>>& lanes, target& into, std::string only_name,
                   const filter& chosen, const transfer_options& options, progress& shown,
                   const item_sink& tell)
    : worker_(worker),
      files_(files),
      lanes_(lanes),
      target_(into),
      only_name_(std::move(only_name)),
      filter_(chosen),
      options_(options),
      progress_(shown),
      tell_(tell) {
  const std::uint64_t all = options.memory_bytes / options.chunk_bytes / lanes.size();
  slots_ = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all, 2, most_slots));
  const std::uint64_t bytes = std::uint64_t{slots_} * options.chunk_bytes * lanes.size();
  pool_ = context.allocate(bytes, lanes.front()->slot_access()).value();
  files_.register_memory(pool_.bytes());
}

receiver::~receiver() { save_all(); }

task<outcome> receiver::run() {
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    slot_memory m;
    m.slots = slots_;
    m.slot_bytes = options_.chunk_bytes;
    m.offset = std::uint64_t{i} * slots_ * options_.chunk_bytes;
    lanes_[i]->offer(pool_, m);
  }
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  scope_ = &all;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    all.spawn(read_lane(i));
    all.spawn(lanes_[i]->write_out());
  }
  co_await all.join();
  for (const std::unique_ptr<lane>& l : lanes_) co_await l->stream().close();
  co_return std::move(result_);
}

task<void> receiver::read_lane(std::uint32_t number) {
  lane& l = *lanes_[number];
  for (;;) {
    const bool more = co_await l.next();
    if (!more) break;
    frame_reader in = l.frame();
    take(in, number);
    co_await l.room();
  }
  if (!over_ && number == 0) {
    cordma::throw_error({cordma::errc::connection_reset, "the sender went before it had finished"});
  }
}

void receiver::take(frame_reader& in, std::uint32_t lane) {
  switch (in.kind()) {
    case frame_kind::entries: return take_entries(in);
    case frame_kind::entries_end: {
      if (in.u64() != entries_.size() || all_listed_)
        refuse(in.kind(), "another number of entries");
      in.end();
      all_listed_ = true;
      progress_.all_found = true;
      return finish_if_due();
    }
    case frame_kind::problems:
      while (!in.empty()) result_.problems.push_back(decode_problem(in));
      return;
    case frame_kind::chunk: return take_chunk(decode_chunk(in), lane);
    case frame_kind::bundle: return take_bundle(decode_bundle(in), lane);
    case frame_kind::file_end: return take_file_end(decode_file_end(in));
    case frame_kind::all_sent: return take_end_of_all(in);
    case frame_kind::refusal:
      cordma::throw_error({cordma::errc::rejected, "the other side: " + in.text()});
    default: refuse(in.kind(), "no place in what a sender says");
  }
}

void receiver::take_end_of_all(frame_reader& in) {
  if (!finished_) refuse(in.kind(), "files missing that were wanted");
  if (in.u64() != got_.sum()) {
    result_.problems.push_back(
        {problem::kind::failed, ".", "what arrived is not what was sent: the manifests differ"});
  }
  in.end();
  over_ = true;
  for (const std::unique_ptr<lane>& l : lanes_) l->finish();
}

void receiver::take_entries(frame_reader& in) {
  if (all_listed_) refuse(in.kind(), "entries behind their end");
  while (!in.empty()) {
    entry e = decode_entry(in);
    if (!only_name_.empty()) {
      if (!entries_.empty() || e.kind == entry_kind::directory) {
        refuse(in.kind(), "more than the one file that was to come");
      }
      e.path = only_name_;
    }
    const auto number = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back(std::move(e));
    consider(number, entries_.back());
  }
  lanes_.front()->kick();
}

void receiver::take_chunk(const chunk_frame& c, std::uint32_t lane) {
  const auto found = open_.find(c.file);
  if (found == open_.end() || found->second->concluding) {
    if (!was_wanted(c.file) || c.slot >= slots_)
      refuse(frame_kind::chunk, "a file that was not wanted");
    got_.add(c.file, c.index, c.digest);  // it has failed meanwhile
    if (c.is_hole == 0) credit(lane, c.slot);
    return;
  }
  incoming& f = *found->second;
  if (c.index >= f.missing.size() || !f.missing[c.index] ||
      c.bytes != f.bytes_of(c.index, options_.chunk_bytes)) {
    refuse(frame_kind::chunk, "a place that was not wanted");
  }
  if (c.is_hole == 0 && c.slot >= slots_) refuse(frame_kind::chunk, "a slot that there is not");
  f.missing[c.index] = false;
  ++f.writing;
  scope_->spawn(write_chunk(found->second, c, lane));
}

void receiver::take_bundle(bundle_frame b, std::uint32_t lane) {
  if (b.slot >= slots_) refuse(frame_kind::bundle, "a slot that there is not");
  std::uint64_t bytes = 0;
  for (const bundled& part : b.files) {
    const auto found = open_.find(part.file);
    if (found == open_.end()) refuse(frame_kind::bundle, "a file that was not wanted");
    incoming& f = *found->second;
    const bool fits = f.missing.size() == 1 && f.missing[0] && f.what->size == part.bytes;
    if (!fits) refuse(frame_kind::bundle, "a file of another size");
    f.missing[0] = false;
    bytes += part.bytes;
  }
  if (bytes > options_.chunk_bytes) refuse(frame_kind::bundle, "more than a slot holds");
  scope_->spawn(write_bundle(std::move(b), lane));
}

void receiver::take_file_end(const file_end& e) {
  const auto found = open_.find(e.file);
  if (found == open_.end()) {
    if (!was_wanted(e.file)) refuse(frame_kind::file_end, "a file that was not wanted");
    return;
  }
  incoming& f = *found->second;
  f.ended = true;
  f.source = e.outcome;
  if (e.outcome != file_end::how::whole && f.why.empty()) {
    f.why = e.why.empty() ? "the sender could not read it" : e.why;
  }
  conclude_if_due(found->second);
}

// Done when the bytes are in the file, or it is clear that they will not be.
task<void> receiver::write_chunk(std::shared_ptr<incoming> f, chunk_frame c, std::uint32_t lane) {
  const std::uint64_t offset = c.index * options_.chunk_bytes;
  if (f->why.empty() && !f->fd) {
    const cordma::result<void> opened = open(*f);
    if (!opened) fail(*f, describe(opened.why()));
  }
  bool damaged = false;
  if (c.is_hole == 0) {
    const std::span<const std::byte> bytes = slot(lane, c.slot).first(c.bytes);
    damaged = digest_of(bytes) != c.digest;
    if (!damaged && f->why.empty()) {
      const int error = co_await write_whole(f->fd.get(), bytes, offset);
      if (error != 0) fail(*f, describe(error));
    }
    credit(lane, c.slot);
  } else if (f->why.empty() && options_.inplace) {
    file_operation punching =
        files_.allocate(f->fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, c.bytes);
    const cordma::result<int> punched = co_await punching.result();
    if (!punched) fail(*f, describe(punched.why()));
  }
  --f->writing;
  if (damaged) {
    constexpr std::uint32_t most = 16;  // times
    ++result_.done.damaged;
    f->missing[c.index] = true;
    if (++f->damaged > most) {
      fail(*f, "it came damaged again and again");
    } else {
      frame_writer(lanes_.front()->out(), frame_kind::again).u32(c.file).u64(c.index).u64(c.digest);
      lanes_.front()->kick();
      co_return;
    }
  } else {
    got_.add(c.file, c.index, c.digest);
    --f->left;
    if (f->why.empty()) {
      result_.done.bytes += c.is_hole == 0 ? c.bytes : 0;
      progress_.bytes_moved += c.bytes;
      progress_.bytes_done += c.bytes;
      if (f->sidecar) {
        f->unsaved.push_back({c.index, c.digest});
        const std::uint64_t bytes = f->unsaved.size() * std::uint64_t{options_.chunk_bytes};
        if (bytes >= save_after && !f->saving) scope_->spawn(save(f));
      }
    }
  }
  conclude_if_due(f);
}

task<void> receiver::write_bundle(bundle_frame b, std::uint32_t lane) {
  std::size_t bytes = 0;
  for (const bundled& part : b.files) bytes += part.bytes;
  const std::span<const std::byte> all = slot(lane, b.slot).first(bytes);
  const bool damaged = digest_of(all) != b.digest;
  std::size_t at = 0;
  constexpr std::size_t at_a_time = 32;  // files, between which others have their turn
  std::size_t written = 0;
  for (const bundled& part : b.files) {
    const auto found = open_.find(part.file);
    if (found == open_.end()) refuse(frame_kind::bundle, "a file that has ended");
    const std::shared_ptr<incoming> f = found->second;
    if (damaged) {
      ++result_.done.damaged;
      f->missing[0] = true;
      f->ended = true;  // it comes as a chunk now
      frame_writer(lanes_.front()->out(), frame_kind::again).u32(part.file).u64(0).u64(part.bytes);
    } else {
      got_.add(part.file, 0, part.bytes);
      write_small(part, all.subspan(at, part.bytes));
    }
    at += part.bytes;
    if (++written % at_a_time == 0) co_await cordma::yield();
  }
  credit(lane, b.slot);
  lanes_.front()->kick();
  finish_if_due();
}

// A whole file, in as few system calls as can be.
void receiver::write_small(const bundled& b, std::span<const std::byte> bytes) {
  incoming& f = *open_.at(b.file);
  if (!options_.inplace) {
    cordma::result<cordma::unique_fd> made =
        target_.open_unnamed(f.what->path, f.what->mode & 0777);
    f.unnamed = made.ok();
    if (made) f.fd = std::move(made).value();
  }
  if (!f.unnamed) {
    const cordma::result<void> opened = open(f);
    if (!opened) fail(f, describe(opened.why()));
  }
  if (f.why.empty()) {
    const ssize_t n = ::pwrite(f.fd.get(), bytes.data(), bytes.size(), 0);
    if (n < 0) fail(f, describe(errno));
    if (n >= 0 && static_cast<std::size_t>(n) != bytes.size()) fail(f, describe(ENOSPC));
  }
  if (f.why.empty()) {
    result_.done.bytes += bytes.size();
    progress_.bytes_moved += bytes.size();
    progress_.bytes_done += bytes.size();
    publish(f);
  }
  forget(b.file);
}

// 0, or errno.
task<int> receiver::write_whole(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    file_operation writing = files_.write(fd, bytes, offset);
    const cordma::result<int> put = co_await writing.result();
    if (!put && put.why().os_errno() == EINTR) continue;
    if (!put) co_return put.why().os_errno();
    if (put.value() == 0) co_return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(put.value()));
    offset += static_cast<std::uint64_t>(put.value());
  }
  co_return 0;
}

// What is in the file becomes what need not come again.
task<void> receiver::save(std::shared_ptr<incoming> f) {
  f->saving = true;
  ++f->writing;
  const std::vector<incoming::written_chunk> chunks = std::exchange(f->unsaved, {});
  file_operation syncing = files_.sync_data(f->fd.get());
  const cordma::result<int> synced = co_await syncing.result();
  if (!synced) fail(*f, describe(synced.why()));
  if (f->why.empty()) {
    for (const incoming::written_chunk& c : chunks) f->sidecar->add(c.index, c.digest);
    const cordma::result<void> flushed = f->sidecar->flush();
    if (!flushed) fail(*f, describe(flushed.why()));
  }
  f->saving = false;
  --f->writing;
  conclude_if_due(f);
}

// The connection is gone: what is in the files need not come again.
void receiver::save_all() noexcept {
  for (const auto& [number, f] : open_) {
    if (!f->sidecar || f->unsaved.empty() || !f->why.empty()) continue;
    if (::fdatasync(f->fd.get()) != 0) continue;
    for (const incoming::written_chunk& c : f->unsaved) f->sidecar->add(c.index, c.digest);
    f->unsaved.clear();
    [[maybe_unused]] const cordma::result<void> flushed = f->sidecar->flush();
  }
}

void receiver::conclude_if_due(const std::shared_ptr<incoming>& f) {
  if (f->writing != 0 || !f->ended || f->concluding) return;
  if (f->why.empty() && f->left != 0) return;  // a chunk is on its way once more
  f->concluding = true;
  scope_->spawn(conclude(f));
}

task<void> receiver::conclude(std::shared_ptr<incoming> f) {
  if (f->why.empty() && options_.sync) {
    file_operation syncing = files_.sync_data(f->fd.get());
    const cordma::result<int> synced = co_await syncing.result();
    if (!synced) fail(*f, describe(synced.why()));
  }
  if (f->why.empty()) publish(*f);
  forget(f->number);
  finish_if_due();
}

bool receiver::was_wanted(std::uint32_t number) const noexcept {
  return number < wanted_.size() && wanted_[number];
}

void receiver::credit(std::uint32_t lane, std::uint32_t slot) {
  frame_writer(lanes_[lane]->out(), frame_kind::credit).u32(slot);
  lanes_[lane]->kick();
}

std::span<std::byte> receiver::slot(std::uint32_t lane, std::uint32_t number) noexcept {
  const std::size_t place = std::size_t{lane} * slots_ + number;
  return pool_.bytes().subspan(place * options_.chunk_bytes, options_.chunk_bytes);
}

}  // namespace copy
