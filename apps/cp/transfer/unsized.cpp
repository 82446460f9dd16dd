// Files of unknown length, and output in order to standard output.
#include "../files/whole.hpp"
#include "incoming.hpp"
#include "sender.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace copy {

using cordma::task;

void receiver::consider_stream(std::uint32_t number, const entry& e) {
  ++progress_.files_found;
  const cordma::result<std::optional<struct stat>> there = target_.look(e.path);
  if (!there || !there.value()) return want_file(number, e, item::change::made);
  const struct stat now = *there.value();
  want_file(number, e, item::change::updated, &now);
}

void receiver::consider_output(std::uint32_t number, const entry& e) {
  if (number != 0 || !has_contents(e.kind)) {
    return report({problem::kind::failed, e.path, "only one file can go to standard output"});
  }
  ++progress_.files_found;
  progress_.bytes_found += e.size;
  want_file(number, e, item::change::made);
}

// Refuses a chunk that is not expected. Adds an expected chunk of a stream to the missing ones.
void receiver::expect(incoming& f, const chunk_frame& c) {
  constexpr const char* unwanted = "a place that was not wanted";
  if (f.is_stream()) {
    const bool fits = c.is_hole == 0 && c.bytes != 0 && c.bytes <= options_.chunk_bytes;
    const std::size_t known = f.missing.size();
    if (!fits || c.index >= known + most_slots_of_all || (f.ended && c.index >= known)) {
      refuse(frame_kind::chunk, unwanted);
    }
    if (c.index >= known) {
      f.missing.resize(c.index + 1, true);
      f.left += f.missing.size() - known;
    }
    f.bytes += c.bytes;
  }
  const bool is_due = c.index < f.missing.size() && f.missing[c.index];
  if (!is_due || (!f.is_stream() && c.bytes != f.bytes_of(c.index, options_.chunk_bytes))) {
    refuse(frame_kind::chunk, unwanted);
  }
}

void receiver::end_stream(incoming& f, std::uint64_t bytes) {
  const std::uint64_t chunks = (bytes + options_.chunk_bytes - 1) / options_.chunk_bytes;
  if (f.ended || chunks < f.missing.size() || chunks - f.missing.size() > most_slots_of_all) {
    refuse(frame_kind::file_end, "a length that the stream does not have");
  }
  f.left += chunks - f.missing.size();
  f.missing.resize(chunks, true);
  --f.left;  // the end of the stream
  entries_[f.number].size = bytes;
  progress_.bytes_found += bytes;
}

// Writes zeros for a hole. Returns 0, or errno; also 0 if the file has failed before the turn of
// this chunk.
task<int> receiver::write_in_turn(std::shared_ptr<incoming> f, const chunk_frame& c,
                                  std::span<const std::byte> bytes) {
  while (f->next != c.index && f->why.empty()) {
    f->turn.reset();
    co_await f->turn.wait();
  }
  if (!f->why.empty()) co_return 0;
  static constexpr std::array<std::byte, smallest_chunk> zeros{};
  int error = 0;
  auto work = [&](std::size_t, const std::atomic<bool>& canceled) noexcept {
    error = write_to_end(output_, bytes, canceled);
    std::size_t left = c.is_hole != 0 ? c.bytes : 0;
    while (left != 0 && error == 0) {
      const std::size_t now = std::min(left, zeros.size());
      error = write_to_end(output_, std::span(zeros).first(now), canceled);
      left -= now;
    }
  };
  crew_job writing = crew_.run(work);
  co_await writing;
  ++f->next;
  f->turn.set();
  co_return error;
}

task<void> sender::send_stream(std::uint32_t file) {
  entry& e = entries_[file];
  const cordma::unique_fd from(sources_.open(e, 0));
  file_end end;
  end.file = file;
  for (std::uint64_t index = 0;; ++index) {
    co_await pace(options_.chunk_bytes);
    const place to = co_await free_place();
    const cordma::Slice buffer = co_await free_buffer();
    int got = 0;
    auto work = [&](std::size_t, const std::atomic<bool>& canceled) noexcept {
      got = read_to_end(from.get(), buffer.bytes(), canceled);
    };
    crew_job reading = crew_.run(work);
    co_await reading;
    if (!result_.problems.empty()) got = -ECANCELED;  // the receiver reported an error
    if (got > 0) {
      const auto bytes = static_cast<std::uint32_t>(got);
      end.bytes += bytes;
      progress_.bytes_found += bytes;
      scope_->spawn(put_chunk({file, to.slot, index, bytes, 0, 0}, to.lane, buffer));
    } else {
      give_back(to);
      give_back(buffer);
    }
    if (got == static_cast<int>(buffer.size())) continue;
    if (got < 0) {
      end.outcome = file_end::how::failed;
      end.why = std::strerror(-got);
    }
    break;
  }
  e.size = end.bytes;
  encode(lanes_.front()->out(), end);
  lanes_.front()->kick();
  answered(file);
  ++progress_.files_done;
}

}  // namespace copy
