#include <cordma/net/endpoint.hpp>

#include <cordma/net/datapath/posting.hpp>
#include <cordma/net/datapath/worker_core.hpp>
#include <cordma/net/memory/key_names.hpp>

namespace cordma {

using transport::opcode;

std::string_view name(endpoint_state s) noexcept {
  switch (s) {
    case endpoint_state::connecting: return "connecting";
    case endpoint_state::connected: return "connected";
    case endpoint_state::closing: return "closing";
    case endpoint_state::closed: return "closed";
  }
  return "?";
}

Endpoint::Endpoint() noexcept = default;
Endpoint::Endpoint(std::unique_ptr<detail::endpoint_core> core) noexcept : core_(std::move(core)) {
  if (core_ != nullptr) core_->belong_to(this);
}
Endpoint::Endpoint(Endpoint&& other) noexcept
    : user_data_holder(other), core_(std::move(other.core_)) {
  if (core_ != nullptr) core_->belong_to(this);
}

Endpoint& Endpoint::operator=(Endpoint&& other) noexcept {
  if (this != &other) {
    Endpoint old(std::move(*this));
    core_ = std::move(other.core_);
    if (core_ != nullptr) core_->belong_to(this);
    user_data_holder::operator=(other);
  }
  return *this;
}

Endpoint::~Endpoint() {
  if (core_ == nullptr) return;
  if (core_->worker() == nullptr) return;
  core_->worker()->enter_to_destroy();
  core_->worker()->bury(std::move(core_));
}

send_operation Endpoint::send(const Slice& message) noexcept {
  send_operation op(*core_, opcode::send);
  op.add(message);
  return op;
}

send_operation Endpoint::send(std::span<const Slice> gathered) noexcept {
  send_operation op(*core_, opcode::send);
  op.add(gathered);
  return op;
}

send_operation Endpoint::send_imm(const Slice& message, std::uint32_t imm) noexcept {
  send_operation op(*core_, opcode::send_imm);
  op.add(message);
  op.set_imm(imm);
  return op;
}

send_operation Endpoint::send_inline(std::span<const std::byte> message) noexcept {
  send_operation op(*core_, opcode::send);
  op.set_inline(message);
  return op;
}

send_operation Endpoint::send(Buffer message, std::size_t bytes) noexcept {
  send_operation op(*core_, opcode::send);
  if (!message || bytes > message.size()) [[unlikely]] {
    op.refuse(
        failure::of(errc::invalid_value, {bytes, " bytes of a buffer that has ", message.size(),
                                          message ? "" : ": it was moved from or given back"}));
    return op;
  }
  op.add(message.first(bytes));
  op.lease(std::move(message));
  return op;
}

recv_operation Endpoint::recv(const Slice& into) noexcept {
  recv_operation op(*core_, opcode::recv);
  op.add(into);
  return op;
}

recv_operation Endpoint::recv(std::span<const Slice> scattered) noexcept {
  recv_operation op(*core_, opcode::recv);
  op.add(scattered);
  return op;
}

message_operation Endpoint::recv(BufferPool& pool) noexcept {
  message_operation op(*core_, opcode::recv);
  result<Buffer> buffer = pool.take();
  if (buffer.code() == errc::no_memory) {
    op.refuse({errc::no_memory, "all buffers of the pool are on loan"});
  } else if (!buffer) {
    op.refuse(buffer.why());
  } else {
    op.add(buffer->all());
    op.lease(std::move(*buffer));
  }
  return op;
}

result<void> Endpoint::publish_receives(const MemoryRegion& word) {
  if (core_->home() != nullptr && !core_->home()->on_owner_thread())
    return core_->home()->wrong_thread(detail::endpoint_rule);
  if (core_->granted().shared != nullptr) {
    return failure{errc::bad_state, "the receives of this Endpoint are those of its SharedReceive"};
  }
  const detail::region_core* const region = word.all().region();
  const bool aligned = reinterpret_cast<std::uintptr_t>(word.data()) % 8 == 0;
  if (region == nullptr || region->context != core_->context() || word.size() < 8 || !aligned) {
    return failure{errc::invalid_value,
                   "it takes 8 aligned bytes of a MemoryRegion of the same Context"};
  }
  if (region->of_device()) {
    return failure{errc::not_supported,
                   "the count of receives is written by the CPU: publish it in host memory"};
  }
  core_->publish_receives(word);
  return {};
}

send_operation Endpoint::write(const RemoteSlice& to, const Slice& data) noexcept {
  send_operation op(*core_, opcode::write);
  op.add(data);
  op.target(to);
  return op;
}

send_operation Endpoint::write(const RemoteSlice& to, std::span<const Slice> gathered) noexcept {
  send_operation op(*core_, opcode::write);
  op.add(gathered);
  op.target(to);
  return op;
}

send_operation Endpoint::write_imm(const RemoteSlice& to, const Slice& data,
                                   std::uint32_t imm) noexcept {
  send_operation op(*core_, opcode::write_imm);
  op.add(data);
  op.target(to);
  op.set_imm(imm);
  return op;
}

send_operation Endpoint::read(const RemoteSlice& from, const Slice& into) noexcept {
  send_operation op(*core_, opcode::read);
  op.add(into);
  op.target(from);
  return op;
}

send_operation Endpoint::read(const RemoteSlice& from, std::span<const Slice> scattered) noexcept {
  send_operation op(*core_, opcode::read);
  op.add(scattered);
  op.target(from);
  return op;
}

atomic_operation Endpoint::fetch_add(const RemoteSlice& word, std::uint64_t addend) noexcept {
  atomic_operation op(*core_, opcode::fetch_add);
  op.target_word(word);
  op.set_operands(addend, 0);
  return op;
}

atomic_operation Endpoint::compare_swap(const RemoteSlice& word, std::uint64_t expected,
                                        std::uint64_t desired) noexcept {
  atomic_operation op(*core_, opcode::compare_swap);
  op.target_word(word);
  op.set_operands(expected, desired);
  return op;
}

bind_operation Endpoint::bind(const MemoryRegion& region, std::size_t offset, std::size_t length,
                              access rights) noexcept {
  return bind_operation(*core_, region, offset, length, rights);
}

send_operation Endpoint::send_invalidate(const Slice& message, const RemoteSlice& window) noexcept {
  return send_invalidate(std::span(&message, 1), window);
}

send_operation Endpoint::send_invalidate(std::span<const Slice> gathered,
                                         const RemoteSlice& window) noexcept {
  send_operation op(*core_, opcode::send_invalidate);
  op.add(gathered);
  op.target_key(window);
  return op;
}

void Endpoint::fence() noexcept {
  if (core_->home() != nullptr && !core_->home()->enter()) return;
  core_->fence();
}

send_operation Endpoint::flush() noexcept { return send_operation(*core_, opcode::flush); }

Endpoint::Batch::Batch(detail::endpoint_core& endpoint) noexcept : endpoint_(endpoint) {
  if (endpoint_.home() != nullptr) static_cast<void>(endpoint_.home()->enter());
  endpoint_.begin_batch();
}
Endpoint::Batch::~Batch() { endpoint_.end_batch(); }
Endpoint::Batch Endpoint::batch() noexcept { return Batch(*core_); }

state_operation Endpoint::close() noexcept {
  return state_operation(*core_, state_operation::kind::close);
}
state_operation Endpoint::state_changed() noexcept {
  return state_operation(*core_, state_operation::kind::any_change);
}

result<std::vector<std::byte>> Endpoint::descriptor() const {
  if (core_->state() != endpoint_state::connecting || core_->pair() == nullptr)
    return errc::bad_state;
  if (core_->home() == nullptr) return errc::shutdown;
  if (!core_->home()->on_owner_thread()) return core_->home()->wrong_thread(detail::endpoint_rule);
  return core_->pair()->descriptor();
}

result<void> Endpoint::connect(std::span<const std::byte> peer_descriptor) {
  if (core_->state() != endpoint_state::connecting || core_->pair() == nullptr) {
    return failure{errc::bad_state, "it was connected before"};
  }
  if (!core_->home()->on_owner_thread()) return core_->home()->wrong_thread(detail::endpoint_rule);
  return core_->pair()->connect(peer_descriptor);
}

void Endpoint::abort() noexcept { core_->abort(); }

endpoint_state Endpoint::state() const noexcept { return core_->state(); }
const failure* Endpoint::first_cause() const noexcept { return core_->cause().get(); }
const endpoint_options& Endpoint::actual() const noexcept { return core_->granted(); }
std::vector<transport::property> Endpoint::properties() const {
  if (core_->pair() == nullptr) return {};
  std::vector<transport::property> all = core_->pair()->properties();
  const bool open = core_->state() != endpoint_state::closed;
  if (core_->frames() != nullptr && open) core_->frames()->describe(all);
  return all;
}
result<RemoteView> Endpoint::view(const RemoteSlice& of) const {
  if (core_->home() != nullptr && !core_->home()->on_owner_thread())
    return core_->home()->wrong_thread(detail::endpoint_rule);
  if (core_->pair() == nullptr) return failure{errc::not_connected, "there is no queue pair"};
  if (detail::all_unknown(of.keys())) return detail::no_key(of.keys(), transport());
  result<transport::peer_view> found =
      core_->pair()->view(of.rkey(transport()), of.addr(), of.size());
  if (!found) return found.why();
  return RemoteView(std::move(*found));
}
result<transport::queue_pair_state> Endpoint::debug_state() const {
  if (core_->home() != nullptr && !core_->home()->on_owner_thread())
    return core_->home()->wrong_thread(detail::endpoint_rule);
  if (core_->pair() == nullptr) return failure{errc::not_connected, "there is no queue pair"};
  return core_->pair()->device_state();
}
transport::kind Endpoint::transport() const noexcept { return core_->caps().transport; }
const transport::capabilities& Endpoint::abilities() const noexcept { return core_->caps(); }
const std::string& Endpoint::transport_reason() const noexcept { return core_->told().reason; }
std::string Endpoint::local_address() const {
  return core_->pair() != nullptr ? core_->pair()->local_address() : std::string();
}
std::string Endpoint::peer_address() const {
  return core_->pair() != nullptr ? core_->pair()->peer_address() : std::string();
}
std::span<const std::byte> Endpoint::peer_data() const noexcept { return core_->told().peer_data; }
std::size_t Endpoint::inflight() const noexcept { return core_->inflight(); }
endpoint_counters Endpoint::counters() const noexcept { return core_->counters(); }

state_operation::state_operation(detail::endpoint_core& endpoint, kind what) noexcept
    : operation(endpoint.home()), endpoint_(&endpoint), kind_(what) {}

void state_operation::do_start() noexcept {
  if (endpoint_->worker() == nullptr) {
    resolve(endpoint_state::closed);
    return;
  }
  if (!endpoint_->home()->on_owner_thread()) {
    failure_.emplace(endpoint_->home()->wrong_thread(detail::endpoint_rule));
    finish();
    return;
  }
  if (kind_ == kind::close) endpoint_->close();
  if (endpoint_->state() == endpoint_state::closed) {
    resolve(endpoint_state::closed);
    return;
  }
  set_phase(phase::queued);
  endpoint_->wait(*this);
}

void state_operation::do_cancel() noexcept {
  unlink();
  failure_.emplace(errc::canceled);
  finish();
}

}  // namespace cordma
