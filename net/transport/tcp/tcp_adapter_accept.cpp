// Listening, connecting and answering requests.

#include <algorithm>
#include <bit>
#include <cordma/net/transport/tcp/connection_handshake.hpp>

namespace cordma::transport::tcp {
namespace {

static_assert(std::has_single_bit(most_depth), "granted depths are powers of two");

result<void> put_data(hello& h, std::span<const std::byte> data, std::size_t most) {
  if (data.size() > most) {
    return failure{errc::invalid_value, std::to_string(data.size()) +
                                            " bytes of private data are too many: at most " +
                                            std::to_string(most) + " go with this message"};
  }
  h.data_length = static_cast<std::uint16_t>(data.size());
  std::copy(data.begin(), data.end(), h.data.begin());
  return {};
}

failure no_such_request() {
  return failure{errc::bad_state,
                 "the connection request was answered before, or the client has gone"};
}

}  // namespace

result<std::unique_ptr<listener>> tcp_adapter::listen(const address& where) {
  result<std::unique_ptr<tcp_listener>> made = tcp_listener::open(*this, where);
  if (!made) return made.why();
  return std::unique_ptr<listener>(std::move(*made));
}

result<queue_pair_options> tcp_adapter::admit(const queue_pair_options& asked) const {
  result<queue_pair_options> granted = reporting_adapter::admit(asked);
  if (!granted) return granted;
  granted->send_depth = std::bit_ceil(granted->send_depth);
  if (asked.shared == nullptr) granted->recv_depth = std::bit_ceil(granted->recv_depth);
  CORDMA_ASSERT_OP(granted->send_depth, <=, most_depth);
  CORDMA_ASSERT_OP(granted->recv_depth, <=, most_depth);
  return granted;
}

result<std::unique_ptr<queue_pair>> tcp_adapter::connect(const address& to,
                                                         const queue_pair_options& options,
                                                         std::span<const std::byte> private_data) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  hello first;
  const result<void> fits = put_data(first, private_data, most_request_data);
  if (!fits) return fits.why();
  result<std::vector<socket_address>> candidates = resolve(to, purpose::connecting);
  if (!candidates) return candidates.why();
  auto made = std::make_unique<connection>(*this, *granted);
  const hello h = made->greeting(hello_kind::request);
  first.read_depth = h.read_depth;
  first.recv_depth = h.recv_depth;
  const result<void> started = made->start(std::move(*candidates), to.text(), first);
  if (!started) return started.why();
  return std::unique_ptr<queue_pair>(std::move(made));
}

std::unique_ptr<incoming> tcp_adapter::claim(std::uint64_t request) {
  const auto at = incoming_.find(request);
  if (at == incoming_.end()) return owner_->requests().collect(request);
  if (!at->second->greeted()) return nullptr;
  std::unique_ptr<incoming> found = std::move(at->second);
  incoming_.erase(at);
  found->detach();
  return found;
}

result<std::unique_ptr<queue_pair>> tcp_adapter::accept(std::uint64_t request,
                                                        const queue_pair_options& options,
                                                        std::span<const std::byte> private_data) {
  const result<queue_pair_options> granted = admit(options);
  if (!granted) return granted.why();
  hello data;
  const result<void> fits = put_data(data, private_data, most_accept_data);
  if (!fits) return fits.why();
  const std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  auto made = std::make_unique<connection>(*this, *granted);
  hello reply = made->greeting(hello_kind::accept);
  reply.data_length = data.data_length;
  reply.data = data.data;
  const result<void> up = made->adopt(client->release(), client->greeting(), reply);
  if (!up) return up.why();
  return std::unique_ptr<queue_pair>(std::move(made));
}

result<void> tcp_adapter::reject(std::uint64_t request, std::span<const std::byte> private_data) {
  hello h{.kind = hello_kind::reject};
  const result<void> fits = put_data(h, private_data, most_accept_data);
  if (!fits) return fits;
  const std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  client->answer(h);
  return {};
}

result<std::uint64_t> tcp_adapter::hand_over(std::uint64_t request, adapter& target) {
  const auto* const other = dynamic_cast<const tcp_adapter*>(&target);
  if (other == nullptr || other->owner_ != owner_) {
    return failure{errc::invalid_value,
                   "a request can only go to another adapter of the same tcp domain"};
  }
  std::unique_ptr<incoming> client = claim(request);
  if (client == nullptr) return no_such_request();
  // Ids are valid in the complete domain: the first adapter that uses an id gets the request.
  owner_->requests().leave(request, std::move(client));
  return request;
}

void tcp_adapter::begin_incoming(tcp_listener* from, socket_fd fd) {
  const std::uint64_t id = owner_->requests().next_id();
  auto made = std::make_unique<incoming>(*this, from, std::move(fd), id);
  if (!made->begin()) return;
  const bool is_new = incoming_.emplace(id, std::move(made)).second;
  CORDMA_ASSERT(is_new);
}

void tcp_adapter::requested(incoming& from) {
  CORDMA_REQUIRE(from.greeted());
  const hello& h = from.greeting();
  CORDMA_ASSERT_OP(h.data_length, <=, h.data.size());
  if (h.kind == hello_kind::attach || from.from() == attach_listener_.get()) return attach(from);
  cm_event e;
  e.what = cm_event::type::connect_request;
  e.from = from.from();
  e.request = from.id();
  e.data.assign(h.data.begin(), h.data.begin() + h.data_length);
  e.peer = from.peer();
  push(std::move(e));
}

void tcp_adapter::gone(incoming& which) noexcept {
  const std::size_t erased = incoming_.erase(which.id());
  CORDMA_ASSERT_OP(erased, ==, 1U);
}

void tcp_adapter::orphan(const tcp_listener& from) noexcept {
  std::erase_if(incoming_, [&from](const auto& entry) {
    incoming& i = *entry.second;
    if (i.from() != &from) return false;
    if (i.greeted()) i.answer({.kind = hello_kind::reject});
    return true;
  });
}

}  // namespace cordma::transport::tcp
