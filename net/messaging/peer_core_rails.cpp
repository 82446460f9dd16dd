// Reads of rendezvous messages, over one or several connections to the same peer: creating the
// connections, distributing the reads, and moving them when a connection ends.
#include <cordma/net/messaging/message_core.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace cordma::detail {

using protocol::frame_kind;
using transport::wc_status;

// ---- rails of a peer ----

void peer_core::make_rails() noexcept {
  try {
    rails_.reserve(agreed_.rails - 1);
    for (std::uint32_t n = 1; n < agreed_.rails; ++n) {
      rails_.push_back(std::make_unique<rail_core>(*this, n));
    }
  } catch (const std::bad_alloc&) {}  // then there are fewer
}

void peer_core::say_rails() noexcept {
  while (hello_said_ && rails_said_ != rails_.size() && has_place()) {
    const std::vector<std::byte>& descriptor = rails_[rails_said_++]->descriptor();
    frame_entry& entry = port_->take_entry(*this, frame_entry::use::control);
    std::ranges::copy(descriptor, entry.data + protocol::head_bytes);
    post_frame(entry, {.kind = frame_kind::rail,
                       .body = static_cast<std::uint32_t>(descriptor.size()),
                       .word = rails_said_});
  }
}

void peer_core::on_rail(std::uint64_t number, std::span<const std::byte> descriptor) noexcept {
  if (number == 0 || number >= agreed_.rails) return fail(breach("a rail that was not agreed on"));
  if (number > rails_.size()) return;  // there was no memory for it
  const result<void> heard = rail(number)->connect(descriptor);
  if (!heard) fail(heard.why());
}

void peer_core::on_pair_gone() noexcept {
  for (const std::unique_ptr<rail_core>& r : rails_) {
    if (r->link() != nullptr) r->link()->lose_pair();
  }
  if (endpoint_->frames_in_flight() != 0) port_->flush(*this);
  CORDMA_ASSERT_OP(endpoint_->frames_in_flight(), ==, 0U);
  CORDMA_ASSERT(places_.are_free());
}

void peer_core::describe(std::vector<transport::property>& out) const {
  const auto tell = [&out](std::size_t number, const transport::queue_pair& pair,
                           std::string_view otherwise, std::uint64_t bytes) {
    const std::string self = "rail_" + std::to_string(number);
    const std::vector<transport::property> of_pair = pair.properties();
    const auto named = std::ranges::find(of_pair, "device", &transport::property::name);
    out.push_back(
        {self + "_device", named != of_pair.end() ? named->value : std::string(otherwise)});
    out.push_back({self + "_bytes", std::to_string(bytes)});
  };
  const auto usable_ones = static_cast<std::size_t>(
      std::ranges::count_if(rails_, [](const auto& r) { return r->usable(); }));
  out.push_back({"rails", std::to_string(1 + usable_ones)});
  const std::string_view kind_name = transport::name(endpoint_->caps().transport);
  tell(0, *endpoint_->pair(), kind_name, load_.bytes());
  for (std::size_t n = 1; n <= rails_.size(); ++n) {
    rail_core& r = *rail(n);
    if (r.link() == nullptr || r.link()->pair() == nullptr) continue;
    tell(n, *r.link()->pair(), kind_name, r.load().bytes());
  }
}

// ---- reading ----

// A message of several parts can only be read by a device that has keys for all of them.
bool peer_core::usable(std::size_t number, const protocol::offer& from) const noexcept {
  const rail_core* const r = rail(number);
  if (r == nullptr) return true;
  return r->usable() && r->device() < from.keys &&
         std::ranges::none_of(
             std::span(from.part).first(from.parts),
             [r](const auto& part) { return part.rkeys[r->device()] == 0; });
}

// Returns the next usable rail, or the endpoint's own connection if there is none.
std::size_t peer_core::rail_after(std::size_t number, const protocol::offer& from) const noexcept {
  const std::size_t count = rails_.size() + 1;
  for (std::size_t k = 1; k < count; ++k) {
    const std::size_t next = (number + k) % count;
    if (next != 0 && usable(next, from)) return next;
  }
  return 0;
}

// Distributes the bytes in proportion to the rates of the devices; the rails of a device share its
// rate. A short message uses the rail with the fewest bytes in flight.
void peer_core::plan(fetch& f) noexcept {
  f.plan_one();
  if (rails_.empty() || f.wanted() == 0) return;
  // A device for which the receive's memory is not registered is treated like one without keys of
  // the peer.
  for (std::size_t device = 1; device < agreed_.devices; ++device) {
    if (f.into().region()->keys[port_->devices()[device].place].lkey == 0) f.leave_out(device);
  }
  const std::size_t count = rails_.size() + 1;
  CORDMA_ASSERT_OP(count, <=, protocol::most_rails);
  std::array<protocol::rail_state, protocol::most_rails> states;
  std::array<std::uint64_t, protocol::most_devices> users{};
  const auto device_of = [this](std::size_t n) { return n == 0 ? 0 : rail(n)->device(); };
  for (std::size_t n = 0; n < count; ++n) {
    states[n].healthy = usable(n, f.from());
    users[device_of(n)] += states[n].healthy ? 1U : 0U;
  }
  for (std::size_t n = 0; n < count; ++n) {
    const std::uint64_t rate = port_->devices()[device_of(n)].via->domain().caps().rate;
    if (states[n].healthy) states[n].rate = rate / users[device_of(n)];
    states[n].under_way = (n == 0 ? load_ : rail(n)->load()).under_way();
  }
  f.plan(protocol::split(f.wanted(), std::span(states).first(count)));
}

void peer_core::read_piece(fetch& f, std::uint8_t index) noexcept {
  fetch_piece& p = f.pieces()[index];
  while (p.begin != p.end && !f.is_broken() && endpoint_->pair() != nullptr) {
    if (p.again || !usable(p.rail, f.from())) {
      if (p.reads != 0) return;  // they still complete, or are flushed
      p.again = false;
      p.at = p.begin;
      p.rail = static_cast<std::uint8_t>(rail_after(p.rail, f.from()));
    }
    rail_core* const over = rail(p.rail);
    const bool has_room =
        over == nullptr ? has_place() : over->places().has_one() && port_->has_entry();
    if (p.at == p.end || !has_room) return;
    post_read(f, index);
  }
}

void peer_core::post_read(fetch& f, std::uint8_t index) noexcept {
  fetch_piece& p = f.pieces()[index];
  rail_core* const over = rail(p.rail);
  const std::uint32_t device = over != nullptr ? over->device() : 0;
  const endpoint_core& by = over != nullptr ? *over->link() : *endpoint_;
  std::uint64_t in_part = p.at;
  const protocol::offer_part* part = f.from().part.data();
  for (; in_part >= part->bytes; ++part) in_part -= part->bytes;
  CORDMA_ASSERT_OP(part - f.from().part.data(), <, f.from().parts);
  const std::uint64_t n =
      std::min({part->bytes - in_part, p.end - p.at, longest_request, by.caps().max_message});
  CORDMA_ASSERT_OP(n, >, 0U);
  const transport::segment into{f.into().data() + p.at, static_cast<std::uint32_t>(n),
                                f.into().region()->keys[port_->devices()[device].place].lkey};
  frame_entry& entry = port_->take_entry(*this, frame_entry::use::read, over);
  entry.reads_for = &f;
  entry.piece = index;
  entry.length = static_cast<std::uint32_t>(n);
  (over != nullptr ? over->load() : load_).post(n);
  f.post_read(p, n);
  transport::send_request request{.op = transport::opcode::read,
                                  .segment_count = 1,
                                  .segments = &into,
                                  .remote_addr = part->addr + in_part,
                                  .rkey = part->rkeys[device]};
  post(entry, request);
}

}  // namespace cordma::detail
