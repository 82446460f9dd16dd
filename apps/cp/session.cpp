#include "session.hpp"

#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace copy {

using cordma::task;

namespace {

constexpr auto patience = std::chrono::seconds(30);  // for the other side's next word
// Where the network loses what begins a connection, rdma_cm sends it again after four seconds.
constexpr auto connecting = std::chrono::seconds(20);

// Private data of a lane: "ccp1", the session's id (zeros: a new one), the lane's number.
constexpr std::string_view mark = "ccp1";
constexpr std::size_t tag_bytes = mark.size() + nonce_bytes + 1;
using tag = std::array<std::byte, tag_bytes>;

tag tag_of(const nonce& session, std::uint32_t number) {
  tag t{};
  std::memcpy(t.data(), mark.data(), mark.size());
  std::ranges::copy(session, t.begin() + mark.size());
  t.back() = static_cast<std::byte>(number);
  return t;
}

struct decoded_tag {
  nonce session{};
  std::uint32_t number = 0;
};
// Throws where it is none.
decoded_tag decode_tag(std::span<const std::byte> data) {
  if (data.size() < tag_bytes || std::memcmp(data.data(), mark.data(), mark.size()) != 0) {
    cordma::throw_error({cordma::errc::invalid_value, "a peer that is no cordma-cp"});
  }
  decoded_tag t;
  std::ranges::copy(data.subspan(mark.size(), nonce_bytes), t.session.begin());
  t.number = static_cast<std::uint32_t>(data[tag_bytes - 1]);
  return t;
}

nonce read_nonce(frame_reader& in) {
  nonce n{};
  std::ranges::copy(in.bytes(nonce_bytes), n.begin());
  return n;
}

std::string key_of(const nonce& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

task<std::unique_ptr<lane>> open_lane(cordma::Context context, cordma::Endpoint made) {
  cordma::stream_options how;
  how.notices = std::min(how.notices, made.actual().recv_depth);
  cordma::Stream stream = co_await cordma::Stream::open(context, std::move(made), how);
  co_return std::make_unique<lane>(std::move(stream));
}

// Before anybody else writes to the lane.
task<void> say(lane& l) {
  const std::vector<std::byte> frames = std::exchange(l.out(), {});
  co_await l.stream().write(frames);
}

task<void> hear_in_time(lane& l) {
  const bool more = co_await cordma::with_timeout(patience, l.next());
  if (!more) cordma::throw_error({cordma::errc::connection_reset, "the peer went without a word"});
}

// The frame must be of that kind. A refusal is thrown.
frame_reader expect(lane& l, frame_kind kind) {
  frame_reader in = l.frame();
  if (in.kind() == frame_kind::refusal) {
    cordma::throw_error({cordma::errc::rejected, "the server: " + in.text()});
  }
  if (in.kind() != kind) refuse(in.kind(), "no place in this conversation");
  return in;
}

}  // namespace

task<connection> connect(cordma::Context& context, cordma::Worker& worker, std::string address,
                         hello asked, std::string token,
                         std::optional<cordma::transport::kind> only) {
  connection c;
  cordma::connect_options how;
  how.transport = only;
  how.endpoint.connect_timeout = connecting;
  const tag first = tag_of(nonce{}, 0);
  how.private_data = first;
  cordma::Endpoint made = co_await worker.connect(address, how);
  c.transport = cordma::transport::name(made.transport());
  c.reason = made.transport_reason();
  how.transport = made.transport();
  std::unique_ptr<lane> control = co_await open_lane(context, std::move(made));
  lane& l = *control;
  encode(l.out(), asked);
  const std::vector<std::byte> sent = l.out();
  co_await say(l);
  co_await hear_in_time(l);
  frame_reader challenge = expect(l, frame_kind::challenge);
  const nonce theirs = read_nonce(challenge);
  challenge.end();
  frame_writer(l.out(), frame_kind::proof)
      .bytes(proof_of(token, prover::client, asked.random, theirs, sent));
  co_await say(l);
  co_await hear_in_time(l);
  frame_reader welcome = expect(l, frame_kind::welcome);
  const nonce session = read_nonce(welcome);
  if (!equal(read_nonce(welcome), proof_of(token, prover::server, asked.random, theirs, sent))) {
    cordma::throw_error({cordma::errc::rejected, "the server does not know the token"});
  }
  c.single_file = welcome.u8() != 0;
  welcome.end();
  c.ways.push_back(std::move(control));
  for (std::uint32_t i = 1; i < asked.lanes; ++i) {
    const tag mine = tag_of(session, i);
    how.private_data = mine;
    cordma::Endpoint more = co_await worker.connect(address, how);
    std::unique_ptr<lane> way = co_await open_lane(context, std::move(more));
    c.ways.push_back(std::move(way));
  }
  co_return c;
}

task<void> server::serve(cordma::Listener& listener, int most) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  all.spawn(accept_all(&listener, &all, most));
  if (most != 0) {
    left_ = most;
    co_await served_.wait();
    all.cancel();
  }
  co_await all.join();
}

// Goes on when no more clients are served: those there are have further lanes.
task<void> server::accept_all(cordma::Listener* listener, cordma::scope* clients, int most) {
  for (int begun = 0;;) {
    cordma::ConnectionRequest request = co_await listener->next();
    try {
      const decoded_tag t = decode_tag(request.private_data());
      if (t.number != 0) {
        assign(std::move(request));
      } else if (most == 0 || begun < most) {
        clients->spawn(serve_one(std::move(request)));
        ++begun;
      }
    } catch (const std::exception& e) {
      handlers_.log(request.peer_address(), e.what());
    }
  }
}

// What fits no session is dropped, and so rejected.
void server::assign(cordma::ConnectionRequest request) {
  const decoded_tag t = decode_tag(request.private_data());
  const auto found = waiting_.find(key_of(t.session));
  if (found == waiting_.end()) return;
  waiting& w = *found->second;
  if (t.number == 0 || t.number > w.requests.size()) return;
  w.requests[t.number - 1] = std::move(request);
  if (--w.missing == 0) w.complete.set();
}

task<std::unique_ptr<lane>> server::accept(cordma::ConnectionRequest request) {
  cordma::connect_options how;
  how.endpoint.connect_timeout = connecting;
  cordma::Endpoint made = co_await request.accept(how);
  std::unique_ptr<lane> way = co_await open_lane(context_, std::move(made));
  co_return way;
}

// A client that fails is that client's trouble.
task<void> server::serve_one(cordma::ConnectionRequest request) {
  const std::string peer = request.peer_address();
  lanes ways;
  std::string refusal;
  try {
    std::unique_ptr<lane> control = co_await accept(std::move(request));
    ways.push_back(std::move(control));
    co_await talk(&ways, peer);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  if (!refusal.empty()) handlers_.log(peer, refusal);
  if (--left_ == 0) served_.set();
}

task<client_request> server::shake_hands(lane* way, std::string peer, nonce* id) {
  lane& l = *way;
  co_await hear_in_time(l);
  client_request r;
  frame_reader in = expect(l, frame_kind::hello);
  r.asked = decode_hello(in);
  r.peer = std::move(peer);
  std::vector<std::byte> told;
  encode(told, r.asked);
  const nonce mine = random_nonce();
  frame_writer(l.out(), frame_kind::challenge).bytes(mine);
  co_await say(l);
  co_await hear_in_time(l);
  frame_reader proof = expect(l, frame_kind::proof);
  const nonce theirs = read_nonce(proof);
  proof.end();
  r.where = handlers_.find(r.asked.module, r.peer);
  // Whether there is such a module is nobody's business who may not use it.
  if (r.where == nullptr ||
      !equal(theirs, proof_of(r.where->token, prover::client, r.asked.random, mine, told))) {
    cordma::throw_error({cordma::errc::not_permitted,
                         "no module \"" + r.asked.module + "\" for this token (or host)"});
  }
  const bool single = handlers_.look(r);
  *id = random_nonce();
  frame_writer(l.out(), frame_kind::welcome)
      .bytes(*id)
      .bytes(proof_of(r.where->token, prover::server, r.asked.random, mine, told))
      .u8(single ? 1 : 0);
  co_return r;
}

task<void> server::talk(lanes* ways, std::string peer) {
  lane& l = *ways->front();
  std::string refusal;
  try {
    nonce id{};
    client_request r = co_await shake_hands(&l, std::move(peer), &id);
    co_await take_lanes(ways, r.asked.lanes, id);
    co_await handlers_.carry(std::move(r), *ways);
  } catch (const std::exception& e) {
    if (l.begun()) throw;
    refusal = e.what();
  }
  if (refusal.empty()) co_return;
  l.out().clear();
  constexpr std::size_t longest = 4096;
  frame_writer(l.out(), frame_kind::refusal).text(refusal.substr(0, longest));
  co_await say(l);
  co_await l.stream().close();
  cordma::throw_error({cordma::errc::rejected, refusal});
}

// Tells the client that it is welcome, and waits for the rest of its lanes.
task<void> server::take_lanes(lanes* ways, std::uint32_t count, nonce id) {
  waiting w;
  w.missing = count - 1;
  w.requests.resize(w.missing);
  const std::string key = key_of(id);
  if (w.missing == 0) w.complete.set();
  waiting_.emplace(key, &w);
  std::exception_ptr failed;
  try {
    co_await say(*ways->front());
    co_await cordma::with_timeout(patience, w.complete.wait());
  } catch (...) {
    failed = std::current_exception();
  }
  waiting_.erase(key);
  if (failed) std::rethrow_exception(failed);
  for (cordma::ConnectionRequest& request : w.requests) {
    std::unique_ptr<lane> way = co_await accept(std::move(request));
    ways->push_back(std::move(way));
  }
}

}  // namespace copy
