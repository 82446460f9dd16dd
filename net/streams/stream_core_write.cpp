// The sending half of stream_core: notifications and data.
#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/streams/stream_core.hpp>
#include <cordma/net/transport/little_endian.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace cordma::detail {

using transport::store;

stream_core::outgoing* stream_core::free_outgoing() noexcept {
  const auto free = std::ranges::find_if(sends_, [](const outgoing& o) { return !o.busy; });
  return free != sends_.end() ? &*free : nullptr;
}

// REQUIRES its operation.
void stream_core::launch(outgoing& out) noexcept {
  out.busy = true;
  out.op->mark_solicited();
  out.op->start();
  if (out.op->done()) return on_sent(out);
  out.op->observe(
      [](operation_base&, void* at) noexcept {
        auto& done = *static_cast<outgoing*>(at);
        done.core->on_sent(done);
        done.core->pump();
      },
      &out);
}

void stream_core::on_sent(outgoing& out) noexcept {
  const result<void> sent = out.op->take_result();
  out.busy = false;
  out.keeps = MemoryRegion();
  if (out.staged != 0) to_peer_->staged.release(std::exchange(out.staged, 0U));
  const std::uint64_t bytes = std::exchange(out.bytes, 0U);
  const bool is_end = std::exchange(out.is_end, false);
  if (sent) {
    there_ += bytes;
    if (is_end) own_end_.become(own_end::there);
  }
  changed_.set();
  stream_write_operation* const op = std::exchange(out.for_op, nullptr);
  if (op != nullptr) {
    CORDMA_ASSERT_OP(op->under_way_, >, 0U);
    --op->under_way_;
    if (!sent) {
      op->fail(first_cause_or(sent.why()));
    } else if (!op->linked() && op->under_way_ == 0) {
      op->end();
    }
  }
  // These bytes were never sent, and later ones would take their position.
  if (sent.code() == errc::no_memory && !ended_) out_of_memory();
}

void stream_core::say(outgoing& out, word what, std::uint32_t number,
                      std::span<const std::byte> blob) noexcept {
  CORDMA_ASSERT(!out.busy && out.for_op == nullptr);
  CORDMA_ASSERT_OP(blob.size(), <=, RemoteMemory::blob_bytes);
  const std::span<std::byte> text(out.room.data(), word_bytes);
  std::ranges::fill(text, std::byte{0});
  const bool greeting = what == word::hello;
  store(&text[0], static_cast<std::uint32_t>(what));
  store(&text[4], number);
  store(&text[8], greeting ? std::uint64_t{options_.window_bytes} : reader_.consumed());
  store(&text[16], greeting ? std::uint64_t{options_.notices} : reader_.given());
  std::ranges::copy(blob, text.begin() + 24);
  if (to_peer_) to_peer_->flow.speak();
  out.op.emplace(endpoint_.core(), transport::opcode::send).add(out.room.first(word_bytes));
  launch(out);
}

void stream_core::say_what_is_due() {
  outgoing* out = free_outgoing();
  if (!hello_said_ && out != nullptr) {
    const result<std::vector<std::byte>> blob = ring_.export_blob();
    if (!blob) return end(blob.why());
    hello_said_ = true;
    say(*out, word::hello, version, *blob);
  }
  while (to_peer_ && to_peer_->flow.may_speak() && (out = free_outgoing()) != nullptr) {
    if (reader_.has_to_tell()) {
      reader_.told();
      say(*out, word::window, 0, {});
    } else if (!to_peer_->flow.has_notice()) {
      return;
    } else if (mapped_.has_unsaid()) {
      const result<std::vector<std::byte>> blob = mapped_.unsaid_blob();
      if (!blob) return end(blob.why());
      const std::uint32_t number = mapped_.first_unsaid();
      mapped_.said();
      say(*out, word::mapped, number, *blob);
    } else if (own_end_ == own_end::due && writers_.empty()) {
      own_end_.become(own_end::said);
      out->is_end = true;
      say(*out, word::end, 0, {});
    } else {
      return;
    }
  }
}

void stream_core::pump_slowly() noexcept {
  if (ended_ || home() == nullptr || std::exchange(pumping_, true)) return;
  try {
    say_what_is_due();
    // Notifications are sent first. A notification that must wait stops data too.
    while (!writers_.empty() && write_now(writers_.front())) {}
    say_what_is_due();
  } catch (const std::bad_alloc&) {
    out_of_memory();
  }
  pumping_ = false;
}

// False if it has to wait for space: it stays in the list. A copied write is done with its first
// bytes, unless it must be written completely.
bool stream_core::write_now(stream_write_operation& op) noexcept {
  if (may_put() && put(op)) return true;
  outlet& to = *to_peer_;
  const std::uint64_t whole = op.bytes_.size();
  const bool copied = op.registered_.region() == nullptr;
  while (op.written_ < whole) {
    const std::uint64_t at = to.flow.sent() % to.ring.size();
    std::uint64_t n = to.piece(at, whole - op.written_);
    if (copied) n = std::min(n, to.staged.room());
    outgoing* const out = free_outgoing();
    if (n == 0 || out == nullptr) {
      if (!op.has_enough()) return false;
      break;
    }
    const Slice from = copied ? to.staged.copy(op.bytes_.subspan(op.written_, n))
                              : op.registered_.part(op.written_, n);
    out->bytes = n;
    out->staged = copied ? n : 0;
    to.flow.send(n);
    op.written_ += n;
    if (!copied) {
      out->for_op = &op;
      ++op.under_way_;
    }
    send_operation& request = out->op.emplace(endpoint_.core(), transport::opcode::write_imm);
    request.add(from);
    request.target(to.part(at, n));
    launch(*out);
    if (op.state() != operation_base::phase::queued) return true;  // that request was refused
  }
  op.end();
  return true;
}

// Writes as much as fits directly from its memory; no request completes. True if the operation is
// done. REQUIRES may_put().
bool stream_core::put(stream_write_operation& op) noexcept {
  outlet& to = *to_peer_;
  const std::uint64_t whole = op.bytes_.size();
  while (op.written_ < whole) {
    const std::uint64_t at = to.flow.sent() % to.ring.size();
    const std::uint64_t n = to.piece(at, whole - op.written_);
    if (n == 0 || !put(op.bytes_.subspan(op.written_, n), op.registered_, at)) return false;
    to.flow.send(n);
    op.written_ += n;
    there_ += n;
    endpoint_.core().count_put(n);
  }
  op.end();
  return true;
}

bool stream_core::put(std::span<const std::byte> bytes, const Slice& registered,
                      std::uint64_t at) noexcept {
  endpoint_core& e = endpoint_.core();
  const RemoteSlice& ring = to_peer_->ring;
  const region_core* const from = registered.region();
  const transport::segment local{.addr = const_cast<std::byte*>(bytes.data()),  // only read
                                 .length = static_cast<std::uint32_t>(bytes.size()),
                                 .lkey = from != nullptr ? from->keys[e.kind()].lkey : 0};
  transport::send_request request;
  request.op = transport::opcode::write_imm;
  request.segment_count = 1;
  request.segments = &local;
  request.remote_addr = ring.addr() + at;
  request.rkey = ring.keys().in(e.key_place());
  return ring.keys().is_in(e.key_place(), static_cast<transport::kind>(e.kind())) &&
         e.pair()->post_now(request);
}

void stream_core::write(stream_write_operation& op) noexcept {
  if (!is_writable()) [[unlikely]]
    return op.fail(why_not());
  const region_core* const from = op.registered_.region();
  if (from != nullptr && from->context != endpoint_.core().context()) {
    return op.fail({errc::invalid_value, "the slice's region belongs to another Context"});
  }
  op.set_phase(operation_base::phase::queued);
  if (writers_.empty() && !is_word_due() && may_put() && put(op)) return;
  writers_.push_back(op);
  pump();
}

void stream_core::moved(const stream_write_operation& from, stream_write_operation& to) noexcept {
  for (outgoing& out : sends_) {
    if (out.for_op == &from) out.for_op = &to;
  }
}

// Requests in flight keep their memory.
void stream_core::left(const stream_write_operation& op) noexcept {
  for (outgoing& out : sends_) {
    if (out.for_op != &op) continue;
    CORDMA_ASSERT(out.busy && op.registered_.region() != nullptr);
    out.for_op = nullptr;
    retain(*op.registered_.region());
    out.keeps = MemoryRegion(op.registered_.region());
  }
}

}  // namespace cordma::detail
