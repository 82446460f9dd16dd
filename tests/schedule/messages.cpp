// Tagged and active messages: each is stamped, so that its expected contents are known on arrival.
#include "program.hpp"

#include <algorithm>
#include <cstring>

namespace cordma::schedule {

namespace {

// The first bytes of every message.
struct stamp {
  std::uint64_t flow;
  std::uint64_t number;
};

std::uint64_t seed_of(const stamp& s) { return s.flow * 1'000'003 + s.number; }

void write_message(std::span<std::byte> bytes, const stamp& s) {
  test::fill(bytes, seed_of(s));
  std::memcpy(bytes.data(), &s, sizeof s);
}

}  // namespace

void check_arrival(world& w, std::span<const std::byte> got, std::uint64_t whole, bool active,
                   bool ordered, const host_at& at) {
  stamp s;
  if (got.size() < sizeof s) return w.wrong("a message without a stamp");
  std::memcpy(&s, got.data(), sizeof s);
  if (s.flow >= w.flows.size() || s.number >= w.flows[s.flow]->messages.size()) {
    return w.wrong("a stamp that nobody wrote");
  }
  flow& f = *w.flows[s.flow];
  sent_message& m = f.messages[s.number];
  std::vector<std::byte> expected(m.bytes);
  write_message(expected, s);
  if (whole != m.bytes || !std::ranges::equal(got, std::span(expected).first(got.size()))) {
    return w.wrong("wrong bytes");
  }
  if (f.to != &at || m.active != active) return w.wrong("a message at the wrong place");
  if (++m.arrived > 1) return w.wrong("a message arrived twice");
  w.sum->longest = std::max<std::uint64_t>(w.sum->longest, got.size());
  // Over a pool the messages of a flow arrive over several connections.
  if (active || !ordered || f.of == nullptr) return;
  std::uint64_t& next = f.next_of_tag[m.tag];
  if (s.number < next) return w.wrong("a message overtook another of its tag");
  next = s.number + 1;
}

void check_received(world& w, const result<TagReceived>& got, const Slice& into, bool ordered,
                    const host_at& at) {
  if (got) return check_arrival(w, into.bytes().first(got->bytes), got->bytes, false, ordered, at);
  if (got.code() != errc::truncated) return;
  stamp s;
  std::memcpy(&s, into.data(), sizeof s);
  const bool known = s.flow < w.flows.size() && s.number < w.flows[s.flow]->messages.size();
  const std::uint64_t whole = known ? w.flows[s.flow]->messages[s.number].bytes : 0;
  const std::uint64_t here = std::min<std::uint64_t>(into.size(), whole);
  check_arrival(w, into.bytes().first(here), whole, false, ordered, at);
}

void settle(world& w, flow& f, const pending_send& p, const result<void>& end) {
  sent_message& m = f.messages[p.number];
  if (m.after_end && end.code() != errc::not_connected && end.code() != errc::shutdown) {
    w.wrong("a message after the end: " + std::string(name(end.code())));
  }
  switch (end.code()) {
    case errc::ok: m.outcome = fate::ok; break;
    case errc::canceled:
      m.outcome = fate::canceled;
      ++w.sum->canceled;
      break;
    case errc::again:
      m.outcome = fate::canceled;
      ++w.sum->turned_away;
      if (!m.will_not_wait) w.wrong("a message would not wait, though it may");
      break;
    case errc::truncated:
      m.outcome = fate::truncated;
      ++w.sum->truncated;
      break;
    case errc::rejected:
      m.outcome = fate::rejected;
      if (!m.active) --f.refused[{m.tag, m.bytes}];
      break;
    case errc::invalid_value:
    case errc::bad_state:
    case errc::no_lock:
      w.wrong("a message ended with " + std::string(name(end.code())));
      [[fallthrough]];
    default: m.outcome = fate::failed;
  }
}

std::size_t random_length(world& w) {
  test::dice& d = w.chance;
  const std::size_t most = d.below(2) == 0 ? 64 : d.below(8) == 0 ? w.longest : largest;
  return sizeof(stamp) + d.below(most - sizeof(stamp));
}

void start_message(world& w, flow& f, Endpoint& out, const Slice& bytes, kinds which,
                   std::deque<pending_send>& pending) {
  constexpr std::uint64_t am_header = 8;
  const std::uint64_t i = f.messages.size();
  sent_message m;
  m.active = w.chance.below(4) == 0;
  m.tag = w.chance.below(which == kinds::all ? tags : first_of_endpoint);
  m.bytes = static_cast<std::uint32_t>(bytes.size());
  m.announced = 16 + (m.active ? am_header : 0) + m.bytes > f.to->eager_bytes;
  m.after_end = f.of != nullptr && ended_from(f);
  m.will_not_wait = w.chance.below(12) == 0;
  f.messages.push_back(m);
  write_message(bytes.bytes(), {.flow = f.number, .number = i});
  pending.push_back({m.active ? out.am_send(handler_id, bytes.bytes().first(am_header), bytes)
                              : out.tag_send(m.tag, bytes),
                     i});
  if (m.will_not_wait) pending.back().op.or_again();
  pending.back().op.start();
  ++w.sum->messages;
  w.sum->announced += m.announced ? 1U : 0U;
}

namespace {

// Truncates a message that is longer than the slice; if `perhaps`, cancels after a while. Checks
// the outcome and returns it.
task<errc> receive_one(world* w, host_at* at, tag_recv_operation op, Slice into, bool perhaps) {
  op.start();
  if (perhaps) {
    co_await sleep_for(tick * w->chance.below(500));
    op.cancel();
  }
  const result<TagReceived> got = co_await op.result();
  check_received(*w, got, into, at->one_by_one, *at);
  co_return got.code();
}

Slice shortened(world& w, const MemoryRegion& room) {
  const bool cut_off = w.chance.below(20) == 0;
  return room.all().first(cut_off ? sizeof(stamp) + w.chance.below(500) : w.longest);
}

}  // namespace

task<> send_messages(world* w, flow* f, std::uint64_t count) {
  const std::size_t window = 1 + w->chance.below(w->longest > largest ? 3 : 8);
  const MemoryRegion room = memory(*w, *f->from, window * w->longest, access::remote_read);
  std::deque<pending_send> pending;
  for (std::uint64_t i = 0; i < count && !w->over; ++i) {
    if (pending.size() == window) {
      const result<void> end = co_await pending.front().op.result();
      settle(*w, *f, pending.front(), end);
      pending.pop_front();
    }
    if (w->over || f->out == nullptr) break;
    const Slice bytes = room.all().part((i % window) * w->longest, random_length(*w));
    start_message(*w, *f, *f->out, bytes, kinds::all, pending);
    if (w->chance.below(10) == 0) pending[w->chance.below(pending.size())].op.cancel();
    if (w->chance.below(4) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  while (!pending.empty()) {
    const result<void> end = co_await pending.front().op.result();
    settle(*w, *f, pending.front(), end);
    pending.pop_front();
  }
}

task<> receive_messages(world* w, host_at* at) {
  const MemoryRegion room = memory(*w, *at, w->longest, access::remote_write);
  while (!w->over && at->messages) {
    const bool by_tag = !at->one_by_one && w->chance.below(2) == 0;
    const std::uint64_t any = at->one_by_one ? first_of_endpoint : 0;
    const Slice into = shortened(*w, room);
    // the matching message may never arrive
    const bool perhaps = by_tag || w->chance.below(8) == 0;
    tag_recv_operation op =
        at->messages->tag_recv(w->chance.below(first_of_endpoint), into, by_tag ? 1 : any);
    const errc end = co_await receive_one(w, at, std::move(op), into, perhaps);
    if (end == errc::shutdown) co_return;
  }
}

// Receives after the end too: messages that arrived before it can still be received.
task<> receive_at_endpoint(world* w, flow* f) {
  // more than the rendezvous messages of one peer, which end with it
  constexpr int most_refusals = 40;
  MemoryRegion room;
  try {
    room = sure_memory(*w, *f->to, w->longest, access::remote_write);
  } catch (const error&) {  // of a killed host; it must not end the other receivers
    co_return;
  }
  int refusals = 0;
  while (!w->over && f->in != nullptr && refusals < most_refusals) {
    const bool every = !f->to->one_by_one && w->chance.below(2) == 0;
    const Slice into = shortened(*w, room);
    const bool perhaps = w->chance.below(8) == 0;
    tag_recv_operation op = f->in->tag_recv(first_of_endpoint, every ? 0 : first_of_endpoint, into);
    const errc end = co_await receive_one(w, f->to, std::move(op), into, perhaps);
    const bool received = end == errc::ok || end == errc::truncated;
    w->sum->by_endpoint += received ? 1U : 0U;
    if (received || end == errc::canceled || w->over || f->in == nullptr) continue;
    if (++refusals == 1)
      co_await sleep_for(1000 * tick);  // until the end of the connection is reported
    if (w->over || f->in == nullptr || f->in->state() != endpoint_state::connected) continue;
    co_return w->wrong(std::string(name(end)) + ": a receive on a good connection");
  }
}

task<> handle_message(world* w, host_at* at, ActiveMessage m) {
  if (w->chance.below(3) == 0) co_await sleep_for(tick * w->chance.below(200));
  if (m.data().size() == m.size()) {
    check_arrival(*w, m.data(), m.size(), true, false, *at);
    co_return;
  }
  const MemoryRegion room = memory(*w, *at, w->longest, access::remote_write);
  const result<TagReceived> got = co_await m.read(room.all()).result();
  if (got) check_arrival(*w, room.bytes().first(got->bytes), got->bytes, true, false, *at);
}

namespace {

// True if all messages sent there have to arrive.
bool is_kept(const world& w, const flow& f) {
  if (f.of != nullptr) {
    return !f.of->stream && (lives(*f.of) || (closed_well(*f.of) && ended_from(f)));
  }
  // A completed put message is lost with a connection that breaks, and a pool does not report the
  // break.
  return !w.breaks && f.from->alive && f.to->alive && f.from->sound && f.to->sound &&
         !f.to->stopped;
}

// The sender of a rendezvous message completes after the receiver's acknowledgement.
bool was_received(const flow& f, const sent_message& m) {
  return m.announced && f.to->sound && !f.to->stopped;
}

void judge_flow(world& w, const flow& f) {
  for (const sent_message& m : f.messages) {
    const bool went = m.outcome == fate::ok || m.outcome == fate::truncated;
    const bool unexpected = m.outcome == fate::canceled || m.outcome == fate::rejected;
    if (m.arrived != 0 && unexpected) w.wrong("a message arrived that was canceled, or rejected");
    if (went && m.arrived == 0 && was_received(f, m))
      w.wrong("a message is lost that was received");
    if (m.outcome != fate::failed || f.of == nullptr) continue;
    if (lives(*f.of)) w.wrong("a message failed on a good connection");
    if (!m.after_end && closed_well(*f.of) && ended_from(f)) {
      w.wrong("a message failed that was started before a graceful close");
    }
  }
  if (f.of == nullptr || !lives(*f.of)) return;
  for (const auto& [what, count] : f.refused) {
    if (count > 0) w.wrong("a message was dropped, and its sender does not know");
    if (count < 0) w.wrong("a message was rejected, and nobody dropped it");
  }
}

}  // namespace

bool all_messages_arrived(const world& w) {
  for (const flow* f : w.flows) {
    const bool kept = is_kept(w, *f);
    for (const sent_message& m : f->messages) {
      const bool went = m.outcome == fate::ok || m.outcome == fate::truncated;
      if (went && m.arrived == 0 && (kept || was_received(*f, m))) return false;
    }
  }
  return true;
}

void judge_messages(world& w) {
  for (const flow* f : w.flows) judge_flow(w, *f);
}

}  // namespace cordma::schedule
