// Streams: each byte is a function of its position.
#include "program.hpp"

#include <algorithm>
#include <utility>

namespace cordma::schedule {

namespace {

constexpr std::size_t piece_bytes = 3000;
constexpr std::size_t mapped_bytes = 8000;
constexpr std::size_t most_mapped = 4;  // of each side

// One side of the stream.
struct side {
  link* of;
  Stream* stream;
  host_at* at;
  std::size_t mine;  // 0: the client
  // number of the flow that it writes
  [[nodiscard]] std::uint64_t out() const { return mine == 0 ? 1 : 0; }
  [[nodiscard]] std::uint64_t in() const { return 1 - out(); }
};

std::byte stream_byte(std::uint64_t flow, std::uint64_t place) {
  return static_cast<std::byte>((place + flow) * 167 >> 2);
}

std::uint64_t seed_of(const side& s, std::uint32_t number, std::size_t offset) {
  return 5'000'000'029 + number * 100'003 + offset + s.mine;
}

// Sometimes cancels, or does not wait; then no byte was read or written, and it returns -1.
template <class Op>
task<std::int64_t> carry_out(world* w, Op op) {
  const bool gives_up = w->chance.below(16) == 0;
  if (gives_up) {
    op.start();
    co_await sleep_for(tick * w->chance.below(100));
    op.cancel();
  }
  const bool will_not_wait = !gives_up && w->chance.below(16) == 0;
  if (will_not_wait) op.or_again();
  const result<std::size_t> end = co_await op.result();
  if (end) co_return static_cast<std::int64_t>(*end);
  if (will_not_wait && end.code() == errc::again) {
    ++w->sum->turned_away;
    co_return -1;
  }
  if (!gives_up || end.code() != errc::canceled) throw_error(end.why());
  ++w->sum->stream_cancels;
  co_return -1;
}

// Writes to the peer's memory, before the byte that is written next. Null: not now.
std::optional<send_operation> write_at(world& w, const side& s, const MemoryRegion& from,
                                       std::uint64_t place) {
  std::vector<mapped_at>& all = s.of->mapped[1 - s.mine];
  if (all.empty()) return {};
  mapped_at& there = all[w.chance.below(all.size())];
  const std::size_t bytes = 1 + w.chance.below(500);
  if (there.used + bytes > mapped_bytes) return {};
  if (w.chance.below(20) == 0) {
    send_operation outside =
        s.stream->write_at(there.number, mapped_bytes - bytes + 1, from.all().first(bytes));
    outside.start();
    const bool refused = outside.done() && !outside.take_result();
    if (!refused) w.wrong("written outside of what is mapped");
    return {};
  }
  const Slice slice = from.all().part(there.number * mapped_bytes + there.used, bytes);
  test::fill(slice.bytes(), seed_of(s, there.number, there.used));
  send_operation op = s.stream->write_at(there.number, there.used, slice);
  op.start();
  // Until the peer's mapping has been received the region is not found.
  if (op.done()) return op;
  there.marks.push_back({place, there.used, bytes});
  there.used += bytes;
  ++w.sum->written_at;
  return op;
}

// Checks the peer's writes that precede the bytes read so far.
void check_mapped(world& w, const side& s, std::uint64_t read) {
  const side peer{s.of, nullptr, nullptr, 1 - s.mine};
  for (mapped_at& here : s.of->mapped[s.mine]) {
    while (!here.marks.empty() && here.marks.front().place < read) {
      const mapped_at::mark m = here.marks.front();
      here.marks.pop_front();
      const std::span<const std::byte> got = here.memory.bytes().subspan(m.offset, m.bytes);
      const bool right = test::filled(got, seed_of(peer, here.number, m.offset));
      if (!right) w.wrong("a byte came before what is mapped");
    }
  }
}

task<> write_stream(world* w, const side* s, bool* all) {
  task_context& me = co_await this_task();
  const MemoryRegion room = sure_memory(*w, *s->at, piece_bytes, access::remote_read);
  const MemoryRegion apart =
      sure_memory(*w, *s->at, most_mapped * mapped_bytes, access::remote_read);
  std::vector<std::byte> unregistered(piece_bytes);
  std::deque<send_operation> apart_ops;
  std::uint64_t done = 0;
  while (done < s->of->stream_bytes) {
    if (w->chance.below(4) == 0) {
      std::optional<send_operation> op = write_at(*w, *s, apart, done);
      if (op) apart_ops.push_back(std::move(*op));
    }
    const std::uint64_t n = std::min(s->of->stream_bytes - done, 1 + w->chance.below(piece_bytes));
    const bool copied = w->chance.below(2) == 0;
    const std::span<std::byte> piece = copied ? std::span(unregistered) : room.bytes();
    for (std::uint64_t i = 0; i < n; ++i) piece[i] = stream_byte(s->out(), done + i);
    if (!copied && w->chance.below(4) == 0) {
      const std::uint64_t first = w->chance.below(n + 1);
      stream_write_operation one = s->stream->write(room.all().first(first)).start();
      stream_write_operation next = s->stream->write(room.all().part(first, n - first)).start();
      // A canceled task cancels the operation that it awaits. It awaits the second write first,
      // which depends on the first one.
      const std::size_t of_next = co_await next;
      const std::size_t of_one = co_await one;
      if (of_one + of_next != n) {
        const cancel_source* const canceler = me.cancellation();
        if (canceler == nullptr || !canceler->requested()) w->wrong("a write that is not whole");
        throw_error(errc::canceled);
      }
      done += n;
      ++w->sum->uncopied;
      continue;
    }
    stream_write_operation op =
        copied ? s->stream->write_some(std::span<const std::byte>(piece).first(n))
               : s->stream->write(room.all().first(n));
    const std::int64_t taken = co_await carry_out(w, std::move(op));
    if (taken < 0) continue;
    done += static_cast<std::uint64_t>(taken);
    w->sum->uncopied += copied ? 0U : 1U;
    if (w->chance.below(8) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  for (send_operation& op : apart_ops) {
    const result<void> end = co_await op.result();
    if (end.code() == errc::invalid_value) w->wrong("a write into what is mapped, refused");
    if (!end && end.code() != errc::not_found) throw_error(end.why());
  }
  static_cast<void>(s->stream->shutdown_send());
  *all = true;
}

bool are_right(std::span<const std::byte> got, std::uint64_t flow, std::uint64_t place) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != stream_byte(flow, place + i)) return false;
  }
  return true;
}

// Consumes bytes that have already arrived, without a copy.
std::size_t take_in_place(world& w, const side& s, std::uint64_t done) {
  const std::span<const std::byte> here = s.stream->peek();
  if (here.empty()) return 0;
  const std::size_t n = 1 + w.chance.below(here.size());
  if (!are_right(here.first(n), s.in(), done)) w.wrong("a wrong byte in a stream, where it lies");
  s.stream->consume(n);
  w.sum->peeked += n;
  return n;
}

task<> read_stream(world* w, const side* s, bool* to_the_end) {
  std::vector<std::byte> room(4000);
  std::uint64_t done = 0;
  for (;;) {
    std::size_t n = w->chance.below(3) == 0 ? take_in_place(*w, *s, done) : 0;
    if (n == 0) {
      const std::span<std::byte> into = std::span(room).first(1 + w->chance.below(room.size()));
      stream_read_operation op = s->stream->read_some(into);
      const std::int64_t got = co_await carry_out(w, std::move(op));
      if (got < 0) continue;
      n = static_cast<std::size_t>(got);
      if (n == 0) break;
      if (!are_right(into.first(n), s->in(), done)) co_return w->wrong("a wrong byte in a stream");
    }
    done += n;
    w->sum->bytes += n;
    check_mapped(*w, *s, done);
    if (w->chance.below(8) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  *to_the_end = true;
  if (done != s->of->stream_bytes) co_return w->wrong("a stream that ended early, and well");
}

// Maps before anything is written, so that the mapping is known once anything has been read.
void map_some(world& w, const side& s) {
  for (std::size_t n = w.chance.below(2) * (1 + w.chance.below(most_mapped)); n > 0; --n) {
    w.rooms.push_back(std::make_unique<std::byte[]>(mapped_bytes));
    mapped_at here;
    here.memory = s.at->context
                      ->register_memory({w.rooms.back().get(), mapped_bytes},
                                        access::local_write | access::remote_write)
                      .value();
    const result<std::uint32_t> number = s.stream->map(here.memory);
    if (!number) return;
    here.number = *number;
    s.of->mapped[s.mine].push_back(std::move(here));
    ++w.sum->mapped;
  }
}

task<> close_and_note(Stream* of, bool* well) {
  try {
    co_await of->close();
    *well = true;
  } catch (const error&) {  // of the faults, or of a peer with a destroyed stream
  }
}

task<> without_errors(task<> body) {
  try {
    co_await std::move(body);
  } catch (const error&) {  // caused by faults
  }
}

task<> read_or_go(world* w, const side* s, stream_end* end) {
  try {
    co_await read_stream(w, s, &end->read);
  } catch (const error& e) {
    // Its Worker was destroyed before all received bytes were read.
    if (e.why().code() == errc::shutdown) end->reads = false;
  }
}

}  // namespace

task<> use_stream(world* w, link* l, bool client) {
  host_at& at = client ? *l->client_at : *l->server_at;
  const stream_options small{.window_bytes = static_cast<std::uint32_t>(1 + w->chance.below(5000)),
                             .notices = static_cast<std::uint32_t>(16 + w->chance.below(20))};
  const stream_options o = w->chance.below(4) == 0 ? stream_options() : small;
  Endpoint mine = std::move(client ? l->client : l->server);
  Stream stream = co_await Stream::open(*at.context, std::move(mine), o);
  const side s{l, &stream, &at, client ? 0U : 1U};
  stream_end& end = l->stream_ends[s.mine];
  map_some(*w, s);
  // Two sides that do not read would wait for each other.
  if (l->stream_ends[1 - s.mine].reads) end.reads = w->chance.below(10) != 0;
  bool written = false;
  task_context& me = co_await this_task();
  scope both(me);
  // Reading continues after writing has failed: received bytes can still be read.
  both.spawn(without_errors(write_stream(w, &s, &written)));
  if (end.reads) both.spawn(read_or_go(w, &s, &end));
  if (w->chance.below(10) == 0) {
    ++w->sum->torn;
    co_await sleep_for(tick * w->chance.below(3000));
    both.cancel();
    co_await both.join();
    co_return;
  }
  co_await both.join();
  co_await close_and_note(&stream, &end.closed);
  end.cause = stream.endpoint().first_cause()->code();
  end.written = written;
}

void judge_stream(world& w, const link& l) {
  for (const std::size_t mine : {0U, 1U}) {
    const stream_end& here = l.stream_ends[mine];
    const stream_end& there = l.stream_ends[1 - mine];
    const bool well = here.closed && there.cause != errc::ok;
    if (!well || !here.written || !there.reads) continue;
    ++w.sum->streams_well;
    if (!there.read) w.wrong("a stream that was closed well, and not read to its end");
  }
}

}  // namespace cordma::schedule
