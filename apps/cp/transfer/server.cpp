// The server's half of the handshake.
#include "../protocol/greeting.hpp"
#include "session.hpp"

#include <cordma/runtime/event.hpp>
#include <cordma/runtime/scope.hpp>
#include <cordma/runtime/stop.hpp>
#include <cordma/runtime/timeout.hpp>

#include <stop_token>
#include <utility>

namespace copy {

using cordma::task;

namespace {

std::string key_of(const nonce& id) {
  return {reinterpret_cast<const char*>(id.data()), id.size()};
}

failing kind_of(const std::exception& e) noexcept {
  if (const auto* const place = dynamic_cast<const failed_place*>(&e)) return place->kind();
  const auto* const error = dynamic_cast<const cordma::error*>(&e);
  return error != nullptr && error->why().os_errno() != 0 ? failing::file : failing::may_not;
}

}  // namespace

// A session that waits for its further lanes.
struct server::waiting {
  const lane* control = nullptr;
  lanes ways;  // from lane 1 on; null until it has arrived
  std::size_t missing = 0;
  cordma::event complete;

  [[nodiscard]] bool lacks(std::uint32_t number) const noexcept {
    return number >= 1 && number <= ways.size() && ways[number - 1] == nullptr;
  }
};

struct server::running {
  std::stop_source superseded;
  cordma::event over;
};

// Registers a session during its life, so that a later session of the same transfer can end it.
class server::registration {
 public:
  registration(server& owner, std::string transfer)
      : owner_(owner), transfer_(std::move(transfer)) {
    if (!transfer_.empty()) owner_.running_.insert_or_assign(transfer_, &session_);
  }
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;
  ~registration() {
    const auto found = owner_.running_.find(transfer_);
    if (found != owner_.running_.end() && found->second == &session_) owner_.running_.erase(found);
    session_.over.set();
  }
  [[nodiscard]] std::stop_token superseded() const noexcept {
    return session_.superseded.get_token();
  }

 private:
  server& owner_;
  std::string transfer_;  // empty: the client does not reconnect
  running session_;
};

task<void> server::serve(cordma::Listener& listener, int most) {
  cordma::task_context& me = co_await cordma::this_task();
  cordma::scope all(me);
  clients_ = &all;
  left_ = most;
  all.spawn(accept_all(&listener, &all, most));
  co_await all.join();
}

// Continues after the last client was accepted, because clients have further lanes.
task<void> server::accept_all(cordma::Listener* listener, cordma::scope* clients, int most) {
  for (int begun = 0;;) {
    cordma::ConnectionRequest request = co_await listener->next();
    try {
      const greeting g = decode_greeting(request.private_data());
      if (is_unfit(request, g)) continue;
      if (g.number != 0) {
        clients->spawn(take_lane(std::move(request), g));
      } else if (most == 0 || begun < most) {
        clients->spawn(serve_one(std::move(request), g));
        ++begun;
      }
    } catch (const std::exception& e) {
      handlers_.log(request.peer_address(), e.what());
    }
  }
}

// Rejects a request with an unsuitable TLS setting, and returns true.
bool server::is_unfit(cordma::ConnectionRequest& request, const greeting& g) {
  const auto reject = [&](unfit why, const char* said) {
    request.reject(encode(why)).value();
    handlers_.log(request.peer_address(), said);
    return true;
  };
  if (!g.tls && tls_.required) return reject(unfit::needs_tls, "it would do without TLS");
  if (g.tls && tls_.with == nullptr) {
    return reject(unfit::has_no_tls, "it demands TLS, which this server is not configured for");
  }
  if (g.tls && request.transport() != cordma::transport::kind::tcp) {
    return reject(unfit::tls_only_on_tcp, "it would have TLS elsewhere than over tcp");
  }
  return false;
}

task<std::unique_ptr<lane>> server::accept(cordma::ConnectionRequest request, bool secured) {
  cordma::connect_options how;
  how.endpoint.connect_timeout = time_to_connect;
  cordma::Endpoint made = co_await request.accept(how);
  std::unique_ptr<lane> way = co_await open_lane(context_, std::move(made));
  if (secured) {
    auto channel = std::make_unique<tls_channel>(*tls_.with);
    co_await cordma::with_timeout(patience, way->secure(std::move(channel)));
  }
  co_return way;
}

// An error of one client does not end the server.
task<void> server::serve_one(cordma::ConnectionRequest request, greeting g) {
  const std::string peer = request.peer_address();
  lanes ways;
  std::string refusal;
  try {
    std::unique_ptr<lane> control = co_await accept(std::move(request), g.tls);
    ways.push_back(std::move(control));
    co_await talk(&ways, peer);
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  if (!refusal.empty()) handlers_.log(peer, refusal);
  if (--left_ == 0) clients_->cancel();  // all clients have been served
}

task<client_request> server::shake_hands(lane* way, std::string peer, nonce* id) {
  lane& l = *way;
  co_await hear_in_time(l);
  client_request r;
  frame_reader in = expect(l, frame_kind::hello);
  r.asked = decode_hello(in);
  r.peer = std::move(peer);
  const std::optional<nonce> channel = channel_of(l);
  std::vector<std::byte> told;
  encode(told, r.asked);
  const nonce mine = random_nonce();
  frame_writer(l.out(), frame_kind::challenge).bytes(mine);
  co_await l.say();
  co_await hear_in_time(l);
  frame_reader proof = expect(l, frame_kind::proof);
  const nonce theirs = read_nonce(proof);
  proof.end();
  r.where = handlers_.find(r.asked.module, r.peer);
  // A client without access to the module does not learn whether it exists.
  if (r.where == nullptr || !equal(theirs, proof_of(r.where->token, prover::client, r.asked.random,
                                                    mine, told, channel))) {
    cordma::throw_error({cordma::errc::not_permitted,
                         "no module \"" + r.asked.module + "\" for this token (or host)"});
  }
  const bool single = handlers_.look(r);
  *id = random_nonce();
  frame_writer(l.out(), frame_kind::welcome)
      .bytes(*id)
      .bytes(proof_of(r.where->token, prover::server, r.asked.random, mine, told, channel))
      .u8(single ? 1 : 0);
  co_return r;
}

task<void> server::talk(lanes* ways, std::string peer) {
  lane& l = *ways->front();
  std::string refusal;
  failing kind = failing::may_not;
  try {
    nonce id{};
    client_request r = co_await shake_hands(&l, std::move(peer), &id);
    co_await carry_out_alone(ways, std::move(r), id);
  } catch (const std::exception& e) {
    if (l.begun()) throw;
    const auto* const error = dynamic_cast<const cordma::error*>(&e);
    // A server that ends does not refuse the client, which may reconnect.
    if (error != nullptr && error->condition() == cordma::errc::canceled) throw;
    refusal = e.what();
    kind = kind_of(e);
  }
  if (refusal.empty()) co_return;
  l.out().clear();
  encode_refusal(l.out(), kind, refusal);
  l.finish();
  try {
    co_await l.write_out();
    co_await l.stream().close();
  } catch (const cordma::error&) {
  }  // the client closed after it read the reason; it is logged all the same
  cordma::throw_error({cordma::errc::rejected, refusal});
}

// Runs as the only session of its transfer. An earlier session may not have detected that its
// connection is lost, and has files of the target open.
task<void> server::carry_out_alone(lanes* ways, client_request r, nonce id) {
  std::string transfer;
  if (r.asked.transfer != nonce{}) transfer = r.asked.module + '/' + key_of(r.asked.transfer);
  co_await end_earlier(transfer);
  const registration me(*this, std::move(transfer));
  std::stop_token superseded = me.superseded();
  task<void> session = gather_and_carry_out(ways, std::move(r), id);
  try {
    co_await cordma::with_stop(superseded, std::move(session));
  } catch (const cordma::error& e) {
    if (e.condition() != cordma::errc::canceled || !superseded.stop_requested()) throw;
    cordma::throw_error({cordma::errc::canceled, "its client has connected again"});
  }
}

// A session that waits for a disk ends later. Until then its open files are unavailable to the next
// session.
task<void> server::end_earlier(std::string transfer) {
  constexpr auto longest = std::chrono::seconds(15);
  const auto found = running_.find(transfer);
  if (found == running_.end()) co_return;
  found->second->superseded.request_stop();
  try {
    co_await cordma::with_timeout(longest, found->second->over.wait());
  } catch (const cordma::error& e) {
    if (e.condition() != cordma::errc::timed_out) throw;
  }
}

task<void> server::gather_and_carry_out(lanes* ways, client_request r, nonce id) {
  co_await gather_lanes(ways, r.asked.lanes, id);
  co_await handlers_.carry(std::move(r), *ways);
}

// Sends the welcome to the client, and waits for its further lanes.
task<void> server::gather_lanes(lanes* ways, std::uint32_t count, nonce id) {
  waiting w;
  w.control = ways->front().get();
  w.missing = count - 1;
  w.ways.resize(w.missing);
  const std::string key = key_of(id);
  if (w.missing == 0) w.complete.set();
  waiting_.emplace(key, &w);
  std::exception_ptr failed;
  try {
    co_await ways->front()->say();
    co_await cordma::with_timeout(patience, w.complete.wait());
  } catch (...) {
    failed = std::current_exception();
  }
  waiting_.erase(key);
  if (failed) std::rethrow_exception(failed);
  for (std::unique_ptr<lane>& way : w.ways) ways->push_back(std::move(way));
}

// Throws if no session waits for this lane.
server::waiting& server::session_of(const greeting& g) {
  const auto found = waiting_.find(key_of(g.session));
  if (found == waiting_.end() || !found->second->lacks(g.number) ||
      (found->second->control->tls() != nullptr) != g.tls) {
    cordma::throw_error({cordma::errc::not_found, "a further lane that no session waits for"});
  }
  return *found->second;
}

// An observer of the network can see a session's id. Over TLS the id is not sufficient: a lane is
// accepted only after it has proved that its other end is that of the session's first lane.
task<void> server::take_lane(cordma::ConnectionRequest request, greeting g) {
  const std::string peer = request.peer_address();
  std::string refusal;
  try {
    [[maybe_unused]] const waiting& now = session_of(g);
    std::unique_ptr<lane> way = co_await accept(std::move(request), g.tls);
    if (g.tls) co_await hear_join(way.get(), g);
    waiting& w = session_of(g);  // other lanes may have arrived, or the session ended
    w.ways[g.number - 1] = std::move(way);
    if (--w.missing == 0) w.complete.set();
  } catch (const std::exception& e) {
    refusal = e.what();
  }
  if (!refusal.empty()) handlers_.log(peer, refusal);
}

task<void> server::hear_join(lane* way, greeting g) {
  co_await hear_in_time(*way);
  frame_reader join = expect(*way, frame_kind::join);
  const nonce proof = read_nonce(join);
  join.end();
  const nonce key = session_of(g).control->tls()->exported(label_of_lanes);
  const nonce channel = channel_of(*way).value();
  if (!equal(proof, lane_proof_of(key, prover::client, g.number, channel))) {
    cordma::throw_error({cordma::errc::not_permitted, "a further lane of somebody else's session"});
  }
  frame_writer(way->out(), frame_kind::joined)
      .bytes(lane_proof_of(key, prover::server, g.number, channel));
  co_await way->say();
}

}  // namespace copy
