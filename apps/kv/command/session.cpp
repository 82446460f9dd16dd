#include "session.hpp"

#include "../resp/request_parser.hpp"
#include "caller.hpp"
#include "dispatch.hpp"
#include "service.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <limits>
#include <new>
#include <optional>

namespace kv {
namespace {

constexpr std::size_t most_pending = std::size_t{1} << 20;  // bytes; above it no more commands run
constexpr std::size_t resume_pending = most_pending / 2;    // ... until fewer are pending
constexpr std::size_t kept_output = std::size_t{16} << 10;  // bytes that an idle client keeps
constexpr std::size_t kept_input = std::size_t{4} << 10;
constexpr std::size_t compact_above = std::size_t{64} << 10;  // sent bytes that trigger compaction
constexpr std::size_t least_room = std::size_t{256} << 10;

constexpr std::string_view protected_mode =
    "DENIED Redis is running in protected mode because protected mode is enabled and no password "
    "is set for the "
    "default user. In this mode connections are only accepted from the loopback interface. If you "
    "want to connect "
    "from external computers, set a password (CONFIG SET requirepass, or requirepass in the "
    "configuration), or "
    "disable protected mode (CONFIG SET protected-mode no) where nobody but friends can reach this "
    "port.";

}  // namespace

struct session::state {
  // Replies from offset `from` on are held until the journal has reached `until`: clients see no
  // data that may be lost.
  struct gate {
    std::size_t from = 0;
    std::uint64_t until = 0;
  };

  state(service& s, session_origin origin, wake_function w, void* context)
      : of(s),
        who(s, std::move(origin), woken, this),
        users_seen(s.accounts().generation()),
        wake(w),
        wake_context(context) {}

  static void woken(void* context) noexcept;
  void admit();
  void begin_turn(std::size_t bytes) noexcept;
  void take(std::span<const char> bytes);
  void go_on();  // with the bytes in `rest`
  std::size_t consume(std::string_view input);
  std::size_t run(std::string_view input, std::size_t at, bool& stopped);
  std::size_t run_batch(std::span<const request_parser::request> found);
  void take_monitored();
  void gate_replies(std::size_t from);
  void open_gates() noexcept;
  [[nodiscard]] ending over_by_now() noexcept;
  void mind_output() noexcept;
  void mind_limit() noexcept;
  void tell_of_limit() noexcept;
  void show() noexcept;
  [[nodiscard]] std::size_t backlog() const noexcept { return who.out.size() - sent; }
  [[nodiscard]] parse_limits limits();

  service& of;
  caller who;
  request_parser parser;
  byte_buffer rest;  // input that is incomplete or has to wait
  std::size_t sent = 0;
  std::deque<gate> gates;
  bool held = false;   // `rest` has to wait: for replies to be sent, or for the end of a pause
  bool piled = false;  // too many replies are pending
  bool heard_all = false;
  ending over = ending::no;
  std::uint64_t users_seen;
  std::optional<cordma::time_point> soft_since;  // start of exceeding the soft limit
  wake_function wake;
  void* wake_context;
};

// Called by the service: the client was killed, a pause is over, or the journal has advanced.
void session::state::woken(void* context) noexcept {
  state& s = *static_cast<state*>(context);
  s.wake(s.wake_context);
}

void session::state::begin_turn(std::size_t bytes) noexcept {
  const unsigned worker = who.origin.worker;
  of.read_time(worker);
  who.seen_ms.store(static_cast<std::int64_t>(of.now_ms(worker)), std::memory_order_relaxed);
  of.counters(worker).input_bytes.add(bytes);
  of.counters(worker).receipts.add();
}

void session::state::admit() {
  const settings& now = of.current(who.origin.worker);
  worker_counters& counters = of.counters(who.origin.worker);
  if (of.clients() > now.maxclients) {
    who.reply.error("ERR max number of clients reached");
  } else if (now.protected_mode && !who.origin.loopback &&
             who.origin.came_by != door::unix_socket && who.who() != nullptr &&
             who.who()->any_password) {
    who.reply.error(protected_mode);
  } else {
    return;
  }
  counters.rejected_connections.add();
  over = ending::when_sent;
}

parse_limits session::state::limits() {
  const settings& now = of.current(who.origin.worker);
  parse_limits l;
  // Limited by the length of a value, regardless of the setting: the journal reads nothing longer.
  l.bulk_bytes = std::min(static_cast<std::size_t>(now.proto_max_bulk_len), max_value_bytes);
  l.request_bytes = static_cast<std::size_t>(now.client_query_buffer_limit);
  l.authenticated = who.who() != nullptr;
  return l;
}

void session::state::take(std::span<const char> bytes) {
  begin_turn(bytes.size());
  if (over != ending::no) return;
  if (rest.empty() && !held) {
    const std::string_view input(bytes.data(), bytes.size());
    const std::size_t done = consume(input);
    if (over == ending::no) rest.append(input.substr(done));
  } else {
    rest.append({bytes.data(), bytes.size()});
    if (!held) go_on();
  }
  show();
}

void session::state::go_on() {
  held = false;
  of.client_goes_on(who);
  rest.drop_front(consume(rest.view()));
  if (rest.empty() || over != ending::no) rest.clear(kept_input);
}

// Runs the commands in `input`. Returns the number of bytes consumed.
std::size_t session::state::consume(std::string_view input) {
  if (users_seen != of.accounts().generation()) {
    users_seen = of.accounts().generation();
    who.refresh_rights();
  }
  std::size_t at = 0;
  bool stopped = false;
  while (!stopped && !held && over == ending::no) {
    if (who.killed.load(std::memory_order_relaxed) != caller::kill::no) {
      over = ending::now;
      break;
    }
    at = run(input, at, stopped);
    mind_output();
  }
  return at;
}

// Reads and runs some commands from `at` on. Returns the position to continue at. `stopped`: more
// bytes are needed.
std::size_t session::state::run(std::string_view input, std::size_t at, bool& stopped) {
  const bool one_by_one = !who.unlimited() || who.queued.is_open();
  const std::size_t most = one_by_one ? 1 : most_at_once;
  std::array<request_parser::request, most_at_once + 1> found;
  const parse_limits allowed = limits();
  const std::uint64_t hard = of.current(who.origin.worker).client_output_buffer_limit.hard_bytes;
  who.reply.bound(hard == 0 ? std::numeric_limits<std::size_t>::max() : sent + hard);
  request_parser::outcome last = request_parser::outcome::complete;
  std::size_t count = 0;
  std::size_t end = at;
  parser.forget();
  while (count < most) {
    last = parser.next(input, end, allowed, found[count]);
    if (last == request_parser::outcome::failed) break;
    end = found[count].end;
    if (last == request_parser::outcome::incomplete || found[count++].is_inline) break;
  }
  const std::size_t done = run_batch(std::span(found).first(count));
  if (who.killed.load(std::memory_order_relaxed) != caller::kill::no) over = ending::now;
  if (done < count || over != ending::no) {
    parser.restart();
    return done == 0 ? at : found[done - 1].end;
  }
  if (last == request_parser::outcome::failed) {
    if (who.mode == caller::replies::on) who.reply.error(parser.why());
    over = ending::when_sent;
  }
  stopped = last != request_parser::outcome::complete;
  return end;
}

// Returns the number of commands that ran. The batch ends after a command that may affect the
// checks of later ones.
std::size_t session::state::run_batch(std::span<const request_parser::request> found) {
  std::array<prepared, most_at_once> todo;
  const conditions now = conditions_for(of, who);
  std::size_t plain = 0;
  std::size_t known = 0;
  while (known < found.size()) {
    todo[known] = prepare(of, who, now, parser.args(found[known]));
    if (!todo[known++].plain) break;
    ++plain;
  }
  const std::size_t mark = who.reply.mark();
  std::size_t done = 0;
  if (plain != 0) done = run_plain(of, who, std::span(todo).first(plain), most_pending);
  bool told = std::ranges::any_of(std::span(todo).first(done), &prepared::tells_of_keys);
  if (done == plain && known > plain) {
    const ran how = run_other(of, who, todo[plain]);
    if (how != ran::later) ++done;
    told |= how == ran::done;
    held = how == ran::later;
    if (held && of.is_still(who.origin.worker)) of.client_waits(who);
    // The service wakes marked clients when the journal advances. Its state is not checked again,
    // since it may have changed since run_other().
    if (held && of.journal != nullptr) of.mark(who);
  }
  if (who.close_when_sent) over = ending::when_sent;
  if (of.journal != nullptr && told) gate_replies(mark);
  return done;
}

// Appends the commands for it as a monitor, as long as it reads them.
void session::state::take_monitored() {
  if (!who.monitored || backlog() > most_pending || over != ending::no) return;
  who.out.append(who.monitored->take());
  mind_output();
}

void session::state::gate_replies(std::size_t from) {
  if (!of.journal->waits() || who.reply.mark() == from) return;
  const std::uint64_t until = of.journal->appended();
  if (until <= of.journal->durable()) return;
  if (gates.empty() || gates.back().until != until) gates.push_back({from, until});
  of.mark(who);
}

void session::state::open_gates() noexcept {
  if (gates.empty()) return;
  const bool waits = of.journal != nullptr && of.journal->waits();
  const std::uint64_t durable = waits ? of.journal->durable() : 0;
  while (!gates.empty() && (!waits || gates.front().until <= durable)) gates.pop_front();
  if (!gates.empty()) of.mark(who);
}

void session::state::mind_output() noexcept {
  if (backlog() > most_pending) piled = held = true;
  mind_limit();
}

// Closes a client above its output limits. Replies above the hard limit are not even written, so
// that a long reply takes no memory of the server.
void session::state::mind_limit() noexcept {
  const std::size_t waiting = backlog();
  const unsigned worker = who.origin.worker;
  const output_limit& limit = of.current(worker).client_output_buffer_limit;
  bool above = who.reply.overflowed();
  if (limit.soft_bytes == 0 || waiting <= limit.soft_bytes) {
    soft_since.reset();
  } else if (!soft_since) {
    soft_since = of.now(worker);
  } else {
    const auto lasted =
        std::chrono::duration_cast<std::chrono::milliseconds>(of.now(worker) - *soft_since);
    above |= static_cast<std::uint64_t>(lasted.count()) > limit.soft_seconds * 1000;
  }
  if (!above || over == ending::now) return;
  over = ending::now;
  of.counters(worker).killed_for_output.add();
  tell_of_limit();
}

void session::state::tell_of_limit() noexcept try {
  if (!of.hooks.warn) return;
  show();
  of.hooks.warn("disconnected for being above client-output-buffer-limit: " +
                describe(who, of.now_ms(who.origin.worker)));
} catch (const std::bad_alloc&) {
  return;  // out of memory for a line
}

session::ending session::state::over_by_now() noexcept {
  if (soft_since) mind_limit();
  if (over == ending::now || who.killed.load(std::memory_order_relaxed) != caller::kill::no) {
    return ending::now;
  }
  if (over == ending::no && (!heard_all || held)) return ending::no;
  open_gates();
  return gates.empty() ? ending::when_sent : ending::no;  // held-back replies are still owed
}

// Updates the buffers shown by CLIENT LIST.
void session::state::show() noexcept {
  of.show_buffers(who, {.input_bytes = rest.size(),
                        .input_room = rest.capacity() - rest.size(),
                        .output_bytes = backlog(),
                        .output_room = who.out.capacity()});
}

session::session(service& of, session_origin origin, wake_function wake, void* context)
    : state_(std::make_unique<state>(of, std::move(origin), wake, context)) {
  state_->admit();
}

session::~session() = default;

void session::received(std::span<const char> bytes) { state_->take(bytes); }

std::span<char> session::room() noexcept {
  state& s = *state_;
  const std::size_t missing = s.parser.missing_bytes();
  if (missing == 0 || s.rest.empty() || s.held || s.over != ending::no) return {};
  const std::size_t bytes = std::min(missing, std::max(least_room, s.rest.size()));
  try {
    return {s.rest.room(bytes), bytes};
  } catch (const std::bad_alloc&) {
    return {};  // received() will report that
  }
}

void session::arrived(std::size_t bytes) {
  state& s = *state_;
  s.rest.added(bytes);
  s.begin_turn(bytes);
  if (s.over == ending::no && !s.held) s.go_on();
  s.show();
}

void session::resume() {
  state& s = *state_;
  s.take_monitored();
  if (!s.held || s.piled || s.over != ending::no) return;
  s.go_on();
  s.show();
}

std::span<const char> session::pending() const noexcept {
  state& s = *state_;
  s.open_gates();
  const std::size_t end =
      s.gates.empty() ? s.who.out.size() : std::max(s.gates.front().from, s.sent);
  return {s.who.out.data() + s.sent, end - s.sent};
}

void session::sent(std::size_t bytes) noexcept {
  state& s = *state_;
  s.sent += bytes;
  const unsigned worker = s.who.origin.worker;
  s.of.counters(worker).output_bytes.add(bytes);
  s.of.counters(worker).sendings.add();
  s.who.seen_ms.store(static_cast<std::int64_t>(s.of.now_ms(worker)), std::memory_order_relaxed);
  if (s.sent == s.who.out.size()) {
    s.who.out.clear(kept_output);
    s.sent = 0;
  } else if (s.sent >= compact_above && s.sent * 2 >= s.who.out.size()) {
    s.who.out.drop_front(s.sent);
    for (state::gate& g : s.gates) g.from -= s.sent;
    s.sent = 0;
  }
  if (s.soft_since) s.mind_limit();
  try {
    s.take_monitored();
  } catch (const std::bad_alloc&) {
    s.over = ending::now;
  }
  if (s.piled && s.backlog() < resume_pending && s.over == ending::no) {
    s.piled = false;
    try {
      s.go_on();
    } catch (const std::bad_alloc&) {
      s.over = ending::now;
    }
  }
  s.show();
}

bool session::wants_input() const noexcept { return !state_->held && state_->over == ending::no; }

void session::no_more_input() noexcept { state_->heard_all = true; }

session::ending session::ended() const noexcept { return state_->over_by_now(); }

}  // namespace kv
