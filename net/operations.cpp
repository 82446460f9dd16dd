#include <cordma/net/operations.hpp>

#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/memory/key_names.hpp>

#include <algorithm>
#include <string>

namespace cordma::detail {

using transport::opcode;

namespace {

failure needs_connection() {
  return {errc::not_connected,
          "a one-sided operation needs a connection: await state_changed() first"};
}

}  // namespace

// A held receive is posted first, so that it has a slot: its message is dropped, as for any other.
void post_base::leave_slot() noexcept {
  if (linked()) endpoint_->post_held();
  if (slot_ != nullptr) endpoint_->worker()->detach(*this);
}

void post_base::refuse(failure why) noexcept {
  if (!failure_) failure_ = std::move(why.with_operation(op_name()));
}

void post_base::find_keys() noexcept {
  CORDMA_ASSERT_OP(request_.segment_count, <=, segments_.size());
  for (std::uint16_t i = 0; i < request_.segment_count; ++i) {
    if (regions_[i] != nullptr) segments_[i].lkey = regions_[i]->keys[endpoint_->kind()].lkey;
  }
  aside_ = aside::nothing;
}

void post_base::add_with_care(const Slice& s) noexcept {
  const region_core* const region = s.region();
  const bool lands_here = request_.op == opcode::recv || request_.op == opcode::read;
  const bool possible = region != nullptr && region->of_device() &&
                        region->context == endpoint_->context() &&
                        request_.segment_count != most_segments && s.size() <= UINT32_MAX &&
                        (!lands_here || has(region->range.rights, access::local_write));
  if (!possible) return refuse_slice(s);
  request_.flags |= transport::post_flag::device_memory;
  put(request_.segment_count, s);
  total_ += s.size();
}

void post_base::refuse_slice(const Slice& s) noexcept {
  if (s.region() == nullptr) {
    if (s.size() != 0) refuse({errc::invalid_value, "a slice that belongs to no MemoryRegion"});
  } else if (s.region()->context != endpoint_->context()) {
    refuse({errc::invalid_value, "the slice's region belongs to another Context"});
  } else if (request_.segment_count == most_segments) {
    refuse(failure::of(errc::invalid_value, {"more than ", most_segments, " slices"}));
  } else if (s.size() > UINT32_MAX) {
    refuse({errc::invalid_value, "a slice of 4 GiB or more: split it"});
  } else {
    refuse({errc::not_permitted, "the region lacks access::local_write"});
  }
}

void post_base::add(std::span<const Slice> slices) noexcept {
  for (const Slice& s : slices) add(s);
}

post_base::post_base(post_base&& other) noexcept
    : operation_base(std::move(other)),
      aside_(other.aside_),
      slot_(std::exchange(other.slot_, nullptr)),
      endpoint_(other.endpoint_),
      request_(other.request_),
      total_(other.total_),
      received_(other.received_),
      lease_(std::move(other.lease_)) {
  if (slot_ != nullptr) slot_->op = this;
  if (request_.segment_count == 1) [[likely]] {
    segments_[0] = other.segments_[0];
    regions_[0] = other.regions_[0];
  } else {
    copy_slices(other);
  }
}

void post_base::copy_slices(const post_base& other) noexcept {
  const std::size_t count = request_.segment_count;
  CORDMA_ASSERT_OP(count, <=, segments_.size());
  const std::size_t regions = aside_ == aside::window ? 1 : count;  // a bind has no segments
  std::copy_n(other.segments_.begin(), count, segments_.begin());
  std::copy_n(other.regions_.begin(), regions, regions_.begin());
}

// Handles a key of another transport, or a fault.
void post_base::target_with_care(const RemoteSlice& remote, std::uint64_t bytes) noexcept {
  const transport::kind over = endpoint_->caps().transport;
  request_.rkey = 0;
  if (remote.size() != bytes) {
    refuse(failure::of(errc::invalid_value,
                       {"the remote slice has ", remote.size(), " bytes, the local one ", bytes}));
  } else if (endpoint_->via() == nullptr && endpoint_->worker() != nullptr) {
    refuse(needs_connection());
  } else if (!remote.keys().get(over, request_.rkey)) {
    refuse(no_key(remote.keys(), over));
  }  // otherwise its Worker is destroyed, which is reported at the start
}

void post_base::target_word(const RemoteSlice& word) noexcept {
  constexpr std::uint64_t bytes = 8;
  target(word, bytes);
  if (word.addr() % bytes != 0) {
    refuse({errc::invalid_value, "an atomic needs an address that is a multiple of 8"});
  }
}

void post_base::set_inline(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() > endpoint_->granted().inline_bytes) {
    refuse(failure::of(errc::invalid_value,
                       {bytes.size(), " bytes are more than the inline limit of ",
                        endpoint_->granted().inline_bytes,
                        ": send them from a MemoryRegion, or ask for more with inline_bytes"}));
    return;
  }
  request_.flags |= transport::post_flag::inline_data;
  // post_send() only reads inline data.
  segments_[0] = {const_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
                  0};
  regions_[0] = nullptr;
  request_.segment_count = 1;
  total_ = bytes.size();
}

void post_base::lease(Buffer&& buffer) noexcept { lease_ = std::move(buffer); }

void post_base::mark_solicited() noexcept {
  const bool received = request_.op == opcode::send || request_.op == opcode::send_imm ||
                        request_.op == opcode::write_imm || request_.op == opcode::send_invalidate;
  if (received) {
    request_.flags |= transport::post_flag::solicited;
  } else {
    refuse({errc::invalid_value, "only what the peer receives can be solicited"});
  }
}

bool post_base::is_one_sided() const noexcept {
  return request_.op == opcode::write || request_.op == opcode::write_imm ||
         request_.op == opcode::read;
}

void post_base::renew(const Slice& buffer) noexcept {
  start_over();
  if (lease_ || failure_ || !accepts(buffer)) [[unlikely]]
    return renew_with_care(buffer);
  if (buffer.size() != total_ && is_one_sided()) [[unlikely]]
    return renew_with_care(buffer);
  request_.flags &= transport::post_flag::solicited;
  put(0, buffer);
  total_ = buffer.size();
}

void post_base::renew_with_care(const Slice& buffer) noexcept {
  // It never had a valid target, and keeps its failure.
  if (is_one_sided() && request_.rkey == 0) return;
  const std::uint64_t before = total_;
  lease_.reset();
  failure_.reset();
  request_.flags &= transport::post_flag::solicited;
  request_.segment_count = 0;
  total_ = 0;
  add(buffer);
  if (is_one_sided() && total_ != before) refuse_length(before);
}

void post_base::refuse_length(std::uint64_t remote) noexcept {
  refuse(failure::of(errc::invalid_value, {total_, " bytes, the remote slice has ", remote}));
  total_ = remote;
}

failure post_base::obstacle() const noexcept {
  const endpoint_core& e = *endpoint_;
  if (e.worker() == nullptr) return {errc::shutdown, "its Worker is gone"};
  if (!e.home()->on_owner_thread()) {
    return e.home()->wrong_thread(detail::endpoint_rule);
  }
  if (is_recv() && e.granted().shared != nullptr) {
    return {errc::bad_state, e.frames() == nullptr
                                 ? "the messages of this Endpoint come to its SharedReceive"
                                 : "this Endpoint carries tagged and active messages"};
  }
  if (e.frames() != nullptr && consumes_receive(request_.op)) {
    return {errc::bad_state, "this Endpoint carries tagged and active messages"};
  }
  if (!is_recv() && !e.caps().supports(e.granted().type, request_.op)) {
    if (e.is_unwired()) {
      return needs_connection();
    }
    return failure::of(errc::not_supported,
                       {"not available on ", transport::name(e.granted().type),
                        " endpoints of the ", transport::name(e.caps().transport), " transport"});
  }
  if (request_.segment_count > e.granted().max_segments) {
    return failure::of(errc::invalid_value,
                       {request_.segment_count, " slices, granted are ", e.granted().max_segments});
  }
  return failure::of(errc::invalid_value,
                     {total_, " bytes, the largest message is ", e.caps().max_message});
}

void post_base::do_cancel() noexcept {
  if (state() == phase::queued) {
    CORDMA_ASSERT(linked() && slot_ == nullptr);
    unlink();
    complete_failed(errc::canceled);
  } else if (lease_) {
    if (is_recv()) {
      endpoint_->make_orphan(*this);
    } else {
      endpoint_->worker()->detach(*this);
    }
    complete_failed(errc::canceled);
  }
}

void post_base::complete_badly(const transport::completion& c) noexcept {
  CORDMA_ASSERT_OP(c.status, !=, transport::wc_status::success);
  if (c.status == transport::wc_status::wr_flush_err) {
    complete_failed(endpoint_->flushed(op_name()));
    return;
  }
  failure why{transport::to_errc(c.status)};
  why.with_status(static_cast<std::uint16_t>(c.status), c.vendor_err).with_operation(op_name());
  // A datagram port survives the failure of a request.
  if (endpoint_->granted().type != transport::service::ud) endpoint_->end(why);
  complete_failed(std::move(why));
}

void post_base::complete_failed(failure why) noexcept {
  CORDMA_ASSERT_OP(why.code(), !=, errc::ok);
  failure_ = std::move(why.with_operation(op_name()));
  finish();
}

}  // namespace cordma::detail
