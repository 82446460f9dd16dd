#include <cordma/net/operations.hpp>

#include <cordma/net/detail/worker_core.hpp>

#include <limits>
#include <string>

namespace cordma::detail {

using transport::opcode;

post_base::post_base(endpoint_core& endpoint, opcode op, aside needs) noexcept
    : operation_base(endpoint.home),
      aside_(needs == aside::nothing ? endpoint.plain_needs : needs),
      op_(op),
      endpoint_(&endpoint) {}

post_base::post_base(post_base&& other) noexcept
    : operation_base(std::move(other)),
      aside_(other.aside_),
      op_(other.op_),
      flags_(other.flags_),
      segment_count_(other.segment_count_),
      slot_(std::exchange(other.slot_, no_slot)),
      endpoint_(other.endpoint_),
      imm_(other.imm_),
      total_(other.total_),
      remote_addr_(other.remote_addr_),
      rkey_(other.rkey_),
      operand_(other.operand_),
      swap_(other.swap_),
      received_(other.received_),
      lease_(std::move(other.lease_)),
      failure_(std::move(other.failure_)),
      segments_(other.segments_),
      regions_(other.regions_) {
  if (slot_ != no_slot) endpoint_->worker->at(slot_).op = this;
}

post_base::~post_base() {
  if (slot_ != no_slot) endpoint_->worker->detach(*this);
}

void post_base::refuse(failure why) noexcept {
  if (!failure_) failure_ = std::move(why.with_operation(transport::name(op_)));
}

void post_base::add(const Slice& s) noexcept {
  if (s.size() == 0 && s.region() == nullptr) return;
  if (segment_count_ == most_segments) {
    refuse({errc::invalid_value, "more than " + std::to_string(most_segments) + " slices"});
    return;
  }
  if (s.region() == nullptr) {
    refuse({errc::invalid_value, "a slice that belongs to no MemoryRegion"});
    return;
  }
  if (s.region()->context != endpoint_->context) [[unlikely]] {
    refuse({errc::invalid_value, "the slice's region belongs to another Context"});
    return;
  }
  const std::uint32_t lkey = s.region()->keys[endpoint_->kind].lkey;
  if (s.size() > std::numeric_limits<std::uint32_t>::max()) {
    refuse({errc::invalid_value, "a slice of 4 GiB or more: split it"});
    return;
  }
  const bool lands_here = op_ == opcode::recv || op_ == opcode::read;
  if (lands_here && !has(s.region()->range.rights, access::local_write)) {
    refuse({errc::not_permitted, "the region lacks access::local_write"});
    return;
  }
  segments_[segment_count_] = {s.data(), static_cast<std::uint32_t>(s.size()), lkey};
  regions_[segment_count_] = s.region();
  ++segment_count_;
  total_ += s.size();
}

void post_base::find_keys() noexcept {
  for (std::uint16_t i = 0; i < segment_count_; ++i) {
    if (regions_[i] != nullptr) segments_[i].lkey = regions_[i]->keys[endpoint_->kind].lkey;
  }
  aside_ = aside::nothing;
}

void post_base::add(std::span<const Slice> slices) noexcept {
  for (const Slice& s : slices) add(s);
}

void post_base::target(const RemoteSlice& remote, std::uint64_t bytes) noexcept {
  if (remote.size() != bytes) {
    refuse({errc::invalid_value, "the remote slice has " + std::to_string(remote.size()) +
                                     " bytes, the local one " + std::to_string(bytes)});
    return;
  }
  remote_addr_ = remote.addr();
  rkey_ = remote.rkey(endpoint_->caps->transport);
  if (rkey_ == 0 && endpoint_->wiring != nullptr) {
    refuse({errc::not_connected,
            "a one-sided operation needs a connection: await state_changed() first"});
  } else if (rkey_ == 0) {
    refuse({errc::not_permitted, "the remote memory was not exported for the " +
                                     std::string(transport::name(endpoint_->caps->transport)) +
                                     " transport"});
  }
}

void post_base::target_word(const RemoteSlice& word) noexcept {
  constexpr std::uint64_t bytes = 8;
  target(word, bytes);
  if (word.addr() % bytes != 0) {
    refuse({errc::invalid_value, "an atomic needs an address that is a multiple of 8"});
  }
}

void post_base::set_inline(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() > endpoint_->granted.inline_bytes) {
    refuse({errc::invalid_value,
            std::to_string(bytes.size()) + " bytes are more than the inline limit of " +
                std::to_string(endpoint_->granted.inline_bytes) +
                ": send them from a MemoryRegion, or ask for more with inline_bytes"});
    return;
  }
  flags_ |= transport::post_flag::inline_data;
  // post_send() only reads inline data.
  segments_[0] = {const_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
                  0};
  regions_[0] = nullptr;
  segment_count_ = 1;
  total_ = bytes.size();
}

void post_base::lease(Buffer&& buffer) noexcept { lease_ = std::move(buffer); }

void post_base::start_post() noexcept {
  endpoint_core& e = *endpoint_;
  if (failure_) {
    finish();
  } else if (e.worker == nullptr || !e.home->on_owner_thread()) {
    complete_failed({e.worker == nullptr ? errc::shutdown : errc::no_lock,
                     e.worker == nullptr
                         ? "its Worker is gone"
                         : "endpoints may only be used on the thread of their Worker"});
  } else if (!is_recv() && !e.caps->supports(e.granted.type, op_)) {
    complete_failed(
        {errc::not_supported, "not available on " + std::string(transport::name(e.granted.type)) +
                                  " endpoints of the " +
                                  std::string(transport::name(e.caps->transport)) + " transport"});
  } else if (segment_count_ > e.granted.max_segments) {
    complete_failed({errc::invalid_value, std::to_string(segment_count_) + " slices, granted are " +
                                              std::to_string(e.granted.max_segments)});
  } else if (total_ > e.caps->max_message) {
    complete_failed({errc::invalid_value, std::to_string(total_) +
                                              " bytes, the largest message is " +
                                              std::to_string(e.caps->max_message)});
  } else {
    if (e.fence_next && !is_recv()) [[unlikely]] {
      flags_ |= transport::post_flag::fence;
      e.fence_next = false;
    }
    e.post_or_queue(*this);
  }
}

void post_base::cancel_post() noexcept {
  if (state() == phase::queued) {
    unlink();
    complete_failed(errc::canceled);
  } else if (lease_) {
    if (is_recv()) {
      endpoint_->worker->make_orphan(*this);
    } else {
      endpoint_->worker->detach(*this);
    }
    complete_failed(errc::canceled);
  }
}

void post_base::complete(const transport::completion& c) noexcept {
  if (c.status != transport::wc_status::success) [[unlikely]] {
    if (c.status == transport::wc_status::wr_flush_err) {
      complete_failed(endpoint_->flushed(transport::name(op_)));
    } else {
      failure why{transport::to_errc(c.status)};
      why.with_status(static_cast<std::uint16_t>(c.status), c.vendor_err)
          .with_operation(transport::name(op_));
      // A datagram port survives what one request dies of.
      if (endpoint_->granted.type != transport::service::ud) endpoint_->end(why);
      complete_failed(std::move(why));
    }
    return;
  }
  if (is_recv()) {
    received_.bytes = c.byte_len;
    received_.imm = c.imm;
    received_.has_imm = c.has_imm;
    received_.op = c.op;
    endpoint_->counters.bytes_received += c.byte_len;
  }
  finish();
}

void post_base::complete_failed(failure why) noexcept {
  failure_ = std::move(why.with_operation(transport::name(op_)));
  finish();
}

}  // namespace cordma::detail
