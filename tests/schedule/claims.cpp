// Messages that are inspected before there is memory for them: probes, and claims that are read,
// read later, or dropped.
#include "program.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace cordma::schedule {

namespace {

// The message must be the same at both calls.
void check_same(world& w, const TagReceived& seen, std::uint64_t tag, std::uint64_t bytes,
                const Endpoint* from) {
  if (seen.tag != tag || seen.bytes != bytes || seen.from != from) {
    w.wrong("what was probed is not what came");
  }
}

void check_short(world& w, const TaggedMessage& m, bool ordered, const host_at& at) {
  if (m.data().size() != m.size()) return w.wrong("a claimed message that is not whole");
  check_arrival(w, m.data(), m.size(), false, ordered, at);
}

task<> read_claimed(world* w, host_at* at, TaggedMessage* m, const MemoryRegion* room,
                    bool ordered) {
  const bool is_short = !m->data().empty();
  if (is_short && w->chance.below(2) == 0) {
    co_return check_short(*w, *m, ordered, *at);
  }
  const std::uint64_t size = m->size();
  const Slice into = room->all().first(w->chance.below(20) == 0 ? 16 : w->longest);
  const result<TagReceived> got = co_await m->read(into).result();
  check_received(*w, got, into, ordered, *at);
  if (got && got->bytes != size) w->wrong("a claimed message of another size");
  if (got.code() == errc::truncated && size <= into.size()) w->wrong("a claim that would have fit");
  if (got.code() == errc::canceled && !w->over) w->wrong("a claim that nobody canceled");
  if (w->over) co_return;
  const result<TagReceived> again = co_await m->read(into).result();
  if (again.code() != errc::bad_state && again.code() != errc::shutdown) {
    w->wrong("a message was read twice");
  }
}

void drop(world& w, const host_at& at, const TaggedMessage& m) {
  if (!m.data().empty()) return check_short(w, m, at.one_by_one, at);
  const auto here = std::ranges::find_if(w.flows, [&m](const flow* f) {
    return f->of != nullptr && f->in != nullptr && f->in == m.from();
  });
  if (here == w.flows.end()) return;
  ++w.sum->claims_dropped;
  ++(*here)->refused[{m.tag(), m.size()}];
}

// Other messages are claimed meanwhile.
task<> read_later(world* w, host_at* at, TaggedMessage m, std::unique_ptr<hold> until_then) {
  const std::unique_ptr<hold> until_the_end = std::move(until_then);
  TaggedMessage mine(std::move(m));
  ++w->sum->claims_late;
  try {
    const MemoryRegion room = sure_memory(*w, *at, w->longest, access::remote_write);
    co_await sleep_for(tick * w->chance.below(2000));
    co_await read_claimed(w, at, &mine, &room, false);
  } catch (const error&) {  // of a killed host; it must not end the other receivers
  }
}

// Takes the message that any receive would get next, or one of that tag. True if there was one.
task<bool> take_one(world* w, host_at* at, const MemoryRegion* room) {
  const std::uint64_t tag = w->chance.below(first_of_endpoint);
  const std::uint64_t mask = at->one_by_one ? first_of_endpoint : w->chance.below(2);
  const std::optional<TagReceived> seen = at->messages->tag_probe(tag, mask);
  if (!seen) co_return false;
  ++w->sum->probed;
  if (w->chance.below(3) == 0) {
    const Slice into = room->all().first(w->longest);
    tag_recv_operation op = at->messages->tag_recv(tag, into, mask);
    op.start();
    const result<TagReceived> got = co_await op.result();
    check_received(*w, got, into, at->one_by_one, *at);
    if (got) check_same(*w, *seen, got->tag, got->bytes, seen->from);
    co_return true;
  }
  std::optional<TaggedMessage> claimed = at->messages->tag_claim(tag, mask);
  if (!claimed) {
    w->wrong("a message that was probed is not there");
    co_return false;
  }
  ++w->sum->claimed;
  check_same(*w, *seen, claimed->tag(), claimed->size(), claimed->from());
  const std::size_t way = w->chance.below(6);
  if (way == 0) {
    drop(*w, *at, *claimed);
  } else if (way == 1) {
    w->receivers->spawn(read_later(w, at, std::move(*claimed), std::make_unique<hold>(*at)));
  } else {
    const hold until_the_end(*at);
    co_await read_claimed(w, at, &*claimed, room, at->one_by_one);
    claimed.reset();
  }
  co_return true;
}

}  // namespace

task<> claim_messages(world* w, host_at* at) {
  const MemoryRegion room = sure_memory(*w, *at, w->longest, access::remote_write);
  while (!w->over && at->messages) {
    const bool found = co_await take_one(w, at, &room);
    if (!found || w->chance.below(4) == 0) {
      co_await sleep_for(tick * (1 + w->chance.below(200)));
    }
  }
}

}  // namespace cordma::schedule
