#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::detail {

using protocol::frame_kind;
using transport::wc_status;

rail_core::rail_core(peer_core& of, std::uint32_t number) noexcept
    : peer_(&of), device_(number % of.agreed().devices) {
  CORDMA_ASSERT_OP(number, <, of.agreed().rails);
  CORDMA_ASSERT_OP(device_, <, of.port()->devices().size());
  try {
    const result<void> made = make(of.endpoint().pair()->actual());
    if (made) return;
  } catch (const std::bad_alloc&) {}
  link_.reset();
  descriptor_.clear();
}

result<void> rail_core::make(const transport::queue_pair_options& like) {
  transport::queue_pair_options o = like;
  o.shared = nullptr;
  o.send_depth = sends;
  o.recv_depth = o.max_segments = 1;
  o.inline_bytes = 0;
  const bool read = has(like.remote_access, access::remote_read);
  o.remote_access = read ? access::remote_read : access::local_read;
  frame_port& port = *peer_->port();
  adapter_poller& via = *port.devices()[device_].via;
  if (via.broken()) return via.why_broken();
  result<std::unique_ptr<transport::queue_pair>> pair = via.adapter().create(o);
  if (!pair) return pair.why();
  if ((*pair)->actual().send_depth < sends) {
    return failure{errc::not_supported, "the device has too few places for a rail's requests"};
  }
  result<std::vector<std::byte>> own = (*pair)->descriptor();
  if (!own) return own.why();
  if (own->size() > protocol::longest_descriptor) return errc::invalid_value;
  link_ = std::make_unique<endpoint_core>();
  link_->serve(*this, (*pair)->actual().send_depth);
  link_->adopt(*port.worker(), std::move(*pair), via);
  CORDMA_ASSERT_OP(link_->granted().send_depth, ==, 0U);  // all of them are for reads
  port.promise(0, sends);
  places_ = send_places(sends);
  port.worker()->add(*link_);
  descriptor_ = std::move(*own);
  return {};
}

rail_core::~rail_core() {
  CORDMA_ASSERT_OP(load_.under_way(), ==, 0U);
  CORDMA_ASSERT(places_.are_free());
  if (places_.all() != 0 && peer_->port() != nullptr) peer_->port()->unpromise(0, places_.all());
}

bool rail_core::usable() const noexcept {
  return link_ != nullptr && link_->state() == endpoint_state::connected &&
         link_->pair() != nullptr && !failed_;
}

result<void> rail_core::connect(std::span<const std::byte> peer_descriptor) noexcept {
  if (std::exchange(heard_, true)) return breach("a rail that it has told of before");
  if (link_ == nullptr || link_->state() != endpoint_state::connecting) return {};
  if (peer_descriptor.empty()) {
    close({errc::unreachable, "the peer cannot make it"});
    return {};
  }
  try {
    result<void> begun = link_->pair()->connect(peer_descriptor);
    const bool nonsense =
        begun.code() == errc::connection_aborted || begun.code() == errc::unsupported_version;
    if (nonsense) return begun;
    if (!begun) close(begun.why());
  } catch (const std::bad_alloc&) {
    close(errc::no_memory);
  }
  return {};
}

void rail_core::close(const failure& why) noexcept {
  if (link_ == nullptr || link_->state() == endpoint_state::closed) return;
  if (link_->pair() != nullptr) link_->pair()->abort();
  link_->end(why);
}

void rail_core::on_end() noexcept { peer_->pump(); }

void rail_core::on_pair_gone() noexcept {
  if (!places_.are_free() && peer_->port() != nullptr) peer_->port()->flush(*peer_, this);
  CORDMA_ASSERT(places_.are_free());
}

}  // namespace cordma::detail
