#include <support/toy_transport.hpp>

#include <cordma/net/transport/event_queue.hpp>
#include <cordma/net/transport/grant.hpp>
#include <cordma/net/transport/region_table.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cordma::test {

using namespace transport;

namespace {

class toy_adapter;
class toy_listener;
class toy_pair;

constexpr std::uint16_t first_port = 40'000;
constexpr std::uint8_t rnr_for_ever = 7;

struct toy_send {
  send_request request;
  std::vector<segment> segments;
  std::vector<std::byte> inlined;
  std::uint64_t length = 0;
};

struct toy_recv {
  std::uint64_t id = 0;
  std::vector<segment> segments;
  std::uint64_t room = 0;
};

std::uint64_t bytes_of(std::span<const segment> all) noexcept {
  std::uint64_t sum = 0;
  for (const segment& s : all) sum += s.length;
  return sum;
}

// The two sides may be cut into different segments.
void copy(std::span<const segment> to, std::span<const segment> from) noexcept {
  std::size_t t = 0;
  std::size_t at = 0;
  for (const segment& f : from) {
    for (std::size_t done = 0; done < f.length;) {
      while (at == to[t].length) ++t, at = 0;
      const std::size_t n = std::min<std::size_t>(f.length - done, to[t].length - at);
      std::memcpy(to[t].addr + at, f.addr + done, n);
      done += n;
      at += n;
    }
  }
}

segment whole(std::byte* addr, std::uint64_t length) noexcept {
  return {addr, static_cast<std::uint32_t>(length), 0};
}

// A client that waits for the response to its request.
struct toy_request {
  toy_pair* client = nullptr;
  toy_listener* at = nullptr;
};

}  // namespace

class toy_network {
 public:
  region_table regions;
  std::map<std::uint16_t, toy_listener*> listeners;
  std::map<std::uint64_t, toy_request> requests;
  std::uint16_t next_port = first_port;
  std::uint64_t last_request = 0;
};

namespace {

class toy_domain final : public domain, public std::enable_shared_from_this<toy_domain> {
 public:
  toy_domain(std::shared_ptr<toy_network> net, const capabilities& caps)
      : net_(std::move(net)), caps_(caps) {}
  [[nodiscard]] const capabilities& caps() const noexcept override { return caps_; }
  [[nodiscard]] std::string own_host() const override { return "toy"; }
  result<memory_keys> register_memory(const memory_range& range) override {
    return net_->regions.add(range);
  }
  void deregister_memory(std::uint32_t lkey) noexcept override { net_->regions.remove(lkey); }
  result<std::unique_ptr<adapter>> open(reactor& home) override;
  [[nodiscard]] toy_network& net() noexcept { return *net_; }

 private:
  std::shared_ptr<toy_network> net_;
  capabilities caps_;
};

class toy_adapter final : public adapter {
 public:
  explicit toy_adapter(std::shared_ptr<toy_domain> of) : domain_(std::move(of)) {}
  std::size_t poll(std::span<completion> out, bool& progressed) noexcept override;
  cm_event next_event() override {
    cm_event e = events.take();
    events_ready_ = !events.empty();
    return e;
  }
  [[nodiscard]] int wait_fd() const noexcept override { return poller::cannot_wake; }
  [[nodiscard]] bool edge_triggered() const noexcept override { return false; }
  arm_state arm() noexcept override { return arm_state::busy; }
  void disarm() noexcept override {}

  result<std::unique_ptr<listener>> listen(const address& where) override;
  result<std::unique_ptr<queue_pair>> connect(const address& to, const queue_pair_options& options,
                                              std::span<const std::byte> private_data) override;
  result<std::unique_ptr<queue_pair>> accept(std::uint64_t request,
                                             const queue_pair_options& options,
                                             std::span<const std::byte> private_data) override;
  result<void> reject(std::uint64_t request, std::span<const std::byte> private_data) override;

  [[nodiscard]] toy_network& net() noexcept { return domain_->net(); }
  [[nodiscard]] const capabilities& caps() const noexcept { return domain_->caps(); }
  void note_events() noexcept { events_ready_ = !events.empty(); }
  // Removes this pair's events: it has nothing more to report.
  void forget(const toy_pair& p) noexcept;
  [[nodiscard]] result<queue_pair_options> granted(const queue_pair_options& asked) const;

  event_queue events;
  std::vector<toy_pair*> pairs;
  std::deque<std::pair<const toy_pair*, completion>> done;

 private:
  std::shared_ptr<toy_domain> domain_;
};

class toy_listener final : public listener {
 public:
  toy_listener(toy_adapter& at, address where) : at_(at), where_(std::move(where)) {
    at_.net().listeners.emplace(where_.port, this);
  }
  ~toy_listener() override;
  [[nodiscard]] const address& bound() const noexcept override { return where_; }
  [[nodiscard]] toy_adapter& at() noexcept { return at_; }

 private:
  toy_adapter& at_;
  address where_;
};

// connecting -> open -> ended, or connecting -> ended.
class toy_pair final : public queue_pair {
 public:
  toy_pair(toy_adapter& at, const queue_pair_options& options)
      : at_(at), options_(options), room_(at.events, event_queue::events_of(options)) {
    at_.pairs.push_back(this);
  }
  ~toy_pair() override;

  [[nodiscard]] const queue_pair_options& actual() const noexcept override { return options_; }
  [[nodiscard]] std::string local_address() const override { return "toy:0"; }
  [[nodiscard]] std::string peer_address() const override { return "toy:0"; }
  posted post_send(const send_request& request, completion&) noexcept override;
  posted post_recv(const recv_request& request, completion&) noexcept override;
  void ring() noexcept override { visible_ = sends_.size(); }
  void disconnect() noexcept override { closing_ = true; }
  void abort() noexcept override {
    fail_both({errc::connection_reset, "aborted by this side"},
              {errc::connection_reset, "aborted by the peer"});
  }

  // Establishes both queue pairs.
  static void join(toy_pair& client, toy_pair& server, std::vector<std::byte> said);
  void refuse(failure why, std::vector<std::byte> said) noexcept;
  // Executes visible requests, as far as the peer has receives for them. True: something was done.
  bool work() noexcept;

 private:
  enum class state : std::uint8_t { connecting, open, ended };
  void report(cm_event::type what, failure why, std::vector<std::byte> said) noexcept;
  void complete(std::uint64_t id, wc_status status, opcode op, std::uint64_t bytes) noexcept;
  void received(const toy_send& s, wc_status status) noexcept;
  void fail(failure why) noexcept;
  void fail_both(failure here, failure there) noexcept;
  void refused(wc_status status, failure there) noexcept;
  // Null: its turn has not come yet. `there` is the cause with which the peer ends if the request
  // is refused.
  [[nodiscard]] std::optional<wc_status> carry_out(toy_send& s, failure& there) noexcept;
  [[nodiscard]] std::optional<wc_status> message(toy_send& s, failure& there) noexcept;
  [[nodiscard]] wc_status remote(toy_send& s, failure& there) noexcept;
  void close() noexcept;

  toy_adapter& at_;
  queue_pair_options options_;
  event_queue::room room_;
  toy_pair* peer_ = nullptr;
  std::deque<toy_send> sends_;
  std::deque<toy_recv> recvs_;
  std::size_t visible_ = 0;  // of sends_
  state state_ = state::connecting;
  bool closing_ = false;
};

// ---- adapter ----

std::size_t toy_adapter::poll(std::span<completion> out, bool& progressed) noexcept {
  for (toy_pair* const p : pairs) progressed |= p->work();
  std::size_t n = 0;
  for (; n < out.size() && !done.empty(); ++n) {
    out[n] = done.front().second;
    done.pop_front();
  }
  return n;
}

void toy_adapter::forget(const toy_pair& p) noexcept {
  std::erase(pairs, &p);
  std::erase_if(done, [&p](const auto& entry) { return entry.first == &p; });
  events.drop([&p](const cm_event& e) { return e.pair == &p; });
  note_events();
}

result<queue_pair_options> toy_adapter::granted(const queue_pair_options& asked) const {
  if (asked.rnr_retry != rnr_for_ever) {
    return failure{errc::not_supported, "messages wait for ever on this transport: rnr_retry is 7"};
  }
  return grant(asked, caps());
}

result<std::unique_ptr<listener>> toy_adapter::listen(const address& where) {
  address bound = where;
  if (bound.port == 0) bound.port = net().next_port++;
  if (net().listeners.contains(bound.port)) return errc::in_use;
  return std::unique_ptr<listener>(std::make_unique<toy_listener>(*this, std::move(bound)));
}

result<std::unique_ptr<queue_pair>> toy_adapter::connect(const address& to,
                                                         const queue_pair_options& options,
                                                         std::span<const std::byte> private_data) {
  const result<queue_pair_options> grants = granted(options);
  if (!grants) return grants.why();
  const auto found = net().listeners.find(to.port);
  if (found == net().listeners.end()) return errc::unreachable;
  auto made = std::make_unique<toy_pair>(*this, *grants);
  cm_event e;
  e.what = cm_event::type::connect_request;
  e.from = found->second;
  e.request = ++net().last_request;
  e.peer = made->local_address();
  e.data.assign(private_data.begin(), private_data.end());
  net().requests[e.request] = {.client = made.get(), .at = found->second};
  toy_adapter& there = found->second->at();
  there.events.push(std::move(e));
  there.note_events();
  return std::unique_ptr<queue_pair>(std::move(made));
}

result<std::unique_ptr<queue_pair>> toy_adapter::accept(std::uint64_t request,
                                                        const queue_pair_options& options,
                                                        std::span<const std::byte> private_data) {
  const result<queue_pair_options> grants = granted(options);
  if (!grants) return grants.why();
  const auto asked = net().requests.extract(request);
  if (!asked) return errc::bad_state;
  auto made = std::make_unique<toy_pair>(*this, *grants);
  toy_pair::join(*asked.mapped().client, *made, {private_data.begin(), private_data.end()});
  return std::unique_ptr<queue_pair>(std::move(made));
}

result<void> toy_adapter::reject(std::uint64_t request, std::span<const std::byte> private_data) {
  const auto asked = net().requests.extract(request);
  if (!asked) return errc::bad_state;
  asked.mapped().client->refuse({errc::rejected, "the peer rejected the connection"},
                                {private_data.begin(), private_data.end()});
  return {};
}

toy_listener::~toy_listener() {
  at_.net().listeners.erase(where_.port);
  for (auto next = at_.net().requests.begin(); next != at_.net().requests.end();) {
    const auto r = next++;
    if (r->second.at != this) continue;
    r->second.client->refuse({errc::rejected, "the listener is gone"}, {});
    at_.net().requests.erase(r);
  }
  at_.events.drop([this](const cm_event& e) { return e.from == this; });
  at_.note_events();
}

// ---- queue pair ----

toy_pair::~toy_pair() {
  std::erase_if(at_.net().requests, [this](const auto& r) { return r.second.client == this; });
  if (peer_ != nullptr) {
    peer_->peer_ = nullptr;
    peer_->fail({closing_ ? errc::not_connected : errc::connection_reset, "the peer is gone"});
  }
  at_.forget(*this);
}

void toy_pair::join(toy_pair& client, toy_pair& server, std::vector<std::byte> said) {
  client.peer_ = &server;
  server.peer_ = &client;
  client.state_ = server.state_ = state::open;
  client.report(cm_event::type::established, errc::ok, std::move(said));
  server.report(cm_event::type::established, errc::ok, {});
}

void toy_pair::refuse(failure why, std::vector<std::byte> said) noexcept {
  state_ = state::ended;
  report(cm_event::type::rejected, std::move(why), std::move(said));
}

void toy_pair::report(cm_event::type what, failure why, std::vector<std::byte> said) noexcept {
  cm_event e;
  e.what = what;
  e.pair = this;
  e.peer = peer_address();
  e.why = std::move(why);
  e.data = std::move(said);
  at_.events.report(std::move(e));
  at_.note_events();
}

posted toy_pair::post_send(const send_request& request, completion&) noexcept {
  toy_send s{.request = request, .segments = {}, .inlined = {}, .length = 0};
  const std::span<const segment> from(request.segments, request.segment_count);
  s.length = bytes_of(from);
  if ((request.flags & post_flag::inline_data) != 0) {
    for (const segment& f : from) s.inlined.insert(s.inlined.end(), f.addr, f.addr + f.length);
    s.segments = {whole(s.inlined.data(), s.length)};
  } else {
    s.segments.assign(from.begin(), from.end());
  }
  sends_.push_back(std::move(s));
  if ((request.flags & post_flag::more) == 0) visible_ = sends_.size();
  if (state_ == state::ended) fail(errc::ok);  // it has failed before: posted requests are flushed
  return posted::pending;
}

posted toy_pair::post_recv(const recv_request& request, completion&) noexcept {
  const std::span<const segment> into(request.segments, request.segment_count);
  recvs_.push_back(
      {.id = request.id, .segments = {into.begin(), into.end()}, .room = bytes_of(into)});
  if (state_ == state::ended) fail(errc::ok);
  return posted::pending;
}

void toy_pair::complete(std::uint64_t id, wc_status status, opcode op,
                        std::uint64_t bytes) noexcept {
  completion c;
  c.id = id;
  c.status = status;
  c.op = op;
  c.byte_len = static_cast<std::uint32_t>(bytes);
  at_.done.emplace_back(this, c);
}

void toy_pair::received(const toy_send& s, wc_status status) noexcept {
  const bool written = s.request.op == opcode::write_imm;
  complete(recvs_.front().id, status, written ? opcode::recv_write_imm : opcode::recv, s.length);
  completion& c = at_.done.back().second;
  c.has_imm = s.request.op != opcode::send;
  c.imm = s.request.imm;
  recvs_.pop_front();
}

void toy_pair::fail(failure why) noexcept {
  const state before = std::exchange(state_, state::ended);
  if (before == state::open) report(cm_event::type::disconnected, std::move(why), {});
  if (before == state::connecting) report(cm_event::type::failed, std::move(why), {});
  for (const toy_send& s : sends_) complete(s.request.id, wc_status::wr_flush_err, s.request.op, 0);
  for (const toy_recv& r : recvs_) complete(r.id, wc_status::wr_flush_err, opcode::recv, 0);
  sends_.clear();
  recvs_.clear();
  visible_ = 0;
}

void toy_pair::fail_both(failure here, failure there) noexcept {
  if (peer_ != nullptr) peer_->fail(std::move(there));
  fail(std::move(here));
}

void toy_pair::refused(wc_status status, failure there) noexcept {
  const toy_send s = std::move(sends_.front());
  sends_.pop_front();
  complete(s.request.id, status, s.request.op, 0);
  fail_both(failure{to_errc(status)}.with_status(static_cast<std::uint16_t>(status), 0),
            std::move(there));
}

void toy_pair::close() noexcept {
  fail_both({errc::not_connected, "closed by this side"},
            {errc::not_connected, "closed by the peer"});
}

bool toy_pair::work() noexcept {
  bool any = false;
  while (state_ == state::open && visible_ != 0) {
    failure there{errc::ok};
    const std::optional<wc_status> status = carry_out(sends_.front(), there);
    if (!status) return any;
    any = true;
    if (*status != wc_status::success) {
      refused(*status, std::move(there));
      return true;
    }
    const toy_send& s = sends_.front();
    complete(s.request.id, *status, s.request.op, s.length);
    sends_.pop_front();
    --visible_;
  }
  if (closing_ && state_ != state::ended) close();
  return any;
}

std::optional<wc_status> toy_pair::carry_out(toy_send& s, failure& there) noexcept {
  if (peer_ == nullptr) return wc_status::retry_exc_err;
  switch (s.request.op) {
    case opcode::flush: return wc_status::success;  // earlier requests are done
    case opcode::send:
    case opcode::send_imm: return message(s, there);
    case opcode::write_imm:
      if (peer_->recvs_.empty()) return std::nullopt;
      [[fallthrough]];
    default: return remote(s, there);
  }
}

std::optional<wc_status> toy_pair::message(toy_send& s, failure& there) noexcept {
  if (peer_->recvs_.empty()) return std::nullopt;
  const toy_recv& into = peer_->recvs_.front();
  if (s.length > into.room) {
    peer_->received(s, wc_status::loc_len_err);
    there = failure{errc::truncated, "a message was longer than the receive posted for it"};
    return wc_status::rem_inv_req_err;
  }
  copy(into.segments, s.segments);
  peer_->received(s, wc_status::success);
  return wc_status::success;
}

access right_for(opcode op) noexcept {
  if (op == opcode::read) return access::remote_read;
  const bool writes = op == opcode::write || op == opcode::write_imm;
  return writes ? access::remote_write : access::remote_atomic;
}

wc_status toy_pair::remote(toy_send& s, failure& there) noexcept {
  const send_request& r = s.request;
  const access right = right_for(r.op);
  region_table::pin held;
  if (has(peer_->options_.remote_access, right)) {
    held = at_.net().regions.resolve(r.rkey, r.remote_addr, s.length, right);
  }
  if (!held) {
    there = failure{errc::connection_reset, "an access of the peer was refused"};
    return wc_status::rem_access_err;
  }
  const segment target = whole(held.data(), s.length);
  const std::span<const segment> there_bytes(&target, 1);
  if (right == access::remote_read) {
    copy(s.segments, there_bytes);
  } else if (right == access::remote_write) {
    copy(there_bytes, s.segments);
    if (r.op == opcode::write_imm) peer_->received(s, wc_status::success);
  } else {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(held.data()));
    std::uint64_t old = r.operand;
    if (r.op == opcode::fetch_add) {
      old = word.fetch_add(r.operand);
    } else {
      word.compare_exchange_strong(old, r.swap);
    }
    std::memcpy(s.segments.front().addr, &old, sizeof old);
  }
  return wc_status::success;
}

result<std::unique_ptr<adapter>> toy_domain::open(reactor&) {
  return std::unique_ptr<adapter>(std::make_unique<toy_adapter>(shared_from_this()));
}

}  // namespace

std::shared_ptr<toy_network> make_toy_network() { return std::make_shared<toy_network>(); }

capabilities toy_abilities() {
  capabilities c;
  c.transport = kind::test;
  for (const opcode op : {opcode::send, opcode::send_imm, opcode::write, opcode::write_imm,
                          opcode::read, opcode::fetch_add, opcode::compare_swap, opcode::flush}) {
    c.operations[static_cast<std::size_t>(service::rc)] |= 1U << static_cast<unsigned>(op);
  }
  c.max_send_depth = c.max_recv_depth = 4096;
  c.max_segments = 8;
  c.max_inline = 128;
  c.max_read_depth = 64;
  c.max_queue_pairs = 1024;
  c.max_message = 16U << 20;
  c.whole_words = true;
  c.ordered_path = true;
  c.atomic_with_cpu = true;
  c.own_ports = true;
  c.every_address = true;
  return c;
}

std::shared_ptr<domain> make_toy_domain(std::shared_ptr<toy_network> net,
                                        const capabilities& abilities) {
  return std::make_shared<toy_domain>(std::move(net), abilities);
}

}  // namespace cordma::test
