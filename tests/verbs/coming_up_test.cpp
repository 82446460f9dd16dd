// The time between the first message and the end of the handshake; which peer's messages count; and
// a peer that disappears without one. The peer is a hand-written queue pair, so that it sends
// exactly the messages that no adapter would send.
#include "raw_id.hpp"
#include "raw_pair.hpp"

#include <doctest/doctest.h>

#include <cordma/net/transport/transport.hpp>
#include <cordma/net/transport/verbs/control_port.hpp>
#include <cordma/net/transport/verbs/verbs_adapter.hpp>
#include <cordma/net/transport/verbs/wire.hpp>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <poll.h>

using namespace cordma;
using namespace cordma::transport;
using namespace cordma::transport::verbs;

namespace {

constexpr std::uint32_t half = 16384;  // bytes: several packets

// One adapter, and memory: messages are received into its first half.
struct host_of_one {
  reactor loop{reactor_options{.mode = wait_mode::polling}};
  std::shared_ptr<domain> device = make_verbs({}).value();
  std::vector<std::byte> memory = std::vector<std::byte>(2 * half);
  memory_keys keys =
      device
          ->register_memory(
              {.addr = memory.data(), .length = memory.size(), .rights = access::local_write})
          .value();
  std::unique_ptr<adapter> at = device->open(loop).value();
  std::vector<completion> completed;

  host_of_one() = default;
  host_of_one(const host_of_one&) = delete;
  host_of_one& operator=(const host_of_one&) = delete;
  ~host_of_one() {
    at.reset();
    device->deregister_memory(keys.lkey);
  }
  [[nodiscard]] verbs_adapter& inside() noexcept { return static_cast<verbs_adapter&>(*at); }
  [[nodiscard]] ibv_pd* pd() noexcept { return device->native_pd(); }
  [[nodiscard]] segment into() noexcept { return {memory.data(), half, keys.lkey}; }
  void poll() {
    std::array<completion, 8> taken;
    bool progressed = false;
    const std::size_t n = at->poll(taken, progressed);
    completed.insert(completed.end(), taken.begin(),
                     taken.begin() + static_cast<std::ptrdiff_t>(n));
    static_cast<void>(loop.turn());
  }
  cm_event next() {
    while (!at->has_events()) poll();
    return at->next_event();
  }
};

// A hand-written end of a connection by descriptors. It never reports that it is connected.
class silent_peer {
 public:
  explicit silent_peer(ibv_pd* pd) : cq_(ibv_create_cq(pd->context, 8, nullptr, nullptr, 0)) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = 8;
    init.cap.max_send_sge = 2;
    init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd, &init);
    REQUIRE(qp_ != nullptr);
    test::to_init(qp_, 0);
  }
  silent_peer(const silent_peer&) = delete;
  silent_peer& operator=(const silent_peer&) = delete;
  ~silent_peer() {
    CHECK(ibv_destroy_qp(qp_) == 0);
    CHECK(ibv_destroy_cq(cq_) == 0);
  }
  // Connects with a queue pair `of`; both then have the path to each other.
  void pair_with(queue_pair& of, const ibv_ah_attr& way) {
    const std::vector<std::byte> told = of.descriptor().value();
    const pair_descriptor theirs = decode_descriptor(told).value();
    test::connect_to(qp_, theirs.pair, theirs.first_psn, way);
    pair_descriptor mine = theirs;  // device, and first packet number
    mine.pair = qp_->qp_num;
    mine.token = theirs.token + 1;
    mine.control_pair = 0xFFFFF0;  // of no queue pair
    of.connect(encode(mine)).value();
  }
  // A message of two parts; if the key of the second one is wrong the message breaks off in the
  // middle.
  void send(const std::byte* from, std::uint32_t lkey, std::uint32_t key_of_second) {
    std::array<ibv_sge, 2> parts{
        ibv_sge{reinterpret_cast<std::uintptr_t>(from), half / 2, lkey},
        ibv_sge{reinterpret_cast<std::uintptr_t>(from), half / 2, key_of_second}};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = parts.data();
    wr.num_sge = static_cast<int>(parts.size());
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(qp_, &wr, &bad) == 0);
  }
  [[nodiscard]] ibv_wc_status next() { return test::next_status(cq_); }

 private:
  ibv_cq* cq_;
  ibv_qp* qp_ = nullptr;
};

[[nodiscard]] ibv_ah_attr way_to_itself(verbs_adapter& a, const gid_bytes& gid) {
  return path_to(a.owner(), {.gid = gid, .lid = 0});
}

[[nodiscard]] ibv_ah_attr usual_way(verbs_adapter& a) {
  const gid_bytes gid = to_bytes(a.owner().choose_gid(nullptr).value().gid);
  return way_to_itself(a, gid);
}

}  // namespace

TEST_CASE("by descriptors: a message that overtakes the peer's word says that the peer is there") {
  host_of_one h;
  silent_peer peer(h.pd());
  std::unique_ptr<queue_pair> ours = h.at->create({}).value();
  completion now;
  const segment into = h.into();
  static_cast<void>(ours->post_recv({.id = 7, .segment_count = 1, .segments = &into}, now));
  peer.pair_with(*ours, usual_way(h.inside()));
  for (int i = 0; i < 100; ++i) h.poll();
  CHECK_FALSE(h.at->has_events());
  peer.send(h.memory.data() + half, h.keys.lkey, h.keys.lkey);
  const cm_event up = h.next();
  CHECK(up.what == cm_event::type::established);
  CHECK(up.pair == ours.get());
  while (h.completed.empty()) h.poll();
  CHECK(h.completed.size() == 1);
  CHECK(h.completed[0].id == 7);
  CHECK(h.completed[0].status == wc_status::success);
  CHECK(h.completed[0].byte_len == half);
  CHECK(peer.next() == IBV_WC_SUCCESS);
  ours.reset();
}

namespace {

enum class fate : std::uint8_t { times_out, is_closed, is_destroyed, fails };

constexpr std::uint32_t depth = 4;

// An incomplete message consumes a receive of the shared queue, and the connection is never
// established.
void break_off(host_of_one& h, receive_queue& queue, fate of) {
  silent_peer peer(h.pd());
  queue_pair_options options;
  options.shared = &queue;
  if (of == fate::times_out) options.connect_timeout = std::chrono::milliseconds(200);
  std::unique_ptr<queue_pair> ours = h.at->create(options).value();
  const std::uint32_t number = decode_descriptor(ours->descriptor().value()).value().pair;
  peer.pair_with(*ours, usual_way(h.inside()));
  peer.send(h.memory.data() + half, h.keys.lkey, h.keys.lkey ^ 0xFFU);
  CHECK(peer.next() != IBV_WC_SUCCESS);  // its first half has arrived at the peer
  switch (of) {
    case fate::times_out: break;
    case fate::is_closed: ours->disconnect(); break;
    case fate::is_destroyed: ours.reset(); break;
    case fate::fails:
      h.inside().tell(
          {.what = IBV_EVENT_QP_FATAL, .about = async_event::subject::own, .pair = number});
      break;
  }
  if (of != fate::is_destroyed) {
    const cm_event failed = h.next();
    CHECK(failed.what == cm_event::type::failed);
    CHECK(failed.pair == ours.get());
    const cm_event last = h.next();
    CHECK(last.what == cm_event::type::last_receive);
  }
  while (h.completed.empty()) h.poll();
  CHECK(h.completed.size() == 1);
  CHECK(h.completed[0].op == opcode::recv);
  CHECK(h.completed[0].status == wc_status::wr_flush_err);
}

}  // namespace

TEST_CASE("Q3: a receive that a connection took that never came up comes back, however it ended") {
  for (const fate of : {fate::times_out, fate::is_closed, fate::is_destroyed, fate::fails}) {
    CAPTURE(static_cast<int>(of));
    host_of_one h;
    {
      std::unique_ptr<receive_queue> queue = h.at->make_receive_queue(depth, 1).value();
      const segment into = h.into();
      for (std::uint32_t i = 0; i < depth; ++i) {
        queue->post_recv({.id = i, .segment_count = 1, .segments = &into});
      }
      break_off(h, *queue, of);
    }
  }
}

namespace {

// Two ends within one adapter: each is the other's peer, and one control port sends the messages of
// both.
struct two_ends {
  host_of_one h;
  std::unique_ptr<queue_pair> a = h.at->create({}).value();
  std::unique_ptr<queue_pair> b = h.at->create({}).value();
  pair_descriptor of_a = decode_descriptor(a->descriptor().value()).value();
  pair_descriptor of_b = decode_descriptor(b->descriptor().value()).value();

  two_ends() {
    a->connect(encode(of_b)).value();
    b->connect(encode(of_a)).value();
    for (int up = 0; up < 2; ++up) {
      const cm_event e = h.next();
      REQUIRE(e.what == cm_event::type::established);
    }
  }
  two_ends(const two_ends&) = delete;
  two_ends& operator=(const two_ends&) = delete;
  ~two_ends() {
    a.reset();
    b.reset();
  }
  // Sends a goodbye in b's name, from its control port, with this address.
  void say_goodbye_to_a(const gid_bytes& from) {
    ibv_ah_attr way = way_to_itself(h.inside(), from);
    owned<ibv_ah> handle(ibv_create_ah(h.pd(), &way));
    REQUIRE(handle != nullptr);
    control_port* const port = h.inside().control();
    REQUIRE(port != nullptr);
    const std::uint32_t before = port->requests().done;
    port->send({.what = word::goodbye,
                .to_pair = of_a.pair,
                .from_pair = of_b.pair,
                .to_token = of_a.token,
                .from_token = of_b.token},
               handle.get(), port->number());
    while (port->requests().done == before) h.poll();
    for (int i = 0; i < 500; ++i) h.poll();
  }
};

[[nodiscard]] gid_bytes another_gid(verbs_adapter& a, const gid_bytes& than) {
  for (const ibv_gid_entry& e : a.owner().hardware().gids) {
    const gid_bytes gid = to_bytes(e.gid);
    if (gid != than && e.gid_type == IBV_GID_TYPE_ROCE_V2) return gid;
  }
  FAIL("the device has GIDs of two addresses");
  return than;
}

}  // namespace

TEST_CASE("a goodbye counts from the peer's host only, whatever numbers it names") {
  two_ends t;
  t.say_goodbye_to_a(another_gid(t.h.inside(), t.of_a.gid));
  CHECK_FALSE(t.h.at->has_events());
  t.say_goodbye_to_a(t.of_b.gid);
  const cm_event closed = t.h.next();
  CHECK(closed.what == cm_event::type::disconnected);
  CHECK(closed.pair == t.a.get());
  CHECK(closed.why.code() == errc::not_connected);
}

namespace {

// Polls only after a wake-up, like a reactor that sleeps.
cm_event next_asleep(host_of_one& h, duration at_most) {
  const time_point start = h.loop.now();
  while (!h.at->has_events() && h.loop.now() - start < at_most) {
    static_cast<void>(h.loop.turn());  // timers
    static_cast<void>(h.at->arm());
    pollfd wake{.fd = h.at->wait_fd(), .events = POLLIN, .revents = 0};
    if (::poll(&wake, 1, 10) == 0) continue;
    h.at->disarm();
    h.poll();
  }
  return h.at->has_events() ? h.at->next_event() : cm_event();
}

}  // namespace

TEST_CASE("Q12: that an idle peer does not answer wakes who waits for solicited messages") {
  host_of_one h;
  std::optional<silent_peer> peer(std::in_place, h.pd());
  queue_pair_options options;
  options.peer_timeout = std::chrono::seconds(2);
  std::unique_ptr<queue_pair> ours = h.at->create(options).value();
  completion now;
  const segment into = h.into();
  static_cast<void>(ours->post_recv({.segment_count = 1, .segments = &into}, now));
  peer->pair_with(*ours, usual_way(h.inside()));
  peer->send(h.memory.data() + half, h.keys.lkey, h.keys.lkey);
  CHECK(h.next().what == cm_event::type::established);
  CHECK(peer->next() == IBV_WC_SUCCESS);
  h.at->wake_for(wake_reason::solicited).value();
  for (int i = 0; i < 200; ++i) h.poll();
  peer.reset();
  const cm_event gone = next_asleep(h, 10 * options.peer_timeout);
  CHECK(gone.what == cm_event::type::disconnected);
  CHECK(gone.why.code() == errc::connection_reset);
}

namespace {

// An rdma_cm client that never sends the last message of its handshake (RTU), as if the wire had
// lost it. Its control port is a datagram queue pair that this test drives. The connection has no
// queue pair at the client.
class speechless_client {
 public:
  explicit speechless_client(host_of_one& h)
      : h_(h), cq_(ibv_create_cq(h.pd()->context, 8, nullptr, nullptr, 0)) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_.get();
    init.cap.max_send_wr = init.cap.max_recv_wr = 4;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_UD;
    port_.reset(ibv_create_qp(h.pd(), &init));
    REQUIRE(port_ != nullptr);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = control_qkey;
    REQUIRE(ibv_modify_qp(port_.get(), &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
    REQUIRE(start_datagrams(port_.get()) == 0);
  }
  void ask(std::uint16_t at) {
    sockaddr_in to = test::raw_id::self(at);
    REQUIRE(rdma_resolve_addr(id_.get(), nullptr, reinterpret_cast<sockaddr*>(&to), 2000) == 0);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(id_.get(), 2000) == 0);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    const private_data said = encode(
        hello{.mtu = static_cast<std::uint8_t>(IBV_MTU_1024), .control_pair = port_->qp_num}, {});
    rdma_conn_param p{};
    p.private_data = said.bytes.data();
    p.private_data_len = said.length;
    p.responder_resources = p.initiator_depth = 1;
    p.qp_num = nobody;
    REQUIRE(rdma_connect(id_.get(), &p) == 0);
  }
  void expect(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(id_.get()->channel, &event) != 0) h_.poll();
    CHECK(std::string(rdma_event_str(event->event)) == rdma_event_str(wanted));
    rdma_ack_cm_event(event);
  }
  // Waits for the next message to its control port.
  [[nodiscard]] control_message hear() {
    ibv_sge sge = at(0, grh_bytes + control_bytes);
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    REQUIRE(ibv_post_recv(port_.get(), &wr, &bad) == 0);
    ibv_wc wc{};
    while (ibv_poll_cq(cq_.get(), 1, &wc) == 0) h_.poll();
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    asker_ = wc.src_qp;
    control_message m;
    REQUIRE(decode(std::span(h_.memory).subspan(grh_bytes).first<control_bytes>(), m));
    return m;
  }
  // Replies to the sender of the last message.
  void say(word what, std::uint32_t to_pair) {
    encode({.what = what, .to_pair = to_pair, .from_pair = nobody},
           std::span(h_.memory).subspan(half).first<control_bytes>());
    ibv_ah_attr way = usual_way(h_.inside());
    handle_.reset(ibv_create_ah(h_.pd(), &way));
    REQUIRE(handle_ != nullptr);
    ibv_sge sge = at(half, control_bytes);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.ud = {.ah = handle_.get(), .remote_qpn = asker_, .remote_qkey = control_qkey};
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(port_.get(), &wr, &bad) == 0);
  }
  static constexpr std::uint32_t nobody = 0xFFFFF0;

 private:
  [[nodiscard]] ibv_sge at(std::size_t offset, std::size_t bytes) {
    return {reinterpret_cast<std::uintptr_t>(h_.memory.data() + offset),
            static_cast<std::uint32_t>(bytes), h_.keys.lkey};
  }
  host_of_one& h_;
  owned<ibv_cq> cq_;
  owned<ibv_qp> port_;
  owned<ibv_ah> handle_;
  test::raw_id id_;
  std::uint32_t asker_ = 0;
};

}  // namespace

TEST_CASE("through rdma_cm: a server asks repeatedly for a lost RTU") {
  host_of_one h;
  std::unique_ptr<listener> door = h.at->listen({.host = test::own_host(), .port = 0}).value();
  speechless_client client(h);
  client.ask(door->bound().port);
  const cm_event asked = h.next();
  REQUIRE(asked.what == cm_event::type::connect_request);
  std::unique_ptr<queue_pair> ours = h.at->accept(asked.request, {}, {}).value();
  client.expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  control_message m;
  for (int i = 0; i < 2; ++i) {
    m = client.hear();
    CHECK(m.what == word::attach);
    CHECK(m.to_pair == speechless_client::nobody);
    CHECK_FALSE(h.at->has_events());
  }
  client.say(word::attached, m.from_pair);
  const cm_event up = h.next();
  CHECK(up.what == cm_event::type::established);
  CHECK(up.pair == ours.get());
  ours.reset();
  door.reset();
}
