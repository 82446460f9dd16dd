// The client's half of the handshake.
#include "session.hpp"

#include "../protocol/greeting.hpp"

#include <cordma/runtime/timeout.hpp>

#include <algorithm>
#include <utility>

namespace copy {

using cordma::task;

namespace {

// State that all connections of a session share.
struct way_there {
  cordma::Context* context = nullptr;
  cordma::Worker* worker = nullptr;
  const tls_context* tls = nullptr;
  std::string address;
  std::string host;  // of the address
  std::optional<cordma::transport::kind> transport;
  std::string reason;  // for that transport
  std::chrono::seconds time = patience;
};

std::string host_of(const std::string& address) {
  std::string host = cordma::parse_address(address).value().host;
  const std::size_t zone = host.find('%');  // valid on this machine only
  if (zone != std::string::npos) host.resize(zone);
  return host;
}

task<std::unique_ptr<lane>> open_way(way_there& there, greeting g) {
  g.tls = there.tls != nullptr;
  const std::array<std::byte, greeting_bytes> data = encode(g);
  cordma::connect_options how;
  how.transport = there.transport;
  how.private_data = data;
  how.endpoint.connect_timeout = std::min<cordma::duration>(time_to_connect, there.time);
  cordma::connect_operation connecting = there.worker->connect(there.address, how);
  cordma::result<cordma::Endpoint> made = co_await connecting.result();
  if (!made) {
    std::string why = describe_rejection(connecting.rejection(), there.address);
    if (!why.empty()) cordma::throw_error({cordma::errc::rejected, std::move(why)});
    cordma::throw_error(made.why());
  }
  there.transport = made->transport();
  there.reason = made->transport_reason();
  std::unique_ptr<lane> way = co_await open_lane(*there.context, std::move(made).value());
  if (there.tls != nullptr) {
    auto channel = std::make_unique<tls_channel>(*there.tls, there.host);
    co_await cordma::with_timeout(there.time, way->secure(std::move(channel)));
  }
  co_return way;
}

// Over TLS each end proves that it is the end of the first lane.
task<void> join(lane& way, nonce key, std::uint32_t number, std::chrono::seconds time) {
  const nonce channel = channel_of(way).value();
  frame_writer(way.out(), frame_kind::join)
      .bytes(lane_proof_of(key, prover::client, number, channel));
  co_await way.say();
  co_await hear_in_time(way, time);
  frame_reader joined = expect(way, frame_kind::joined);
  if (!equal(read_nonce(joined), lane_proof_of(key, prover::server, number, channel))) {
    cordma::throw_error({cordma::errc::rejected, "a further lane ends at another server"});
  }
  joined.end();
}

}  // namespace

task<connection> connect(cordma::Context& context, cordma::Worker& worker, std::string address,
                         hello asked, std::string token,
                         std::optional<cordma::transport::kind> only, const tls_context* tls) {
  way_there there{&context, &worker, tls, address, host_of(address), only, {}};
  if (asked.options.silence_s != 0) {
    there.time = std::min(patience, std::chrono::seconds(asked.options.silence_s));
  }
  std::unique_ptr<lane> control = co_await open_way(there, greeting());
  connection c;
  c.transport = cordma::transport::name(there.transport.value());
  c.reason = there.reason;
  lane& l = *control;
  if (tls != nullptr) c.cipher = l.tls()->cipher();
  const std::optional<nonce> channel = channel_of(l);
  std::vector<std::byte> sent;
  encode(sent, asked);
  l.out() = sent;
  co_await l.say();
  co_await hear_in_time(l, there.time);
  frame_reader challenge = expect(l, frame_kind::challenge);
  const nonce theirs = read_nonce(challenge);
  challenge.end();
  frame_writer(l.out(), frame_kind::proof)
      .bytes(proof_of(token, prover::client, asked.random, theirs, sent, channel));
  co_await l.say();
  co_await hear_in_time(l, there.time);
  frame_reader welcome = expect(l, frame_kind::welcome);
  greeting further;
  further.session = read_nonce(welcome);
  const nonce due = proof_of(token, prover::server, asked.random, theirs, sent, channel);
  if (!equal(read_nonce(welcome), due)) {
    cordma::throw_error({cordma::errc::rejected, "the server does not know the token"});
  }
  c.single_file = welcome.u8() != 0;
  welcome.end();
  c.ways.push_back(std::move(control));
  for (further.number = 1; further.number < asked.lanes; ++further.number) {
    std::unique_ptr<lane> way = co_await open_way(there, further);
    if (tls != nullptr) {
      const nonce key = c.ways.front()->tls()->exported(label_of_lanes);
      co_await join(*way, key, further.number, there.time);
    }
    c.ways.push_back(std::move(way));
  }
  co_return c;
}

}  // namespace copy
