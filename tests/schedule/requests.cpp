// Requests: the bytes of each carry its number, which also determines its response, so that both
// sides can be compared.
#include "program.hpp"

#include <cordma/net/rpc/request_core.hpp>
#include <cordma/runtime/timeout.hpp>

#include <cstring>
#include <string_view>
#include <type_traits>

namespace cordma::schedule {

namespace {

constexpr std::uint16_t served_method = 7;
constexpr std::uint16_t unserved_method = 8;
constexpr std::uint64_t of_requests =
    1'000'000'007;  // seeds of sent, received, and untouched bytes
constexpr std::uint64_t of_responses = 2'000'000'011;
constexpr std::uint64_t of_nobody = 3'000'000'019;
constexpr std::size_t kept_in_sight = 4;  // rooms of ended calls

void write_bytes(std::span<std::byte> bytes, std::uint64_t number) {
  test::fill(bytes, of_requests + number);
  std::memcpy(bytes.data(), &number, sizeof number);
}

// The request with these bytes; null: none.
asked_request* recognize(world& w, std::span<const std::byte> bytes, const host_at& at) {
  std::uint64_t number = 0;
  if (bytes.size() >= sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  if (number >= w.asked.size()) {
    w.wrong("a request that nobody made");
    return nullptr;
  }
  asked_request& a = w.asked[number];
  std::vector<std::byte> expected(a.bytes);
  write_bytes(expected, number);
  if (!std::ranges::equal(bytes, expected)) {
    w.wrong("wrong bytes of a request");
    return nullptr;
  }
  if (a.to != nullptr && a.to != &at) w.wrong("a request at the wrong place");
  if (++a.runs - a.redirects > 1 && !a.repeatable) w.wrong("a request was served twice");
  return &a;
}

// ---- the serving side ----

// Counts the handler as running until its task ends in any way.
class handling {
 public:
  handling(world& w, asked_request& a) : world_(w), asked_(a) { world_.running.insert(name()); }
  handling(const handling&) = delete;
  handling& operator=(const handling&) = delete;
  ~handling() {
    asked_.handler_ended = true;
    world_.running.erase(world_.running.find(name()));
  }

 private:
  static std::string name() { return "handler"; }
  world& world_;
  asked_request& asked_;
};

// Checks the result of a response, as seen from the handler.
void check_answer(world& w, const asked_request& a, errc said) {
  if (w.over) return;
  if (a.how != manner::call && a.how != manner::try_call) {
    if (said == errc::ok) w.wrong("a response to a word");
    return;
  }
  switch (said) {
    case errc::ok:
      if (a.wanted > a.room) w.wrong("a response longer than its room");
      return;
    case errc::truncated:
      if (a.wanted <= a.room) w.wrong("a response that would have fit");
      return;
    case errc::canceled:
      if (!a.withdrawn && !a.timed) w.wrong("a request was withdrawn by nobody");
      return;
    case errc::timed_out:
      if (!a.timed) w.wrong("a deadline that nobody set");
      return;
    case errc::connection_reset: return;
    case errc::io_failed:
      if (w.net->faults().failed_requests == 0) w.wrong("a response failed by itself");
      return;
    default: w.wrong("a response ended with " + std::string(name(said)));
  }
}

task<> answer(world* w, host_at* at, Request* r, asked_request* a) {
  at->answers.push_back(memory(*w, *at, largest, access::remote_read));
  const Slice response = at->answers.back().all().first(a->wanted);
  test::fill(response.bytes(), of_responses + a->number);
  a->done = deed::answered;
  respond_operation op = r->respond(response);
  op.start();
  if (!w->calm && w->chance.below(10) == 0) {  // destroyed in flight
    co_await sleep_for(tick * w->chance.below(20));
    co_return;
  }
  const result<void> said = co_await op.result();
  check_answer(*w, *a, said.code());
  const result<void> again = co_await r->respond().result();
  if (again) w->wrong("a request was answered twice");
}

// Keeps the request beyond the end of its handler.
task<> answer_later(world* w, host_at* at, Request r, asked_request* a,
                    std::unique_ptr<hold> until_the_end) {
  static_cast<void>(until_the_end);
  co_await sleep_for(tick * w->chance.below(3000));
  co_await answer(w, at, &r, a);
}

task<> until_unwanted(Request* r, duration at_most) {
  try {
    event::wait_operation unwanted = r->until_unwanted();
    co_await with_timeout(at_most, std::move(unwanted));
  } catch (const error& e) {
    if (e.condition() != errc::timed_out) throw;
  }
}

task<> behave(world* w, host_at* at, Request r, asked_request* a) {
  const std::size_t way = w->calm ? 99 : w->chance.below(16);
  switch (way) {
    case 0: a->done = deed::threw; throw_error({errc::io_failed, "as asked"});
    case 1: a->done = deed::forgot; co_return;
    case 2: {
      a->done = deed::redirected;
      ++a->redirects;
      const result<void> said = co_await r.redirect(a->elsewhere).result();
      static_cast<void>(said.ok());
      co_return;
    }
    case 3:
      if (a->how != manner::call && a->how != manner::try_call) co_return;
      spawn(*w, "late answer ", 0,
            answer_later(w, at, std::move(r), a, std::make_unique<hold>(*at)));
      co_return;
    case 4: co_await until_unwanted(&r, tick * (1 + w->chance.below(3000))); break;
    case 5: co_await sleep_for(tick * w->chance.below(2000)); break;
    default: break;
  }
  co_await answer(w, at, &r, a);
}

task<> serve(world* w, host_at* at, Request r) {
  const bool is_long = r.size() != r.data().size();
  if (!w->calm && is_long && r.wants_response() && w->chance.below(20) == 0) co_return;  // unread
  asked_request* a = nullptr;
  if (!is_long) {
    a = recognize(*w, r.data(), *at);
  } else {
    const MemoryRegion own = memory(*w, *at, largest, access::remote_write);
    const result<TagReceived> got = co_await r.read(own.all().first(r.size())).result();
    if (!got) co_return;
    a = recognize(*w, own.bytes().first(got->bytes), *at);
  }
  if (a == nullptr) co_return;
  const handling until_the_end(*w, *a);
  const bool is_call = a->how == manner::call || a->how == manner::try_call;
  if (r.wants_response() != is_call) w->wrong("a call taken for a word, or a word for a call");
  if (is_call && r.room() != a->room) w->wrong("the room is told wrong");
  co_await behave(w, at, std::move(r), a);
}

// ---- the calling side ----

struct ending {
  errc code = errc::ok;
  std::size_t bytes = 0;
  std::string redirected;
};

template <class Op>
task<> finish(Op op, ending* to) {
  auto end = co_await op.result();
  to->code = end.code();
  to->redirected = op.redirected_to();
  if constexpr (std::is_same_v<Op, call_operation>) {
    if (end) to->bytes = end->bytes;
  }
}

template <class Op>
task<> carry_out(world* w, asked_request* a, Op op, ending* to) {
  const duration after = tick * w->chance.below(3000);
  switch (w->chance.below(12)) {
    case 0: {
      a->withdrawn = true;
      op.start();
      co_await sleep_for(after);
      op.cancel();
      co_await finish(std::move(op), to);
      co_return;
    }
    case 1: {
      a->withdrawn = true;
      task<> end = finish(std::move(op), to);
      co_await stopped_after(w, a->number, after, std::move(end));
      co_return;
    }
    case 2:
      a->withdrawn = a->abandoned = true;
      op.start();
      co_await sleep_for(after);
      co_return;
    default: co_await finish(std::move(op), to);
  }
}

// True if the deadline is kept under all faults, which requires that the peer does not access
// memory of the call.
bool keeps_deadline(const asked_request& a, const lent_memory& mine, const request_options& o) {
  constexpr std::uint32_t copied = 128;
  const bool writable = a.room != 0 && has(mine.region.rights(), access::remote_write);
  return a.timed && !writable && !o.force_read && a.bytes <= std::min(o.inline_max, copied);
}

task<> ask(world* w, flow* f, asked_request* asked, std::deque<lent_memory>* lent) {
  asked_request& a = *asked;
  lent_memory mine = write_request(*w, *f->from, a);
  call_options o;
  if (a.timed) o.timeout = tick * (1 + w->chance.below(6000));
  Requests& requests = *f->from->requests;
  const time_point until = after(w->loop.now(), o.timeout);
  const bool in_time = keeps_deadline(a, mine, requests.core().options());
  ending end;
  const std::uint16_t method = method_of(a);
  switch (a.how) {
    case manner::call: {
      call_operation op = requests.call(*f->out, method, mine.request, mine.room, o);
      co_await carry_out(w, asked, std::move(op), &end);
      break;
    }
    case manner::try_call: {
      call_operation op = requests.try_call(*f->out, method, mine.request, mine.room, o);
      co_await carry_out(w, asked, std::move(op), &end);
      break;
    }
    case manner::notify: {
      notify_operation op = requests.notify(*f->out, method, mine.request);
      co_await carry_out(w, asked, std::move(op), &end);
      break;
    }
    case manner::notify_acked: {
      notify_operation op = requests.notify_acked(*f->out, method, mine.request, o);
      co_await carry_out(w, asked, std::move(op), &end);
      break;
    }
  }
  // A call may end after its deadline while its response is being read.
  if (in_time && !a.withdrawn && end.code == errc::timed_out && w->loop.now() > until + tick) {
    w->wrong("request " + std::to_string(a.number) + " outlived its deadline");
  }
  if (!a.abandoned) {
    if (a.done == deed::redirected && end.code == errc::rejected && end.redirected != a.elsewhere) {
      w->wrong("a redirect to somewhere else");
    }
    settle_request(*w, a, end.code, end.bytes, mine);
    test::fill(mine.room.bytes(), of_nobody + a.number);
  }
  lent->push_back(std::move(mine));
}

// Nothing writes to the room of an ended call.
void check_room(world& w, const lent_memory& lent) {
  std::uint64_t number = 0;
  std::memcpy(&number, lent.request.data(), sizeof number);
  if (w.asked[number].abandoned) return;
  if (!test::filled(lent.room.bytes(), of_nobody + number)) {
    w.wrong("a room was written to after its call");
  }
}

}  // namespace

asked_request random_request(world& w) {
  test::dice& d = w.chance;
  const auto some = [&d] {
    return static_cast<std::uint32_t>(d.below(d.below(2) == 0 ? 64 : largest));
  };
  asked_request a;
  const std::size_t kind = d.below(8);
  a.how = kind == 0   ? manner::try_call
          : kind == 1 ? manner::notify
          : kind == 2 ? manner::notify_acked
                      : manner::call;
  a.bytes = std::max(some(), static_cast<std::uint32_t>(sizeof(std::uint64_t)));
  a.wanted = some();
  a.room = d.below(20) == 0 ? some()
                            : a.wanted + static_cast<std::uint32_t>(d.below(largest - a.wanted));
  if (a.how == manner::notify || a.how == manner::notify_acked) a.room = 0;
  a.served = d.below(40) != 0;
  a.timed = a.how != manner::notify && d.below(5) == 0;
  a.elsewhere = "elsewhere:" + std::to_string(w.asked.size());
  return a;
}

std::uint16_t method_of(const asked_request& a) {
  return a.served ? served_method : unserved_method;
}

asked_request& note(world& w, asked_request a) {
  a.number = w.asked.size();
  ++w.sum->calls;
  w.asked.push_back(std::move(a));
  return w.asked.back();
}

lent_memory write_request(world& w, host_at& from, const asked_request& a) {
  const access rights = w.chance.below(2) == 0 ? access::remote_read : access::remote_write;
  lent_memory lent;
  lent.region = sure_memory(w, from, 2 * largest, rights);
  lent.request = lent.region.all().first(a.bytes);
  lent.room = lent.region.all().part(largest, a.room);
  write_bytes(lent.request.bytes(), a.number);
  return lent;
}

void settle_request(world& w, asked_request& a, errc code, std::size_t bytes,
                    const lent_memory& lent) {
  if (std::exchange(a.over_with, true)) w.wrong("a second outcome");
  a.outcome = code;
  const bool is_call = a.how == manner::call || a.how == manner::try_call;
  const auto expect = [&](bool so) {
    if (!so)
      w.wrong("request " + std::to_string(a.number) + " ended with " + std::string(name(code)));
  };
  switch (code) {
    case errc::ok:
      w.sum->answered += a.how == manner::notify ? 0U : 1U;
      if (a.how == manner::notify) return;
      if (!is_call) {
        return expect(a.runs != 0 && (a.repeatable || (a.handler_ended && a.done != deed::threw)));
      }
      expect(a.runs != 0 && (a.repeatable || a.done == deed::answered) && bytes == a.wanted);
      if (!test::filled(lent.room.bytes().first(bytes), of_responses + a.number)) {
        w.wrong("wrong bytes of a response");
      }
      return;
    case errc::canceled: ++w.sum->withdrawn; return expect(a.withdrawn);
    case errc::timed_out: ++w.sum->withdrawn; return expect(a.timed || a.over == nullptr);
    case errc::truncated: return expect(is_call && a.wanted > a.room);
    case errc::not_found: return expect(!a.served);
    case errc::again: return expect(a.how == manner::try_call);
    case errc::rejected:
      return expect((a.repeatable || a.done != deed::answered) &&
                    (a.served || a.how == manner::notify || a.over == nullptr));
    case errc::invalid_value:
    case errc::bad_state:
    case errc::not_supported: return expect(false);
    default: return;
  }
}

void serve_requests(world& w, host_at& at, std::uint32_t credits) {
  test::dice& d = w.chance;
  request_options o;
  o.window = static_cast<std::uint32_t>(1 + d.below(credits - 1));
  o.most_calls = static_cast<std::uint32_t>(1 + d.below(6));
  o.most_bytes = largest + d.below(2 * largest);
  o.inline_max = static_cast<std::uint32_t>(d.below(4000));
  o.force_read = d.below(8) == 0;
  o.force_write = d.below(8) == 0;
  at.requests = std::make_unique<Requests>(*at.messages, o);
  at.requests->serve(served_method, [&w, &at](Request r) { return serve(&w, &at, std::move(r)); });
}

task<> ask_requests(world* w, flow* f, std::uint64_t count) {
  std::deque<lent_memory> lent;
  for (std::uint64_t i = 0; i < count && !w->over; ++i) {
    if (f->out == nullptr || !f->from->requests) break;
    asked_request a = random_request(*w);
    a.over = f->of;
    a.from_client = f == &f->of->flows[0];
    a.to = f->to;
    co_await ask(w, f, &note(*w, std::move(a)), &lent);
    if (lent.size() > kept_in_sight) {
      check_room(*w, lent.front());
      lent.pop_front();
    }
    if (w->chance.below(4) == 0) co_await sleep_for(tick * w->chance.below(300));
  }
  for (const lent_memory& l : lent) check_room(*w, l);
}

// A one-way notification has no other acknowledgement.
bool all_requests_arrived(const world& w) {
  for (const asked_request& a : w.asked) {
    const bool word = a.how == manner::notify && a.over != nullptr && a.served;
    if (!word || !a.over_with || a.outcome != errc::ok || a.runs != 0) continue;
    const bool from_closer = closed_well(*a.over) && a.from_client == a.over->by_client;
    if (lives(*a.over) || from_closer) return false;
  }
  return true;
}

void judge_requests(world& w) {
  for (const asked_request& a : w.asked) {
    if (!a.over_with || a.over == nullptr) continue;
    const std::string end(name(a.outcome));
    switch (a.outcome) {
      case errc::ok:
      case errc::canceled:
      case errc::timed_out:
      case errc::truncated:
      case errc::not_found:
      case errc::rejected: break;
      case errc::again:
        if (a.runs != 0) w.wrong("a request was served that did not go out");
        break;
      case errc::flushed:
      case errc::not_connected:
        if (a.runs != 0) w.wrong("a request was served that was " + end);
        [[fallthrough]];
      default:
        if (lives(*a.over)) w.wrong(end + ": a request on a good connection");
    }
  }
}

}  // namespace cordma::schedule
