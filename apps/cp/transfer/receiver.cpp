#include "receiver.hpp"

#include "../files/unfinished.hpp"
#include "../files/whole.hpp"
#include "../files/write_at.hpp"
#include "../files/zeros.hpp"
#include "incoming.hpp"

#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace copy {

using cordma::task;

namespace {

constexpr std::uint32_t most_damaged = 16;  // damaged chunks of one file

const char* describe(int error) noexcept { return std::strerror(error); }

}  // namespace

receiver::receiver(cordma::Context& context, cordma::Worker& worker, file_ring& files,
                   std::vector<std::unique_ptr<lane>>& lanes, target& into, std::string only_name,
                   const filter& chosen, const transfer_options& options, progress& shown,
                   const item_sink& tell)
    : context_(context),
      worker_(worker),
      files_(files),
      crew_(worker.loop()),
      comparing_(2 * crew_.threads()),
      lanes_(lanes),
      pulse_(lanes, options.silence_s),
      target_(into),
      targets_(crew_.threads()),
      only_name_(std::move(only_name)),
      filter_(chosen),
      options_(options),
      progress_(shown),
      tell_(tell),
      pools_(options, lanes.size(), lanes.front()->slot_access()),
      in_use_(lanes.size()),
      asked_(options, chosen) {}

receiver::~receiver() {
  if (ledger_ != nullptr) ledger_->note_deleting(finishing_);
  drop_all();
  close_again();
}

task<outcome> receiver::run() {
  offer_slots(pools::few);
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  scope_ = &all;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    all.spawn(read_lane(i));
    all.spawn(lanes_[i]->write_out());
  }
  all.spawn(pulse_.beat());
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
    std::exception_ptr refused;
    try {
      take(in, number);
    } catch (const cordma::error& e) {
      if (e.condition() != cordma::errc::invalid_value) throw;
      refused = std::current_exception();
      encode_refusal(lanes_.front()->out(), failing::may_not, e.what());
    }
    if (refused) co_await refuse_all(refused);
    co_await l.room();
  }
  if (!over_ && number == 0) {
    cordma::throw_error({cordma::errc::connection_reset, "the sender went before it had finished"});
  }
  pulse_.lane_ended();
}

// Sends the reason to the sender, unless the sender does not read it.
task<void> receiver::refuse_all(std::exception_ptr why) {
  constexpr auto a_moment = std::chrono::seconds(1);
  lane& first = *lanes_.front();
  first.finish();
  try {
    co_await cordma::with_timeout(a_moment, first.written());
  } catch (const cordma::error&) {}  // `why` is the more informative error
  std::rethrow_exception(why);
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
      if (all_listed_) refuse(in.kind(), "problems behind the end of entries");
      while (!in.empty()) take_problem(decode_problem(in));
      return;
    case frame_kind::chunk: return take_chunk(decode_chunk(in), lane);
    case frame_kind::bundle: return take_bundle(decode_bundle(in), lane);
    case frame_kind::file_end: return take_file_end(decode_file_end(in));
    case frame_kind::compared: return take_compared(decode_compared(in));
    case frame_kind::all_sent: return take_end_of_all(in);
    case frame_kind::alive: return in.end();
    case frame_kind::refusal: throw_refusal(in, "the other side");
    default: refuse(in.kind(), "no place in what a sender says");
  }
}

void receiver::take_problem(problem p) {
  left_out_bytes_ += p.place.size() + sizeof p.place;
  const bool is_known = left_out_bytes_ <= problem_log::most_bytes;
  if (p.what == problem::kind::left_out && is_known) {
    if (!p.place.empty()) left_out_.push_back(p.place);
  } else if (p.what != problem::kind::vanished) {  // vanished entries are no longer in the source
    not_all_read_ = true;
  }
  result_.problems.add(std::move(p));
}

void receiver::take_end_of_all(frame_reader& in) {
  if (!finished_) refuse(in.kind(), "files missing that were wanted");
  // A failed file may be incomplete, and not counted.
  if (in.u64() != got_.sum() && !result_.problems.any_failed()) {
    result_.problems.add(
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
    const std::string_view wrong = asked_.what_is_wrong(e);
    if (!wrong.empty())
      refuse(in.kind(), std::string(wrong) + " that was not asked for: " + e.path);
    if (e.kind == entry_kind::hard_link && !first_names_.contains(e.target)) {
      refuse(in.kind(), "another name of what has not come: " + e.path);
    }
    if (!only_name_.empty()) {
      if (!entries_.empty() || e.kind == entry_kind::directory) {
        refuse(in.kind(), "more than the one file that was to come");
      }
      e.path = only_name_;
    }
    // A client that pulls has its own ledger. A sender may mark entries only if this session acknowledges.
    const bool is_known = ledger_ != nullptr && ledger_->has_finished(e);
    e.finished = is_known || (options_.acknowledge && e.finished);
    if (entries_.size() == most_entries) refuse(in.kind(), "more entries than one tree may have");
    const auto number = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back(std::move(e));
    note_first_name(number, entries_.back());
    consider(number, entries_.back());
  }
  note_done();
  lanes_.front()->kick();
}

void receiver::take_chunk(const chunk_frame& c, std::uint32_t lane) {
  if (!was_wanted(c.file)) refuse(frame_kind::chunk, "a file that was not wanted");
  const auto found = open_.find(c.file);
  if (c.is_hole == 0) use_slot(frame_kind::chunk, lane, c.slot);
  // The file has failed meanwhile.
  if (found == open_.end() || found->second->concluding ||
      (found->second->is_stream() && !found->second->why.empty())) {
    got_.add(c.file, c.index, c.digest);
    if (c.is_hole == 0) credit(lane, c.slot);
    return;
  }
  incoming& f = *found->second;
  expect(f, c);
  f.missing[c.index] = false;
  ++f.writing;
  scope_->spawn(write_chunk(found->second, c, lane));
}

void receiver::take_bundle(bundle_frame b, std::uint32_t lane) {
  use_slot(frame_kind::bundle, lane, b.slot);
  std::uint64_t bytes = 0;
  for (const bundled& part : b.files) {
    const auto found = open_.find(part.file);
    if (found == open_.end() || !was_wanted(part.file))
      refuse(frame_kind::bundle, "a file that was not wanted");
    incoming& f = *found->second;
    if (f.concluding || f.resumable) refuse(frame_kind::bundle, "a file that does not come in one");
    const bool fits = f.missing.size() == 1 && f.missing[0] && f.what->size == part.bytes;
    if (!fits) refuse(frame_kind::bundle, "a file of another size");
    f.missing[0] = false;
    ++f.writing;
    bytes += part.bytes;
  }
  if (bytes > options_.chunk_bytes) refuse(frame_kind::bundle, "more than a slot holds");
  scope_->spawn(write_bundle(std::move(b), lane));
}

void receiver::take_file_end(const file_end& e) {
  if (!was_wanted(e.file)) refuse(frame_kind::file_end, "a file that was not wanted");
  const auto found = open_.find(e.file);
  if (found == open_.end()) return;
  incoming& f = *found->second;
  if (f.is_stream() && e.outcome == file_end::how::whole) end_stream(f, e.bytes);
  f.ended = true;
  f.source = e.outcome;
  if (e.outcome == file_end::how::failed) not_all_read_ = true;
  if (e.outcome != file_end::how::whole && f.why.empty()) {
    f.why = e.why.empty() ? "the sender could not read it" : e.why;
    f.turn.set();
  }
  conclude_if_due(found->second);
}

// Ends when the bytes are in the file, or when it is clear that they will not be.
task<void> receiver::write_chunk(std::shared_ptr<incoming> f, chunk_frame c, std::uint32_t lane) {
  const std::uint64_t offset = c.index * options_.chunk_bytes;
  if (f->why.empty() && !f->fd) {
    const cordma::result<void> opened = open(*f, target_);
    if (!opened) fail(*f, describe(opened.why()));
  }
  bool damaged = false;
  if (c.is_hole == 0) {
    const std::span<const std::byte> bytes = slot(lane, c.slot).first(c.bytes);
    damaged = digest_of(bytes) != c.digest;
    if (damaged && (output_ >= 0 || f->is_stream())) fail(*f, "it came damaged, and cannot again");
    int error = 0;
    if (output_ >= 0) {
      error = co_await write_in_turn(f, c, bytes);
    } else if (!damaged && f->why.empty()) {
      error = co_await write_bytes(f, bytes, offset);
    }
    if (error != 0) fail(*f, describe(error));
    credit(lane, c.slot);
  } else if (output_ >= 0) {
    const std::span<const std::byte> nothing;
    const int error = co_await write_in_turn(f, c, nothing);
    if (error != 0) fail(*f, describe(error));
  } else if (f->why.empty()) {
    const int error = co_await write_hole(f, offset, c.bytes);
    if (error != 0) fail(*f, describe(error));
  }
  --f->writing;
  if (damaged) {
    ask_again(*f, c.index, c.digest);
    if (f->why.empty()) co_return;
  } else {
    got_.add(c.file, c.index, c.digest);
    --f->left;
    if (f->why.empty()) {
      f->came += c.is_hole == 0 ? c.bytes : 0;
      progress_.bytes_moved += c.bytes;
      progress_.bytes_done += c.bytes;
      // If it cannot be noted, an interrupted transfer sends the chunk again.
      if (f->sidecar && f->sidecar->add(c.index, c.digest)) durable_ += c.bytes;
      note_done();
    }
  }
  conclude_if_due(f);
}

// A file written completely by a thread of the crew: the input of that thread, and its result.
struct receiver::small_file {
  std::shared_ptr<incoming> file;
  std::span<const std::byte> bytes;
  std::string why;                // reason of the failure; empty: none
  std::vector<std::string> lost;  // attributes that could not be kept
};

task<void> receiver::write_bundle(bundle_frame b, std::uint32_t lane) {
  std::size_t bytes = 0;
  for (const bundled& part : b.files) bytes += part.bytes;
  const std::span<const std::byte> all = slot(lane, b.slot).first(bytes);
  std::vector<small_file> files;
  files.reserve(b.files.size());
  std::size_t at = 0;
  for (const bundled& part : b.files) {
    files.push_back({open_.at(part.file), all.subspan(at, part.bytes), "", {}});
    at += part.bytes;
  }
  bool damaged = false;
  auto work = [&](std::size_t thread, const std::atomic<bool>& canceled) noexcept {
    damaged = digest_of(all) != b.digest;
    if (damaged) return;
    const cordma::result<void> have = view_of(thread);
    for (small_file& f : files) {
      if (have) write_small(f, *targets_[thread], canceled);
      if (!have) f.why = describe(have.why());
    }
  };
  crew_job writing = crew_.run(work);
  co_await writing;
  credit(lane, b.slot);
  for (std::size_t i = 0; i < files.size(); ++i) {
    small_file& f = files[i];
    const bundled& part = b.files[i];
    --f.file->writing;
    if (damaged) {
      f.file->ended = true;  // it is sent as a chunk now
      ask_again(*f.file, 0, part.bytes);
      if (!f.file->why.empty()) forget(part.file);
    } else {
      got_.add(part.file, 0, part.bytes);
      conclude_small(f);
    }
  }
  note_done();
  lanes_.front()->kick();
  finish_if_due();
}

// Requests a chunk that arrived damaged once more, up to a limit.
void receiver::ask_again(incoming& f, std::uint64_t index, std::uint64_t digest) {
  ++result_.done.damaged;
  if (!f.why.empty() || ++f.damaged > most_damaged) {
    got_.add(f.number, index, digest);  // the sender counts it as sent
    if (f.why.empty()) fail(f, "it came damaged again and again");
    return;
  }
  f.missing[index] = true;
  frame_writer(lanes_.front()->out(), frame_kind::again).u32(f.number).u64(index).u64(digest);
  lanes_.front()->kick();
}

// Creates the target of this thread of the crew.
cordma::result<void> receiver::view_of(std::size_t thread) noexcept {
  if (targets_[thread]) return {};
  cordma::result<target> made = target_.clone();
  if (!made) return made.why();
  targets_[thread].emplace(std::move(made).value());
  return {};
}

// Writes a complete file with as few system calls as possible. Runs on a thread of the crew.
void receiver::write_small(small_file& s, target& into, const std::atomic<bool>& canceled) noexcept
    try {
  incoming& f = *s.file;
  if (!f.in_place && output_ < 0) {
    cordma::result<cordma::unique_fd> made = into.open_unnamed(f.what->path, f.what->mode & 0777);
    f.unnamed = made.ok();
    if (made) f.fd = std::move(made).value();
  }
  if (!f.unnamed) {
    const cordma::result<void> opened = open(f, into);
    if (!opened) s.why = describe(opened.why());
  }
  if (s.why.empty() && output_ < 0) {
    const bool sparsely = options_.sparse && f.bytes_here == 0;
    int error = sparsely ? write_sparsely(f.fd.get(), s.bytes) : write_at(f.fd.get(), s.bytes, 0);
    // In place a mark is behind the file. It is removed last, but before the data is synced.
    const bool cut = f.in_place ? options_.sync : sparsely;
    if (error == 0 && cut) error = cut_to(f.fd.get(), s.bytes.size());
    if (error != 0) s.why = describe(error);
    if (s.why.empty() && options_.sync && ::fdatasync(f.fd.get()) != 0) s.why = describe(errno);
  }
  if (s.why.empty() && output_ >= 0) {
    const int error = write_to_end(output_, s.bytes, canceled);
    if (error != 0) s.why = describe(error);
  }
  if (s.why.empty()) {
    const cordma::result<void> published = publish(f, into, s.lost);
    if (!published) s.why = describe(published.why());
  }
  f.fd.reset();
} catch (const std::exception& e) {
  s.why = e.what();  // out of memory
}

void receiver::conclude_small(small_file& s) {
  incoming& f = *s.file;
  if (s.why.empty()) {
    f.came = s.bytes.size();
    progress_.bytes_moved += s.bytes.size();
    progress_.bytes_done += s.bytes.size();
    tell_published(f, std::move(s.lost));
  } else {
    fail(f, s.why);
  }
  forget(f.number);
}

// Returns 0, or errno. For a terminal or pipe the offset has no meaning.
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

// After an interrupted transfer: removes parts that no sidecar vouches for.
void receiver::drop_all() noexcept {
  for (const auto& [number, f] : open_) {
    if (!f->fd || f->unnamed || f->sidecar || f->in_place || output_ >= 0) continue;
    f->fd.reset();  // else it would be in use
    [[maybe_unused]] const cordma::result<void> dropped = target_.drop_part(f->what->path);
  }
}

void receiver::conclude_if_due(const std::shared_ptr<incoming>& f) {
  if (f->writing != 0 || !f->ended || f->concluding) return;
  if (f->why.empty() && f->left != 0) return;  // a chunk is being sent again
  f->concluding = true;
  scope_->spawn(conclude(f));
}

task<void> receiver::conclude(std::shared_ptr<incoming> f) {
  if (f->why.empty() && f->is_stream() && f->bytes != f->what->size) {
    fail(*f, "it is not as long as its sender says");
  }
  if (f->why.empty() && !f->fd) {  // nothing of it has arrived
    const cordma::result<void> opened = open(*f, target_);
    if (!opened) fail(*f, describe(opened.why()));
  }
  if (f->why.empty() && options_.sync && output_ < 0) {
    // Without the mark of --inplace.
    const int error = f->in_place && !f->is_stream() ? cut_to(f->fd.get(), f->what->size) : 0;
    file_operation syncing = files_.sync_data(f->fd.get());
    const cordma::result<int> synced = co_await syncing.result();
    if (error != 0) fail(*f, describe(error));
    if (!synced) fail(*f, describe(synced.why()));
  }
  if (f->why.empty()) publish(*f);
  note_done();
  forget(f->number);
  finish_if_due();
}

bool receiver::was_wanted(std::uint32_t number) const noexcept {
  return number < wanted_.size() && wanted_[number];
}

// Marks a slot as in use until its credit.
void receiver::use_slot(frame_kind kind, std::uint32_t lane, std::uint32_t slot) {
  if (slot >= slots_) refuse(kind, "a slot that there is not");
  if (in_use_[lane][slot]) refuse(kind, "a slot that was not given back");
  in_use_[lane][slot] = true;
}

void receiver::credit(std::uint32_t lane, std::uint32_t slot) {
  in_use_[lane][slot] = false;
  frame_writer(lanes_[lane]->out(), frame_kind::credit).u32(slot);
  lanes_[lane]->kick();
}

std::span<std::byte> receiver::slot(std::uint32_t lane, std::uint32_t number) noexcept {
  return pools_.piece(lane, number);
}

void receiver::offer_slots(std::size_t which) {
  pools_.make(which, context_, files_);
  const std::uint32_t more = pools_.pieces(which);
  if (more == 0) return;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    slot_memory m;
    m.slots = more;
    m.slot_bytes = options_.chunk_bytes;
    m.offset = pools_.begin(which, i);
    lanes_[i]->offer(pools_.memory(which), m);
  }
  slots_ += more;
  for (std::vector<bool>& slots : in_use_) slots.resize(slots_);
}

void receiver::offer_more_for(const entry& e) {
  if (!pools_.has_all() && pools_.is_long(e.size)) offer_slots(pools::rest);
}

}  // namespace copy
