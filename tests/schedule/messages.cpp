// Tagged and active messages: every one is stamped, so that each arrival tells what it has to be.
#include "program.hpp"

#include <algorithm>
#include <cstring>

namespace cordma::schedule {

namespace {

// What every message begins with.
struct stamp {
  std::uint64_t flow;
  std::uint64_t number;
};

std::uint64_t seed_of(const stamp& s) { return s.flow * 1'000'003 + s.number; }

void write_message(std::span<std::byte> bytes, const stamp& s) {
  test::fill(bytes, seed_of(s));
  std::memcpy(bytes.data(), &s, sizeof s);
}

// What has arrived, of which `whole` bytes were sent.
void check_arrival(world& w, std::span<const std::byte> got, std::uint64_t whole, bool active,
                   const host_at& at) {
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
  if (active || !at.one_by_one) return;
  std::uint64_t& next = f.next_of_tag[m.tag];
  if (s.number < next) return w.wrong("a message overtook another of its tag");
  next = s.number + 1;
}

struct pending_send {
  message_send_operation op;
  std::uint64_t number;
};

void settle(world& w, flow& f, const pending_send& p, const result<void>& end) {
  sent_message& m = f.messages[p.number];
  switch (end.code()) {
    case errc::ok: m.outcome = fate::ok; break;
    case errc::canceled:
      m.outcome = fate::canceled;
      ++w.sum->canceled;
      break;
    case errc::truncated:
      m.outcome = fate::truncated;
      ++w.sum->truncated;
      break;
    case errc::rejected: m.outcome = fate::rejected; break;
    default: m.outcome = fate::failed;
  }
}

// Cuts off what is longer than the slice, and `perhaps` gives up after a while. What it ended with, all
// checked.
task<errc> receive_one(world* w, host_at* at, tag_recv_operation op, Slice into, bool perhaps) {
  op.start();
  if (perhaps) {
    co_await sleep_for(tick * w->chance.below(500));
    op.cancel();
  }
  const result<TagReceived> got = co_await op.result();
  if (got) {
    check_arrival(*w, into.bytes().first(got->bytes), got->bytes, false, *at);
  } else if (got.code() == errc::truncated) {
    stamp s;
    std::memcpy(&s, into.data(), sizeof s);
    const bool known = s.flow < w->flows.size() && s.number < w->flows[s.flow]->messages.size();
    const std::uint64_t whole = known ? w->flows[s.flow]->messages[s.number].bytes : 0;
    const std::uint64_t here = std::min<std::uint64_t>(into.size(), whole);
    check_arrival(*w, into.bytes().first(here), whole, false, *at);
  }
  co_return got.code();
}

Slice shortened(world& w, const MemoryRegion& room) {
  const bool cut_off = w.chance.below(20) == 0;
  return room.all().first(cut_off ? sizeof(stamp) + w.chance.below(500) : largest);
}

}  // namespace

task<> send_messages(world* w, flow* f, std::uint64_t count) {
  const std::size_t window = 1 + w->chance.below(8);
  const MemoryRegion room = memory(*w, *f->from, window * largest, access::remote_read);
  std::deque<pending_send> pending;
  for (std::uint64_t i = 0; i < count && !w->over; ++i) {
    if (pending.size() == window) {
      const result<void> end = co_await pending.front().op.result();
      settle(*w, *f, pending.front(), end);
      pending.pop_front();
      if (w->over) co_return;
    }
    const bool active = w->chance.below(4) == 0;
    const auto bytes = static_cast<std::uint32_t>(
        sizeof(stamp) + w->chance.below(w->chance.below(2) == 0 ? 64 : largest - sizeof(stamp)));
    sent_message m;
    m.tag = w->chance.below(tags);
    m.bytes = bytes;
    m.active = active;
    f->messages.push_back(m);
    const Slice slice = room.all().part((i % window) * largest, bytes);
    write_message(slice.bytes(), {.flow = f->number, .number = i});
    pending.push_back({active ? f->out->am_send(handler_id, slice.bytes().first(8), slice)
                              : f->out->tag_send(m.tag, slice),
                       i});
    pending.back().op.start();
    ++w->sum->messages;
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
  const MemoryRegion room = memory(*w, *at, largest, access::remote_write);
  while (!w->over) {
    const bool by_tag = !at->one_by_one && w->chance.below(2) == 0;
    const std::uint64_t any = at->one_by_one ? first_of_endpoint : 0;
    const Slice into = shortened(*w, room);
    const bool perhaps = by_tag || w->chance.below(8) == 0;  // what it wants may never come
    tag_recv_operation op =
        at->messages->tag_recv(w->chance.below(first_of_endpoint), into, by_tag ? 1 : any);
    const errc end = co_await receive_one(w, at, std::move(op), into, perhaps);
    if (end == errc::shutdown) co_return;
  }
}

task<> receive_at_endpoint(world* w, flow* f) {
  MemoryRegion room;
  try {
    room = sure_memory(*w, *f->to, largest, access::remote_write);
  } catch (const error&) {  // of a host that was killed; it is not to end the other receivers
    co_return;
  }
  const auto is_open = [f] {
    const endpoint_state s = f->in->state();
    return s == endpoint_state::connecting || s == endpoint_state::connected;
  };
  while (!w->over && is_open()) {
    const bool every = !f->to->one_by_one && w->chance.below(2) == 0;
    const Slice into = shortened(*w, room);
    const bool perhaps = w->chance.below(8) == 0;
    tag_recv_operation op = f->in->tag_recv(first_of_endpoint, every ? 0 : first_of_endpoint, into);
    const errc end = co_await receive_one(w, f->to, std::move(op), into, perhaps);
    const bool received = end == errc::ok || end == errc::truncated;
    w->sum->by_endpoint += received ? 1U : 0U;
    if (received || end == errc::canceled || w->over) continue;
    co_await sleep_for(1000 * tick);  // for the end of the connection to be known
    if (w->over || f->in->state() != endpoint_state::connected) co_return;
    co_return w->wrong(std::string(name(end)) + ": a receive on a good connection");
  }
}

task<> handle_message(world* w, host_at* at, ActiveMessage m) {
  if (w->chance.below(3) == 0) co_await sleep_for(tick * w->chance.below(200));
  if (m.data().size() == m.size()) {
    check_arrival(*w, m.data(), m.size(), true, *at);
    co_return;
  }
  const MemoryRegion room = memory(*w, *at, largest, access::remote_write);
  const result<TagReceived> got = co_await m.read(room.all()).result();
  if (got) check_arrival(*w, room.bytes().first(got->bytes), got->bytes, true, *at);
}

bool all_messages_arrived(const world& w) {
  for (const flow* f : w.flows) {
    if (f->of->stream || !lives(*f->of)) continue;
    for (const sent_message& m : f->messages) {
      if ((m.outcome == fate::ok || m.outcome == fate::truncated) && m.arrived == 0) return false;
    }
  }
  return true;
}

void judge_messages(world& w) {
  for (const flow* f : w.flows) {
    if (f->of->stream || !f->of->connected) continue;
    for (const sent_message& m : f->messages) {
      const bool expected = m.outcome != fate::canceled && m.outcome != fate::none;
      if (m.arrived != 0 && !expected) w.wrong("a message arrived that was canceled");
      if (m.outcome == fate::failed && lives(*f->of)) {
        w.wrong("a message failed on a good connection");
      }
    }
  }
}

}  // namespace cordma::schedule
